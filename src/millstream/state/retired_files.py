"""Files that left a table, and still lie there for readers that hold their names.

`_retired.json` in the table's directory lists them with the time they left.  It is written before the commit that
removes them, so a crash can leave a file both listed and live (then the table wins), never one forgotten.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from millstream.state.atomic import atomic_write, remove_file, writing
from millstream.state.fault import fault_point
from millstream.state.sealed import read_sealed_json, sealed_json

GRACE_S = 600.0
_LIST = "_retired.json"


class RetiredFiles:
    def __init__(self, directory: Path, live: Collection[str]) -> None:
        self._directory = directory
        self._since = {path: since for path, since in _listed(directory).items() if path not in live}

    def __len__(self) -> int:
        return len(self._since)

    def retire(self, paths: Iterable[str], *, now_s: float | None = None) -> None:
        """To be called just before the commit that removes them."""
        since = time.time() if now_s is None else now_s
        self._save(self._since | dict.fromkeys(paths, since))
        fault_point("retired.listed")

    def forget(self, paths: Iterable[str]) -> None:
        """The commit that should have removed them failed."""
        gone = set(paths)
        self._since = {path: since for path, since in self._since.items() if path not in gone}
        self._save(self._since)

    def remove_expired(self, *, grace_s: float = GRACE_S, now_s: float | None = None) -> int:
        """Deletes those that left longer than the grace period ago; returns how many."""
        limit = (time.time() if now_s is None else now_s) - grace_s
        expired = [path for path, since in self._since.items() if since <= limit]
        for path in expired:
            fault_point("retired.before_delete")
            with writing(self._directory / path):
                (self._directory / path).unlink(missing_ok=True)
        if expired:
            fault_point("retired.deleted")
            self._save({path: since for path, since in self._since.items() if since > limit})
        return len(expired)

    def sweep(self, live: Collection[str]) -> int:
        """Deletes files that no commit ever named.  Only while nobody else writes: when the location has just been opened."""
        known = set(live) | self._since.keys()
        orphans = [path for path in _parquet_files(self._directory) if path not in known]
        for path in orphans:
            remove_file(self._directory / path)
            fault_point("retired.swept")
        return len(orphans)

    def _save(self, since: dict[str, float]) -> None:
        """On disk first: a file that is listed here will be deleted, so in memory it must not be ahead of a commit that did not come."""
        atomic_write(self._directory / _LIST, sealed_json(since))
        self._since = since


def _listed(directory: Path) -> dict[str, float]:
    try:
        hint = "Remove it: files that left the table will then go at once."
        return read_sealed_json(directory / _LIST, lambda listed: {str(path): float(since) for path, since in listed.items()}, hint=hint)
    except FileNotFoundError:
        return {}


def _parquet_files(directory: Path) -> list[str]:
    """Relative to the directory, one level of partition folders deep."""
    found: list[str] = []
    for entry in os.scandir(directory):
        if entry.name.startswith("_bucket=") and entry.is_dir():
            found += [f"{entry.name}/{file.name}" for file in os.scandir(entry.path)]
        elif entry.name.endswith(".parquet"):
            found.append(entry.name)
    return found
