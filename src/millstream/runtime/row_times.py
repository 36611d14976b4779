"""Which rows of a stream have a time that can be taken: not NULL, in the years 1 to 9999, and not too far ahead of the clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.errors import TypeMismatch
from millstream.core.instant import BEGINNING, LAST, Micros, checked_instant, format_duration, format_instant
from millstream.core.signed_batch import Instants


def stamps(rows: pa.Table, timestamp_by: str) -> Instants:
    """Each row's time; 0 for NULL."""
    column = rows.column(timestamp_by)
    micros: Instants = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).fill_null(0).to_numpy()
    return micros


@dataclass(frozen=True)
class RowTimes:
    """What holds for the rows that arrive at one moment."""

    stream: str
    timestamp_by: str
    now: Micros  # by the wall clock
    max_ahead_us: Micros | None = None

    @property
    def latest(self) -> Micros:
        return LAST if self.max_ahead_us is None else min(LAST, self.now + self.max_ahead_us)

    def bad(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The places of the rows whose time cannot be taken."""
        micros, nulls = stamps(rows, self.timestamp_by), rows.column(self.timestamp_by).null_count
        if len(micros) == 0 or (not nulls and int(micros.min()) >= BEGINNING and int(micros.max()) <= self.latest):
            return np.empty(0, np.int64)
        good = (micros >= BEGINNING) & (micros <= self.latest)
        if nulls:
            good &= np.asarray(pc.is_valid(rows.column(self.timestamp_by)))
        return np.flatnonzero(~good)

    def refusal(self, rows: pa.Table, place: int) -> TypeMismatch:
        """Why the row at this place, one of the bad ones, is not taken."""
        stamp = rows.column(self.timestamp_by)[place].cast(pa.int64()).as_py()
        column = f'column "{self.timestamp_by}" of "{self.stream}" is its timestamp'
        if stamp is None:
            return TypeMismatch(f"{column} and cannot be NULL")
        try:
            checked_instant(stamp)
        except TypeMismatch as error:
            return TypeMismatch(f"{column}: {error.message}", hint=error.hint)
        ahead = format_duration(self.max_ahead_us or 0)
        return TypeMismatch(f"{column}: {format_instant(stamp)} is more than {ahead} ahead of the clock", hint="MAX AHEAD says how far.")

    def check(self, rows: pa.Table) -> None:
        bad = self.bad(rows)
        if len(bad):
            error = self.refusal(rows, int(bad[0]))
            raise TypeMismatch(error.message, hint=" ".join(filter(None, [error.hint, "Nothing was inserted."])))
