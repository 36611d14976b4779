"""Output delay: how long a change of the answer took from the moment at which it could be known.

A change at instant T can be known once T has come in all streams that the query reads: when the rows, or the `advance`, that moved
the last of their frontiers to T or beyond have been acknowledged.  It is known when the tick that holds it is committed.

    frontier of s   10     20           35            moves: (10, 0.0 s) (20, 0.4 s) (35, 1.0 s)
    changes at         12 20    21  30                a tick commits all of them at 1.1 s
    delay             0.7 0.7  0.1 0.1

So between two moves all changes have the same delay: the driver says where the moves are, the workers count the changes between
them, and nobody looks at a change by itself.  Where operators learn the time from arrivals (WITH EXPIRY input_triggered), a row
that ends at E may go at a later instant: it could be known when E had come, so there it counts as one more.  Nothing can be late
before the query was there to ask: time counts from its creation, or from when the database was opened.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.core.instant import Micros
from millstream.core.signed_batch import Instants, SignedBatch

Seconds = npt.NDArray[np.float64]

_MOST_MOVES = 4096
"""Of a stream that a query has not followed yet, or may be late with; beyond, two neighbours become one, as old as the older of them."""


class FrontierMoves:
    """When a stream's frontier got where.  Rows come from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moves: list[tuple[Micros, float]] = []

    def note(self, frontier: Micros, seconds: float) -> None:
        with self._lock:
            if self._moves and frontier <= self._moves[-1][0]:
                return
            self._moves.append((frontier, seconds))
            if len(self._moves) > _MOST_MOVES:
                pairs = zip(self._moves[:-1:2], self._moves[1::2], strict=False)
                last = self._moves[-1:] if len(self._moves) % 2 else []
                self._moves = [*((upto, since) for (_, since), (upto, _) in pairs), *last]

    def forget(self, upto: Micros) -> None:
        """Every query has got this far.  The last move stays: it tells one that is still to come from one that was forgotten."""
        with self._lock:
            self._moves = [*(move for move in self._moves[:-1] if move[0] > upto), *self._moves[-1:]]

    def arrays(self) -> tuple[Instants, Seconds]:
        with self._lock:
            frontiers, seconds = zip(*self._moves, strict=True) if self._moves else ((), ())
        return np.array(frontiers, np.int64), np.array(seconds, np.float64)


@dataclass(frozen=True)
class Releases:
    """Changes at instants in (upto[i - 1], upto[i]] could be known at since[i]."""

    upto: tuple[Micros, ...]
    since: tuple[float, ...]


def releases(streams: Sequence[FrontierMoves], at: Micros, frontier: Micros, created: float, now: float, *, any_will_do: bool) -> Releases:
    """For a step from `at` to `frontier` of a query that waits for all of these streams; `any_will_do`: for the first of them."""
    moves = [each.arrays() for each in streams]
    between = [frontiers[(frontiers > at) & (frontiers < frontier)] for frontiers, _ in moves]
    upto = np.unique(np.concatenate([*between, np.array([frontier], np.int64)]))
    known = [_known(upto, *each, now) for each in moves if len(each[0])]
    together = np.minimum if any_will_do else np.maximum
    since = np.maximum(together.reduce(known), created) if known else np.full(len(upto), created)
    return Releases(tuple(upto.tolist()), tuple(since.tolist()))


def _known(instants: Instants, frontiers: Instants, seconds: Seconds, now: float) -> Seconds:
    """A move that is under way is noted in a moment."""
    return np.append(seconds, now)[np.searchsorted(frontiers, instants, side="left")]


def count_released(changes: Sequence[SignedBatch], late: Sequence[Instants], upto: Sequence[Micros]) -> tuple[int, ...]:
    """How many of these changes, in the order of their instants, lie up to each of these instants and after the one before it.

    `late` are the instants of more of them, in any order.  Empty if there are none.
    """
    if not changes and not late:
        return ()
    bounds = np.array(upto, np.int64)
    upto_each = sum((np.searchsorted(part.instant, bounds, side="right") for part in changes), np.zeros(len(upto), np.int64))
    late_each = np.bincount(np.searchsorted(bounds, np.concatenate(late), side="left"), minlength=len(upto)) if late else 0
    return tuple((np.diff(upto_each, prepend=0) + late_each).tolist())


@dataclass
class OutputDelay:
    """Of all changes of a query so far, in seconds."""

    changes: int = 0
    total: float = 0.0
    greatest: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.changes if self.changes else 0.0

    def count(self, committed: float, since: Sequence[float], released: Sequence[int]) -> None:
        """A tick was committed; each batch of changes could be known since then."""
        for moment, changes in zip(since, released, strict=True):
            if changes:
                delay = max(0.0, committed - moment)
                self.changes += changes
                self.total += changes * delay
                self.greatest = max(self.greatest, delay)
