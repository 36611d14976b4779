"""The newest rows of each partition: a queue for every partition, through flat arrays.

A row is known by its number in order of arrival, a partition by its code.

    places of a row:         NEXT    the next row of its partition, -1 if it is the newest
                             PART    the code of its partition
                             TS      its timestamp
                             LIVE    1 while it is in the window
    places of a partition:   OLDEST  its oldest row that is in the window
                             NEWEST  its newest one
                             COUNT   how many there are
"""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import Ints, kernel

NEXT, PART, TS, LIVE = 0, 1, 2, 3
OLDEST, NEWEST, COUNT = 0, 1, 2
NEVER = 1 << 62


@kernel
def slide(
    first: int, entering: int, expired: int, most: int, length: int, frontier: int, rows: Ints, parts: Ints,
    row: Ints, sign: Signs, instant: Instants,
) -> tuple[int, int]:  # fmt: skip
    """Rows first, first + 1, ... enter, one after the other; what must, leaves: beyond `most`, or `length` after its timestamp.

    Fills row, sign and instant of each change, in instant order, and returns how many there are, and the first row that has not
    come to the end of its time.  `expired` is what that was before.
    """
    n = 0
    for i in range(first, first + entering + 1):
        until = rows[i, TS] if i < first + entering else frontier
        while expired < i and rows[expired, TS] + length <= until:
            if rows[expired, LIVE]:
                _leave(expired, rows, parts)
                row[n], sign[n], instant[n] = expired, -1, rows[expired, TS] + length
                n += 1
            expired += 1
        if i == first + entering:
            break
        part = rows[i, PART]
        _enter(i, part, rows, parts)
        row[n], sign[n], instant[n] = i, 1, until
        n += 1
        if parts[part, COUNT] > most:
            oldest = parts[part, OLDEST]
            _leave(oldest, rows, parts)
            row[n], sign[n], instant[n] = oldest, -1, until
            n += 1
    return n, expired


@kernel
def _enter(i: int, part: int, rows: Ints, parts: Ints) -> None:
    rows[i, NEXT], rows[i, LIVE] = -1, 1
    if parts[part, COUNT] == 0:
        parts[part, OLDEST] = i
    else:
        rows[parts[part, NEWEST], NEXT] = i
    parts[part, NEWEST] = i
    parts[part, COUNT] += 1


@kernel
def _leave(i: int, rows: Ints, parts: Ints) -> None:
    """The oldest row of its partition."""
    part = rows[i, PART]
    rows[i, LIVE] = 0
    parts[part, OLDEST] = rows[i, NEXT]
    parts[part, COUNT] -= 1


@kernel
def restore(count: int, rows: Ints, parts: Ints) -> None:
    """Rows 0, 1, ... are all that is in the window."""
    for i in range(count):
        _enter(i, rows[i, PART], rows, parts)


@kernel
def emptied(row: Ints, rows: Ints, parts: Ints) -> Ints:
    """The partitions of these rows that have no rows any more, each once.  Marks them with a COUNT of -1."""
    out = np.empty(len(row), np.int64)
    n = 0
    for i in range(len(row)):
        part = rows[row[i], PART]
        if parts[part, COUNT] == 0:
            parts[part, COUNT] = -1
            out[n] = part
            n += 1
    for i in range(n):
        parts[out[i], COUNT] = 0
    return out[:n]
