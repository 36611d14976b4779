"""Windows as data: when a row of a stream is part of the relation.

Every time-based window is two nondecreasing functions of a row's timestamp, the instant at
which it enters and the instant at which it is first gone again:

    window                       enters                  gone
    [RANGE w]                    ts                      ts + w + 1
    [RANGE w EXCLUSIVE]          ts                      ts + w
    [NOW]                        ts                      ts + 1
    [UNBOUNDED]                  ts                      never
    [RANGE w SLIDE s]            next multiple of s      next multiple of s after ts + w
    [BEGIN NOW - x END NOW - y]  ts + y                  ts + x + 1
    [BEGIN a END b]              ts, if a <= ts <= b     never
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millstream.core.instant import GONE_NEVER, LAST, Micros, format_duration, format_instant
from millstream.core.signed_batch import Instants


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Contents depend on time alone.  `text` is the window as the user wrote it, for plans and errors."""

    text: str
    delay_us: Micros = 0
    length_us: Micros | None = None  # gone at ts + length_us; None: never
    slide_us: Micros | None = None
    since: Micros | None = None  # rows before are never part of it
    until: Micros | None = None  # rows after are never part of it

    @staticmethod
    def range_(range_us: Micros, *, exclusive: bool = False) -> TimeWindow:
        text = f"RANGE {format_duration(range_us)}{' EXCLUSIVE' if exclusive else ''}"
        return TimeWindow(text, length_us=range_us if exclusive else range_us + 1)

    @staticmethod
    def slide(range_us: Micros, slide_us: Micros) -> TimeWindow:
        return TimeWindow(f"RANGE {format_duration(range_us)} SLIDE {format_duration(slide_us)}", length_us=range_us, slide_us=slide_us)

    @staticmethod
    def now() -> TimeWindow:
        return TimeWindow("NOW", length_us=1)

    @staticmethod
    def unbounded() -> TimeWindow:
        return TimeWindow("UNBOUNDED")

    @property
    def grows_only(self) -> bool:
        """Rows never leave: the relation is append-only."""
        return self.length_us is None

    @property
    def enters_on_arrival(self) -> bool:
        return self.delay_us == 0 and self.slide_us is None

    @property
    def history_us(self) -> Micros | None:
        """How far behind the frontier a row can still be part of it; None: for ever."""
        if self.length_us is None:
            return None
        return self.length_us + (self.slide_us or 0)

    @property
    def held_us(self) -> Micros:
        """How far behind the frontier lie the rows that a running window holds: those that have yet to enter or to leave."""
        return self.delay_us if self.length_us is None else self.length_us + (self.slide_us or 0)

    def enters(self, ts: Instants) -> Instants:
        if self.slide_us is not None:
            return (ts // self.slide_us + 1) * self.slide_us
        return ts + self.delay_us if self.delay_us else ts

    def gone(self, ts: Instants) -> Instants:
        if self.length_us is None:
            return np.full(len(ts), GONE_NEVER, np.int64)
        if self.slide_us is not None:
            return ((ts + self.length_us) // self.slide_us + 1) * self.slide_us
        return ts + self.length_us

    def first_entering_after(self, instant: Micros) -> Micros:
        """The least ts that enters only after `instant`: the inverse of `enters`."""
        if self.slide_us is not None:
            return instant // self.slide_us * self.slide_us
        return instant - self.delay_us + 1

    def first_gone_after(self, instant: Micros) -> Micros:
        """The least ts that is gone only after `instant`: the inverse of `gone`."""
        if self.length_us is None:
            return -GONE_NEVER
        if self.slide_us is not None:
            return instant // self.slide_us * self.slide_us - self.length_us
        return instant - self.length_us + 1

    def admits(self, ts: Instants) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """Which rows are ever part of it; None where all are."""
        if self.since is None and self.until is None and self.slide_us is None and self.delay_us == 0:
            return None
        kept = (ts >= (self.since if self.since is not None else -GONE_NEVER)) & (ts <= (self.until if self.until is not None else LAST))
        return kept & (self.enters(ts) < self.gone(ts))

    def __str__(self) -> str:
        return f"[{self.text}]"


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """The newest `rows` rows, for each value of `partition_by`; with `range_us` also no older than that."""

    text: str
    rows: int
    partition_by: tuple[str, ...] = ()
    range_us: Micros | None = None

    @property
    def grows_only(self) -> bool:
        return False

    @property
    def history_us(self) -> Micros | None:
        """The newest rows may be of any age, unless RANGE bounds it."""
        return None if self.range_us is None else self.range_us + 1

    @property
    def held_us(self) -> Micros:
        """Its rows are part of its snapshots: none is read from the log again."""
        return 0

    def __str__(self) -> str:
        return f"[{self.text}]"


WindowSpec = TimeWindow | RowsWindow


def instant_text(instant: Micros) -> str:
    """An instant as it stands in `[BEGIN ...]`."""
    return f"TIMESTAMP '{format_instant(instant)}'"
