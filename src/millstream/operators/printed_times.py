"""date_format over many rows: most of them follow a row that shows the same day, minute or second, and its text is theirs.

    ts      10:00:07  10:00:41  10:01:02  10:01:02         in 'HH:mm'
    runs    0         0         1         1          first rows 0 and 2 ─► '10:00', '10:01' ─► a text for each row

Moments are given to DuckDB without a time zone (evaluator.py), so days and minutes begin where multiples of them do.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.compiled import Ints

FEW_ROWS = 12_000
"""With fewer, one more statement (half a millisecond) costs more than it saves."""

_SECOND_US, _MINUTE_US, _DAY_US = 1_000_000, 60_000_000, 86_400_000_000
_SHOWN_US = {
    **dict.fromkeys(["Y", "y", "m", "-m", "b", "B", "d", "-d", "j", "-j", "a", "A", "%"], _DAY_US),
    **dict.fromkeys(["H", "-H", "I", "-I", "p", "M", "-M"], _MINUTE_US),
    **dict.fromkeys(["S", "-S"], _SECOND_US),
}
"""How long what a field shows stays the same."""
_PRINTED = re.compile(r"""strftime\("((?:[^"]|"")+)", '((?:[^']|'')*)'\)""")
_FIELD = re.compile(r"%(-?.)", re.DOTALL)
_FAR = 2**62
"""Beyond it are moments that are none, such as infinity."""
_WORTH_IT = 8
"""Rows in a run, on average."""


@lru_cache(maxsize=512)
def printed_time(sql: str) -> tuple[str, int] | None:
    """The column of moments that an expression prints, and how long the text stays the same; None if it is another expression."""
    match = _PRINTED.fullmatch(sql)
    if match is None:
        return None
    shown = [_SHOWN_US.get(field) for field in _FIELD.findall(match[2])]
    known = [length_us for length_us in shown if length_us is not None]
    return (match[1].replace('""', '"'), min(known, default=_DAY_US)) if len(known) == len(shown) else None


def runs_of(moments: pa.Array, unit_us: int) -> tuple[Ints, Ints] | None:
    """The first row of each run of rows in one unit, and the run of each row; None where that is not worth it, or there are NULLs."""
    if not pa.types.is_timestamp(moments.type) or moments.type.unit != "us" or moments.null_count:
        return None
    words = arrow_buffers.words(moments)
    if words.min() <= -_FAR or words.max() >= _FAR:
        return None
    units = words // unit_us
    begins = np.concatenate((np.ones(1, np.bool_), units[1:] != units[:-1]))
    first = np.flatnonzero(begins)
    return (first, np.cumsum(begins) - 1) if len(first) * _WORTH_IT <= len(words) else None
