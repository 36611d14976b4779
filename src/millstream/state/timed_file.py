"""What a commit says of a file whose rows lie on the line of time, and an index of such files in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Generic, Self, TypeVar

from millstream.core.instant import LAST, Micros


@dataclass(frozen=True, slots=True)
class TimedFile:
    path: str  # relative to the table
    bucket: int | None
    rows: int
    bytes: int
    min_ts: Micros
    max_ts: Micros

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        return cls(**fields)


F = TypeVar("F", bound=TimedFile)


def _order(file: TimedFile) -> tuple[Micros, Micros, str]:
    return file.max_ts, file.min_ts, file.path


def _max_ts(file: TimedFile) -> Micros:
    return file.max_ts


class FileIndex(Generic[F]):
    """Sorted by the greatest ts: what lies after a cursor, and what is older than a horizon, are the two ends of the list."""

    def __init__(self, files: Iterable[F] = ()) -> None:
        self._files = sorted(files, key=_order)
        self.rows = sum(file.rows for file in self._files)
        self.bytes = sum(file.bytes for file in self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[F]:
        return iter(self._files)

    def add(self, files: Iterable[F]) -> None:
        for file in files:
            insort(self._files, file, key=_order)
            self.rows += file.rows
            self.bytes += file.bytes

    def discard(self, paths: Collection[str]) -> None:
        kept = [file for file in self._files if file.path not in paths]
        self._files = kept
        self.rows = sum(file.rows for file in kept)
        self.bytes = sum(file.bytes for file in kept)

    def after(self, ts: Micros, up_to: Micros = LAST) -> list[F]:
        """Files that may hold rows in (ts, up_to]."""
        start = bisect_right(self._files, ts, key=_max_ts)
        return [file for file in self._files[start:] if file.min_ts <= up_to]

    def before(self, horizon: Micros) -> list[F]:
        """Files all of whose rows lie before the horizon."""
        return self._files[: bisect_left(self._files, horizon, key=_max_ts)]
