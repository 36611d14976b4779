"""Files that left a table, and still lie there for readers that hold their names.

`_retired.json` in the table's directory lists them with the time they left.  It is written before the commit that
removes them, so a crash can leave a file both listed and live (then the table wins), never one forgotten.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from millstream.core.errors import DataDamaged
from millstream.state.atomic import atomic_write
from millstream.state.fault import fault_point

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
        self._since.update(dict.fromkeys(paths, since))
        self._save()
        fault_point("retired.listed")

    def forget(self, paths: Iterable[str]) -> None:
        """The commit that should have removed them failed."""
        for path in paths:
            self._since.pop(path, None)
        self._save()

    def remove_expired(self, *, grace_s: float = GRACE_S, now_s: float | None = None) -> int:
        """Deletes those that left longer than the grace period ago; returns how many."""
        limit = (time.time() if now_s is None else now_s) - grace_s
        expired = [path for path, since in self._since.items() if since <= limit]
        for path in expired:
            (self._directory / path).unlink(missing_ok=True)
            del self._since[path]
        if expired:
            fault_point("retired.deleted")
            self._save()
        return len(expired)

    def sweep(self, live: Collection[str]) -> int:
        """Deletes files that no commit ever named.  Only while nobody else writes: when the location has just been opened."""
        known = set(live) | self._since.keys()
        orphans = [path for path in _parquet_files(self._directory) if path not in known]
        for path in orphans:
            (self._directory / path).unlink(missing_ok=True)
        return len(orphans)

    def _save(self) -> None:
        atomic_write(self._directory / _LIST, json.dumps(self._since).encode())


def _listed(directory: Path) -> dict[str, float]:
    try:
        return dict(json.loads((directory / _LIST).read_bytes()))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise DataDamaged(f'"{directory / _LIST}" is damaged', hint="Remove it: files that left the table will then go at once.") from error


def _parquet_files(directory: Path) -> list[str]:
    """Relative to the directory, one level of partition folders deep."""
    found: list[str] = []
    for entry in os.scandir(directory):
        if entry.name.startswith("_bucket=") and entry.is_dir():
            found += [f"{entry.name}/{file.name}" for file in os.scandir(entry.path)]
        elif entry.name.endswith(".parquet"):
            found.append(entry.name)
    return found
