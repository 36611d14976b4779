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

    def to_json(self) -> dict[str, Micros | None]:
        """Without the slack, which is the stream's declaration, not its state."""
        return {"max_ts": self.max_ts, "advanced": self.advanced}

    @staticmethod
    def from_json(fields: dict[str, Micros | None], slack_us: Micros) -> Frontier:
        return Frontier(fields.get("max_ts"), fields.get("advanced"), slack_us)


def late_mask(ts: npt.NDArray[np.int64], start: Frontier) -> npt.NDArray[np.bool_]:
    """Which rows, arriving in this order at a stream whose frontier is `start`, are late."""
    if len(ts) and ts[0] > start.value and (ts[1:] >= ts[:-1]).all():  # rows mostly come in the order of time: a tenth of the cost
        return np.zeros(len(ts), np.bool_)
    return ts <= frontiers_before(ts, start)


def frontiers_before(ts: npt.NDArray[np.int64], start: Frontier) -> npt.NDArray[np.int64]:
    """The frontier just before each row."""
    before = np.full(len(ts), start.value, np.int64)
    if len(ts) > 1:
        by_rows = np.maximum.accumulate(ts[:-1]) - (start.slack_us + 1)
        np.maximum(before[1:], by_rows, out=before[1:])
    return before
