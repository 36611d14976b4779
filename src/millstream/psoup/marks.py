"""Which rows of one stream satisfied which clauses: the results structure of clauses over one stream.

Rows are marked batch by batch, for all clauses at once; when somebody asks, or after some batches, what has come becomes a segment, and
segments of similar size are merged.  A segment is the smaller of two things:

    list      for each clause, the ids of its rows
    bitmap    for each clause, a bit for each row of the segment

What a new clause found among rows that were there already is a list of its own.  Ids only; rows are in the data SteM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from millstream.kernels.compiled import Bytes, Ints

Structure = Literal["smaller", "bitmap", "list"]
_MOST_PENDING = 64
_MOST_FORGOTTEN = 1024


@dataclass(frozen=True)
class _Segment:
    """Rows from `first` up to `stop`.  `clauses` in order; one of `bits` and (`starts`, `ids`) is there."""

    first: int
    stop: int
    clauses: Ints
    starts: Ints | None = None
    ids: Ints | None = None
    bits: Bytes | None = None

    def of(self, clause: int, first: int, stop: int) -> Ints:
        at = int(np.searchsorted(self.clauses, clause))
        if at == len(self.clauses) or self.clauses[at] != clause:
            return np.empty(0, np.int64)
        first, stop = max(first, self.first), min(stop, self.stop)
        if self.bits is not None:
            begin = (first - self.first) // 8
            flags = np.unpackbits(self.bits[at, begin : (stop - self.first + 7) // 8], bitorder="little")
            found: Ints = self.first + 8 * begin + np.flatnonzero(flags)
        else:
            assert self.starts is not None
            assert self.ids is not None
            found = self.ids[self.starts[at] : self.starts[at + 1]]
        return found[np.searchsorted(found, first) : np.searchsorted(found, stop)]

    def pairs(self) -> tuple[Ints, Ints]:
        """(clause, id) of all marks, in order."""
        if self.bits is not None:
            place, row = np.nonzero(np.unpackbits(self.bits, axis=1, bitorder="little"))
            return self.clauses[place], self.first + row
        assert self.starts is not None
        assert self.ids is not None
        return np.repeat(self.clauses, np.diff(self.starts)), self.ids

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.clauses, self.starts, self.ids, self.bits) if part is not None)


class Marks:
    def __init__(self, structure: Structure = "smaller") -> None:
        self._structure = structure
        self._pending: list[tuple[int, Ints, Ints]] = []
        self._stop = 0
        self._segments: list[_Segment] = []
        self._history: dict[int, Ints] = {}
        self._history_purged = self._history_stop = 0
        self._forgotten: set[int] = set()
        self._first = 0

    def mark(self, first: int, stop: int, clauses: Ints, ids: Ints) -> None:
        """Of new rows, from first up to stop: (clause, id) of all that satisfied, in order."""
        self._pending.append((first, clauses, ids))
        self._stop = stop
        if len(self._pending) == _MOST_PENDING:
            self._settle()

    def mark_history(self, clause: int, ids: Ints) -> None:
        """Of rows that were there before the clause."""
        self._history[clause] = ids
        self._history_stop = max(self._history_stop, int(ids[-1]) + 1 if len(ids) else 0)

    def of(self, clause: int, first: int, stop: int) -> Ints:
        """Rows from first up to stop that satisfied a clause, in ascending order; the first is not before any that is gone."""
        self._settle()
        history = self._history.get(clause, np.empty(0, np.int64))
        found = [history[np.searchsorted(history, first) : np.searchsorted(history, stop)]]
        found += [segment.of(clause, first, stop) for segment in self._segments if segment.first < stop and segment.stop > first]
        return np.concatenate(found)

    def forget(self, clause: int) -> None:
        """Marks of a clause that is gone leave a segment when it is merged, or with those of many others."""
        self._history.pop(clause, None)
        self._forgotten.add(clause)
        if len(self._forgotten) == _MOST_FORGOTTEN:
            self._settle()
            self._segments = [self._segment(segment.first, segment.stop, *self._kept(*segment.pairs())) for segment in self._segments]
            self._forgotten.clear()

    def drop_before(self, row: int) -> None:
        self._first = row
        self._segments = [segment for segment in self._segments if segment.stop > row]
        if 2 * (row - self._history_purged) >= self._history_stop - self._history_purged:  # not for every row that goes
            self._history = {clause: ids[ids >= row] for clause, ids in self._history.items() if len(ids) and ids[-1] >= row}
            self._history_purged = row

    @property
    def nbytes(self) -> int:
        self._settle()
        return sum(segment.nbytes for segment in self._segments) + sum(ids.nbytes for ids in self._history.values())

    def _settle(self) -> None:
        if not self._pending:
            return
        clauses, ids = (np.concatenate([batch[place] for batch in self._pending]) for place in (1, 2))
        order = np.argsort(clauses, kind="stable")
        self._segments.append(self._segment(self._pending[0][0], self._stop, clauses[order], ids[order]))
        self._pending.clear()
        while len(self._segments) > 1 and _size(self._segments[-2]) <= 2 * _size(self._segments[-1]):
            self._merge()

    def _merge(self) -> None:
        one, other = self._segments[-2:]
        (clauses, ids), (more_clauses, more_ids) = one.pairs(), other.pairs()
        clauses, ids = np.concatenate([clauses, more_clauses]), np.concatenate([ids, more_ids])
        clauses, ids = self._kept(clauses, ids)
        there = ids >= self._first
        clauses, ids = clauses[there], ids[there]
        order = np.argsort(clauses, kind="stable")
        self._segments[-2:] = [self._segment(max(one.first, min(self._first, other.stop)), other.stop, clauses[order], ids[order])]

    def _kept(self, clauses: Ints, ids: Ints) -> tuple[Ints, Ints]:
        """Without those of clauses that are gone."""
        if not self._forgotten:
            return clauses, ids
        kept = ~np.isin(clauses, np.fromiter(self._forgotten, np.int64))
        return clauses[kept], ids[kept]

    def _segment(self, first: int, stop: int, clauses: Ints, ids: Ints) -> _Segment:
        who, starts = np.unique(clauses, return_index=True)
        width = (stop - first + 7) // 8
        smaller = width * len(who) < 8 * (len(who) + 1 + len(ids))
        if self._structure == "list" or (self._structure == "smaller" and not smaller):
            return _Segment(first, stop, who, starts=np.append(starts, len(ids)), ids=ids)
        flags: np.ndarray[Any, np.dtype[np.uint8]] = np.zeros((len(who), 8 * width), np.uint8)
        flags[np.searchsorted(who, clauses), ids - first] = 1
        return _Segment(first, stop, who, bits=np.packbits(flags, axis=1, bitorder="little"))


def _size(segment: _Segment) -> int:
    return segment.stop - segment.first
