"""Rows that wait, at most so many: what does not fit is dropped, the oldest or the newest first, and counted.

The queue of Fjords (Madden and Franklin, section 3): a stream of the real world cannot be paused, so a queue that is full discards.
Nothing here waits for anybody, calls anybody or knows of threads; that is the feed's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from millstream.core.errors import ConfigInvalid, TypeMismatch, did_you_mean
from millstream.core.instant import Micros
from millstream.runtime.row_values import REFUSALS, shown

WhenFull = Literal["drop_oldest", "drop_newest", "block"]
Rows: TypeAlias = list[Any] | pa.Table


@dataclass(frozen=True)
class Passed:
    """Time has come to here, though no row says so."""

    ts: Micros

    def __len__(self) -> int:
        return 0


Piece: TypeAlias = Rows | Passed


class BoundedRows:
    """With `block` nothing is dropped: whoever puts looks for `room` first."""

    def __init__(self, capacity: int, when_full: WhenFull = "drop_oldest") -> None:
        if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
            raise ConfigInvalid(f"the capacity of a feed is a positive number of rows, not {capacity!r}", hint="Such as capacity=10_000.")
        if when_full not in get_args(WhenFull):
            names = get_args(WhenFull)
            hint = did_you_mean(str(when_full), names) or f"There are {', '.join(names)}."
            raise ConfigInvalid(f"a full feed cannot {when_full!r}", hint=hint)
        self.capacity = capacity
        self.when_full = when_full
        self.waiting = 0
        self.dropped = 0
        self._pieces: deque[Piece] = deque()

    @property
    def room(self) -> int:
        return self.capacity - self.waiting

    @property
    def is_empty(self) -> bool:
        return not self._pieces

    def put(self, rows: Rows) -> None:
        if self.when_full == "drop_newest" and len(rows) > self.room:
            self.dropped += len(rows) - self.room
            rows = first_rows(rows, self.room)
        if len(rows):
            self._pieces.append(rows)
            self.waiting += len(rows)
        self._make_room()

    def note(self, ts: Micros) -> None:
        """Behind the rows that are there: time has come to `ts`."""
        if self._pieces and isinstance(last := self._pieces[-1], Passed):
            self._pieces[-1] = Passed(max(ts, last.ts))
        else:
            self._pieces.append(Passed(ts))

    def take(self) -> list[Piece]:
        """All that waits, in order."""
        pieces, self._pieces, self.waiting = list(self._pieces), deque(), 0
        return pieces

    def _make_room(self) -> None:
        while self.waiting > self.capacity:
            oldest = self._pieces.popleft()
            surplus = min(len(oldest), self.waiting - self.capacity)
            self.waiting -= surplus
            self.dropped += surplus
            if surplus < len(oldest):
                assert not isinstance(oldest, Passed), "it has no rows to drop"
                self._pieces.appendleft(rows_behind(oldest, surplus))


def counted(rows: object) -> Rows:
    """Rows in any form that `insert` takes, such that they can be counted and cut."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | dict) and not hasattr(rows, "__arrow_c_stream__"):
        return list(rows)
    try:
        return pa.table(rows)
    except REFUSALS as error:
        raise TypeMismatch(
            f"a feed takes no {type(rows).__name__}: {shown(error)}",
            hint="Give a list of tuples or dicts, a pyarrow.Table or a data frame.",
        ) from error


def first_rows(rows: Rows, count: int) -> Rows:
    return rows[:count] if isinstance(rows, list) else rows.slice(0, count)


def rows_behind(rows: Rows, count: int) -> Rows:
    return rows[count:] if isinstance(rows, list) else rows.slice(count)


def together(pieces: Iterable[Piece]) -> list[Piece]:
    """The same rows in the same order, in as few pieces as may be: each is a commit of the stream's log."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, list) and isinstance(last, list):
            joined[-1] = last + piece
        elif isinstance(piece, pa.Table) and isinstance(last, pa.Table) and piece.schema.equals(last.schema):
            joined[-1] = pa.concat_tables([last, piece])
        else:
            joined.append(piece)
    return joined
