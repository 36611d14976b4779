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
from millstream.kernels.compiled import AHEAD, Ints, inlined, kernel, prefetch

NEXT, PART, TS, LIVE = 0, 1, 2, 3
OLDEST, NEWEST, COUNT = 0, 1, 2
NEVER = 1 << 62


@kernel
def slide(
    first: int, entering: int, expired: int, most: int, length: int, frontier: int, rows: Ints, parts: Ints,
    before: Ints, row: Ints, sign: Signs, instant: Instants,
) -> tuple[int, int]:  # fmt: skip
    """Rows first, first + 1, ... enter, one after the other; what must, leaves: beyond `most`, or `length` after its timestamp.

    Fills row, sign and instant of each change, in instant order, and returns how many there are, and the first row that has not
    come to the end of its time.  `expired` is what that was before.  A row that leaves at the instant at which it enters is no change.
    Fills `before` with the newest row of each entering one's partition until then, for `settle`.
    """
    n, idle = 0, 0
    change = np.empty(entering, np.int64)  # of each row that enters: which change that is
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
        _prefetch_ahead(i, first + entering, rows, parts)
        part = rows[i, PART]
        before[i - first] = parts[part, NEWEST]
        _enter(i, part, rows, parts)
        row[n], sign[n], instant[n], change[i - first] = i, 1, until, n
        n += 1
        if parts[part, COUNT] > most:
            oldest = parts[part, OLDEST]
            _leave(oldest, rows, parts)
            if oldest >= first and rows[oldest, TS] == until:
                sign[change[oldest - first]] = 0
                idle += 1
            else:
                row[n], sign[n], instant[n] = oldest, -1, until
                n += 1
    return _without_idle(n, row, sign, instant) if idle else n, expired


@inlined
def _prefetch_ahead(i: int, stop: int, rows: Ints, parts: Ints) -> None:
    """Ask for what rows to come will touch: first their partition, later the row that leaves it."""
    if i + AHEAD < stop:
        prefetch(parts, rows[i + AHEAD, PART])
        prefetch(rows, parts[rows[i + AHEAD // 2, PART], OLDEST])


@kernel
def _without_idle(n: int, row: Ints, sign: Signs, instant: Instants) -> int:
    left = 0
    for i in range(n):
        if sign[i] != 0:
            row[left], sign[left], instant[left] = row[i], sign[i], instant[i]
            left += 1
    return left


@kernel
def settle(first: int, entering: int, rows: Ints, parts: Ints, before: Ints) -> Ints:
    """After `slide`: the rows that entered and are still there get the numbers first, first + 1, ...  Returns which of them those are."""
    kept, number, n = np.empty(entering, np.int64), np.empty(entering, np.int64), 0
    for j in range(entering):
        i, to = first + j, first + n
        if not rows[i, LIVE]:
            continue
        if to < i:
            part = rows[i, PART]
            rows[to, NEXT], rows[to, PART], rows[to, TS], rows[to, LIVE] = -1, part, rows[i, TS], 1
            if parts[part, OLDEST] == i:
                parts[part, OLDEST] = to
            else:  # the one before it is there too, and has its number: rows leave oldest first
                older = before[j] if before[j] < first else number[before[j] - first]
                rows[older, NEXT] = to
            if parts[part, NEWEST] == i:
                parts[part, NEWEST] = to
        number[j], kept[n] = to, j
        n += 1
    return kept[:n]


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
