"""Slots: what one step does to a group at one instant.

A slot is a pair (group, instant) that some change touches; slots are numbered in the order of their
first change, hence by instant.  Columns over slots are interleaved, the value before the instant at
2 * slot and the value after it at 2 * slot + 1, so an index into them says both which slot and which side.

    changes   i:      0    1    2    3    4          rows at the slots
    group             a    b    a    a    b          (before, after) for signs + + + - -
    instant           5    5    5    7    7
    slot              0    1    0    2    3          a: (0, 2)  b: (0, 1)  a: (2, 1)  b: (1, 0)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import AHEAD, Bytes, Ints, kernel, prefetch

Places = npt.NDArray[np.int32]
"""Changes, slots and sides of slots by number: half the memory of int64, and a step is bound by memory."""

ROWS, LAST = 0, 1
"""Columns of the per-group state: rows in the group, and its last slot counted over all steps."""


@kernel
def assign_slots(code: Ints, instant: Instants, sign: Signs, groups: Ints, base: int, slot: Places, first: Places, rows: Ints) -> int:
    """The slot of each change, each slot's first change and its row counts; the number of slots.

    Slots of earlier steps count from 0 to base - 1, so what they left in `groups` never looks like ours.
    """
    slots = 0
    for i in range(len(code)):
        if i + AHEAD < len(code):
            prefetch(groups, code[i + AHEAD])
        g = code[i]
        s = groups[g, LAST] - base
        if s < 0 or instant[first[s]] != instant[i]:
            s = slots
            slots += 1
            groups[g, LAST] = base + s
            first[s] = i
            rows[2 * s] = groups[g, ROWS]
        groups[g, ROWS] += sign[i]
        rows[2 * s + 1] = groups[g, ROWS]
        slot[i] = s
    return slots


@kernel
def mark_changed(words: Ints, valid: Bytes, changed: Bytes) -> None:
    """Flag the slots whose value differs between before and after; NULL equals NULL."""
    if len(valid) == 0:
        for s in range(len(changed)):
            changed[s] |= words[2 * s] != words[2 * s + 1]
    else:
        for s in range(len(changed)):
            differs = valid[2 * s] != 0 and words[2 * s] != words[2 * s + 1]
            changed[s] |= differs or valid[2 * s] != valid[2 * s + 1]


@kernel
def emit(
    rows: Ints, changed: Bytes, permanent: bool, first: Places, instant: Instants, side: Places, sign: Signs, at: Instants, change: Places
) -> int:
    """What to put out for each slot: -before if it existed, +after if it exists, nothing if they are the same row.

    Fills, for each row put out, its place in interleaved columns, its sign, its instant and a change of its group.
    """
    n = 0
    for s in range(len(changed)):
        before = permanent or rows[2 * s] > 0
        after = permanent or rows[2 * s + 1] > 0
        if before and after and changed[s] == 0:
            continue
        if before:
            side[n], sign[n], at[n], change[n] = 2 * s, -1, instant[first[s]], first[s]
            n += 1
        if after:
            side[n], sign[n], at[n], change[n] = 2 * s + 1, 1, instant[first[s]], first[s]
            n += 1
    return n


@kernel
def vanished(code: Ints, first: Places, rows: Ints, groups: Ints, base: int) -> Ints:
    """Codes of the groups that this step touched and left without rows, each once."""
    out = np.empty(len(first), np.int64)
    n = 0
    for s in range(len(first)):
        if rows[2 * s + 1] == 0 and groups[code[first[s]], LAST] == base + s:
            out[n] = code[first[s]]
            n += 1
    return out[:n]


@kernel
def least_after(rows: Ints, slots: int) -> int:
    """The least row count that any slot ends with; negative if a row left that had never entered."""
    least = 0
    for s in range(slots):
        least = min(least, rows[2 * s + 1])
    return least


@kernel
def arrivals_first(instant: Instants, sign: Signs) -> Ints:
    """The order in which, inside each instant, rows enter before rows leave; empty if they do already."""
    ordered = True
    for i in range(1, len(instant)):
        if instant[i] == instant[i - 1] and sign[i] > sign[i - 1]:
            ordered = False
            break
    if ordered:
        return np.empty(0, np.int64)
    order = np.empty(len(instant), np.int64)
    start = n = 0
    while start < len(instant):
        stop = start
        while stop < len(instant) and instant[stop] == instant[start]:
            if sign[stop] > 0:
                order[n] = stop
                n += 1
            stop += 1
        for i in range(start, stop):
            if sign[i] < 0:
                order[n] = i
                n += 1
        start = stop
    return order


@kernel
def gather(words: Ints, places: Places) -> Ints:
    out = np.empty(len(places), np.int64)
    for i in range(len(places)):
        out[i] = words[places[i]]
    return out


@kernel
def gather_bytes(flags: Bytes, places: Places) -> Bytes:
    out = np.empty(len(places), np.uint8)
    for i in range(len(places)):
        out[i] = flags[places[i]]
    return out
