"""How often each (group, value) is there: which changes make a value appear or vanish, and when each copy came.

The copies of a pair that are there stand in a queue, oldest first: a copy that leaves is the oldest one.

    ends    (pairs, 2)  the oldest and the newest copy, 0 = none
    copies  (rows, 2)   when the copy came, the next newer one; row 0 heads the list of free rows: (how many, a free row)
"""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import AHEAD, Bytes, Ints, kernel, prefetch

_OLDEST, _NEWEST = 0, 1
_WHEN, _NEXT = 0, 1
_FREE = 0


@kernel
def transitions(pair: Ints, sign: Signs, order: Ints, counted: Bytes, counts: Ints, flips: Bytes) -> bool:
    """Apply the changes in the given order (if there is one); flag those by which a value appears or vanishes.

    False at a value that leaves without having been there.
    """
    for turn in range(len(pair)):
        i = order[turn] if len(order) > 0 else turn
        if len(counted) > 0 and counted[i] == 0:
            continue
        p = pair[i]
        counts[p] += sign[i]
        if counts[p] < 0:
            return False
        flips[i] = counts[p] == (1 if sign[i] > 0 else 0)
    return True


@kernel
def first_seen(pair: Ints, counted: Bytes, seen: Bytes, flips: Bytes) -> None:
    """Where nothing leaves: flag the changes by which a value appears."""
    for i in range(len(pair)):
        if i + AHEAD < len(pair):
            prefetch(seen, pair[i + AHEAD])
        if len(counted) > 0 and counted[i] == 0:
            continue
        flips[i] = seen[pair[i]] == 0
        seen[pair[i]] = 1


@kernel
def number_copies(pair: Ints, sign: Signs, order: Ints, counted: Bytes, counts: Ints, numbers: Ints) -> bool:
    """Apply the changes in the given order (if there is one); the number, counted from 1, of the copy that comes or leaves.

    False at a copy that leaves without having been there.
    """
    for turn in range(len(pair)):
        i = order[turn] if len(order) > 0 else turn
        if len(counted) > 0 and counted[i] == 0:
            continue
        p = pair[i]
        numbers[i] = counts[p] + (1 if sign[i] > 0 else 0)
        counts[p] += sign[i]
        if counts[p] < 0:
            return False
    return True


@kernel
def without_copies(pair: Ints, counts: Ints) -> Ints:
    """The pairs among these that are no longer there, each once."""
    out = np.empty(len(pair), np.int64)
    n = 0
    for i in range(len(pair)):
        if counts[pair[i]] == 0:
            counts[pair[i]] = -1  # seen
            out[n] = pair[i]
            n += 1
    for i in range(n):
        counts[out[i]] = 0
    return out[:n]


def new_copies() -> Ints:
    return grown_copies(np.zeros((1, 2), np.int64), 63)


def grown_copies(copies: Ints, more: int) -> Ints:
    """Room for so many more copies."""
    missing = more - int(copies[0, _FREE])
    if missing <= 0:
        return copies
    larger = np.zeros((len(copies) + max(missing, len(copies)), 2), np.int64)
    larger[: len(copies)] = copies
    _free_rows(larger, len(copies))
    return larger


@kernel
def _free_rows(copies: Ints, first: int) -> None:
    for row in range(len(copies) - 1, first - 1, -1):
        copies[row, _NEXT], copies[0, _NEXT] = copies[0, _NEXT], row
        copies[0, _FREE] += 1


@kernel
def queue_copies(
    instant: Instants, sign: Signs, order: Ints, counted: Bytes, pair: Ints, counts: Ints, ends: Ints, copies: Ints, came: Ints
) -> bool:
    """Apply the changes in the given order (if there is one); when the copy came that each change adds or takes away.

    There is room for all that come.  False at a copy that leaves without having been there.
    """
    for turn in range(len(pair)):
        i = order[turn] if len(order) > 0 else turn
        if len(counted) > 0 and counted[i] == 0:
            came[i] = 0
            continue
        p = pair[i]
        counts[p] += sign[i]
        if sign[i] > 0:
            row = copies[0, _NEXT]
            copies[0, _NEXT] = copies[row, _NEXT]
            copies[0, _FREE] -= 1
            copies[row, _WHEN], copies[row, _NEXT] = instant[i], 0
            if ends[p, _NEWEST] == 0:
                ends[p, _OLDEST] = row
            else:
                copies[ends[p, _NEWEST], _NEXT] = row
            ends[p, _NEWEST] = row
        else:
            row = ends[p, _OLDEST]
            if row == 0:
                return False
            ends[p, _OLDEST] = copies[row, _NEXT]
            if ends[p, _OLDEST] == 0:
                ends[p, _NEWEST] = 0
            copies[row, _NEXT], copies[0, _NEXT] = copies[0, _NEXT], row
            copies[0, _FREE] += 1
        came[i] = copies[row, _WHEN]
    return True


@kernel
def queued(pairs: Ints, counts: Ints, ends: Ints, copies: Ints) -> Ints:
    """When each copy of these pairs came, pair by pair, oldest first."""
    total = 0
    for i in range(len(pairs)):
        total += counts[pairs[i]]
    out = np.empty(total, np.int64)
    n = 0
    for i in range(len(pairs)):
        row = ends[pairs[i], _OLDEST]
        while row != 0:
            out[n] = copies[row, _WHEN]
            n += 1
            row = copies[row, _NEXT]
    return out
