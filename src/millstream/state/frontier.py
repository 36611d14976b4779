"""The frontier of a stream and what is late behind it: pure arithmetic, nothing on disk.

Rows move the frontier row by row, in arrival order, to max(ts) - slack - 1 microsecond; an
explicit advance moves it too, and nothing moves it back.  A row at or behind the frontier that
stands just before it is late.

    ts        10   14   12    9   20   17          slack 3
    frontier   -    6   10   10   10   16          just before the row
    late                      x                    9 <= 10; 17 > 16 is not

A late row lies at or behind the frontier, so letting it take part in the running maximum cannot
move the frontier: lateness needs one `maximum.accumulate` and no loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from millstream.core.instant import NEVER_BEFORE, Micros

_EMPTY_MIN, _EMPTY_MAX = (1 << 63) - 1, -(1 << 63)


@dataclass(frozen=True, slots=True)
class Frontier:
    """No accepted row will have ts <= value."""

    max_ts: Micros | None = None
    advanced: Micros | None = None
    slack_us: Micros = 0

    @property
    def value(self) -> Micros:
        """NEVER_BEFORE until a row or an advance came."""
        by_rows = NEVER_BEFORE if self.max_ts is None else self.max_ts - self.slack_us - 1
        by_advance = NEVER_BEFORE if self.advanced is None else self.advanced
        return max(NEVER_BEFORE, by_rows, by_advance)

    def after_rows(self, max_ts: Micros) -> Frontier:
        if self.max_ts is not None and self.max_ts >= max_ts:
            return self
        return replace(self, max_ts=int(max_ts))

    def after_advance(self, ts: Micros) -> Frontier:
        """An advance that goes back changes nothing."""
        return replace(self, advanced=int(ts)) if ts > self.value else self

    def after_chunk(self, chunk: ChunkDisorder) -> Frontier:
        return self.after_rows(chunk.max_ts) if chunk.rows else self

    def to_json(self) -> dict[str, Micros | None]:
        """Without the slack, which is the stream's declaration, not its state."""
        return {"max_ts": self.max_ts, "advanced": self.advanced}

    @staticmethod
    def from_json(fields: dict[str, Micros | None], slack_us: Micros) -> Frontier:
        return Frontier(fields.get("max_ts"), fields.get("advanced"), slack_us)


def late_mask(ts: npt.NDArray[np.int64], start: Frontier) -> npt.NDArray[np.bool_]:
    """Which rows, arriving in this order at a stream whose frontier is `start`, are late."""
    return ts <= frontiers_before(ts, start)


def frontiers_before(ts: npt.NDArray[np.int64], start: Frontier) -> npt.NDArray[np.int64]:
    """The frontier just before each row."""
    before = np.full(len(ts), start.value, np.int64)
    if len(ts) > 1:
        by_rows = np.maximum.accumulate(ts[:-1]) - (start.slack_us + 1)
        np.maximum(before[1:], by_rows, out=before[1:])
    return before


@dataclass(frozen=True, slots=True)
class ChunkDisorder:
    """All that the driver needs to know of a chunk's timestamps to tell whether any of its rows is late.

    `greatest_drop` is the furthest that a row lies behind the greatest ts before it in the chunk (0 if none does).
    """

    rows: int
    min_ts: Micros
    max_ts: Micros
    greatest_drop: Micros

    @staticmethod
    def of(ts: npt.NDArray[np.int64]) -> ChunkDisorder:
        if not len(ts):
            return ChunkDisorder(0, _EMPTY_MIN, _EMPTY_MAX, 0)
        drop = int((np.maximum.accumulate(ts) - ts).max())
        return ChunkDisorder(len(ts), int(ts.min()), int(ts.max()), drop)

    def then(self, later: ChunkDisorder) -> ChunkDisorder:
        """The summary of this chunk followed by `later`."""
        if not self.rows or not later.rows:
            return later if not self.rows else self
        drop = max(self.greatest_drop, later.greatest_drop, self.max_ts - later.min_ts)
        return ChunkDisorder(self.rows + later.rows, min(self.min_ts, later.min_ts), max(self.max_ts, later.max_ts), drop)


def needs_split(chunk: ChunkDisorder, start: Frontier) -> bool:
    """True exactly if `late_mask` of the chunk's rows at `start` has a True."""
    return chunk.rows > 0 and (chunk.min_ts <= start.value or chunk.greatest_drop > start.slack_us)
