"""Which files a source has read, in batches, each durable before the first of its rows is.

    <directory>/12.json           the files of batch 12: {"batch": 12, "files": [[modified, path, bytes], ...]}
    <directory>/upto-11.json      all files of batches 0 to 11, merged every MERGE batches
    <directory>/newest            another name of the newest batch's file: tells if that one has vanished

After a crash the last batch is handed out again as it was; whether its rows got into the log, the log knows.
Files that are older than `max_age_us` before the newest one are forgotten, and never read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from millstream.core.errors import DataDamaged
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.state.atomic import atomic_write, create_exclusive, remove_temporaries, writing
from millstream.state.fault import fault_point
from millstream.state.sealed import RESTORE, check_own, read_sealed_json, sealed_json
from millstream.state.spark_checkpoint import require_batch

_NEWEST = "newest"
MERGE = 100
"""So many batches lie side by side before they are merged."""


@dataclass(frozen=True, slots=True, order=True)
class FoundFile:
    modified: Micros
    path: str
    bytes: int


class FileJournal:
    """For one thread of one process."""

    def __init__(self, directory: Path, max_age_us: Micros, committed: int | None = None) -> None:
        """`committed` is the last batch that the log has: a directory that does not know it would give its number out again."""
        self._directory = directory
        self._max_age_us = max_age_us
        self._seen: dict[str, FoundFile] = {}
        self._newest = NEVER_BEFORE
        self.last: tuple[int, list[FoundFile]] | None = None
        self._load()
        require_batch(directory, _number(self.last), committed)
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
        remove_temporaries(directory)

    def is_new(self, path: str) -> bool:
        return path not in self._seen

    def is_too_old(self, file: FoundFile) -> bool:
        return file.modified < self._newest - self._max_age_us

    def begin(self, files: Sequence[FoundFile]) -> int:
        """The files are the next batch from now on; returns its number."""
        number = 0 if self.last is None else self.last[0] + 1
        fault_point("file_journal.before_begin")
        create_exclusive(self._directory / f"{number}.json", _encoded(number, files, merged=False), witness=self._directory / _NEWEST)
        fault_point("file_journal.begun")
        self._note(number, files)
        if (number + 1) % MERGE == 0:
            self._merge(number)
        return number

    def _note(self, number: int, files: Sequence[FoundFile]) -> None:
        self._seen |= {file.path: file for file in files}
        self._newest = max((self._newest, *(file.modified for file in files)))
        self.last = number, list(files)

    def _merge(self, number: int) -> None:
        """Everything but the last batch, which may have to be handed out again."""
        self._seen = {path: file for path, file in self._seen.items() if not self.is_too_old(file)}
        assert self.last is not None
        last = {file.path for file in self.last[1]}
        others = [file for file in self._seen.values() if file.path not in last]
        atomic_write(self._directory / f"upto-{number - 1}.json", _encoded(number - 1, others, merged=True))
        fault_point("file_journal.merged")
        for merged, path in self._numbered("upto-*.json"):
            if merged < number - 1:
                path.unlink()
        for old, path in self._numbered("[0-9]*.json"):
            if old < number:
                path.unlink()

    def _load(self) -> None:
        merged = self._numbered("upto-*.json")
        if merged:
            self._note(merged[-1][0], _files(*merged[-1], merged=True))
        first = merged[-1][0] + 1 if merged else 0
        batches = dict(self._numbered("[0-9]*.json"))
        for number in range(first, max([*batches, _newest(self._directory / _NEWEST)], default=-1) + 1):
            if number not in batches:
                raise DataDamaged(f'the file "{self._directory / f"{number}.json"}" is missing', hint=RESTORE)
            self._note(number, _files(number, batches[number], merged=False))

    def _numbered(self, pattern: str) -> list[tuple[int, Path]]:
        return sorted((int(path.stem.removeprefix("upto-")), path) for path in self._directory.glob(pattern))


def _number(batch: tuple[int, list[FoundFile]] | None) -> int | None:
    return None if batch is None else batch[0]


def _encoded(number: int, files: Sequence[FoundFile], *, merged: bool) -> bytes:
    return sealed_json({"batch": number, "merged": merged, "files": [astuple(file) for file in files]})


def _files(number: int, path: Path, *, merged: bool) -> list[FoundFile]:
    return read_sealed_json(path, lambda saved: _decoded(saved, number, merged=merged))


def _decoded(saved: Any, number: int, *, merged: bool) -> list[FoundFile]:
    check_own("batch", saved["batch"], number)
    if saved.get("merged", merged) != merged:
        raise ValueError(f"it is that of {'one batch' if merged else 'many batches'}")
    return [FoundFile(int(modified), str(name), int(size)) for modified, name, size in saved["files"]]


def _newest(path: Path) -> int:
    try:
        return read_sealed_json(path, lambda saved: int(saved["batch"]))
    except FileNotFoundError:
        return -1
