"""OVER: what to sum up for the targets of kernels/over_frames.py, and which of them have changed.

A frame is run as a group: from target to target rows enter and leave it.  Frames of bounded length begin with nothing at each
interval.  Frames from the first row on begin and end with the whole partition, which the aggregate keeps from step to step:

    as it was    rows leave from the last one back, each frame is what is left at its end        4 3 2 1 | base
    as it is     rows enter from there on, each frame is what is there at its end                         base | 1 2 3 4 5

so that a row at the end costs one step, and one in the middle those behind it, all of which see it.
"""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import Bytes, Ints, address, bytes_before, inlined, kernel
from millstream.kernels.over_frames import BASE, BEGIN, CODE, END, ROWS, SHIFT, SIGN, SLOT, alike
from millstream.kernels.row_store import LENGTH, START
from millstream.kernels.slots import Places


@inlined
def _move(
    first: int, stop: int, by: int, at: int, context: Ints, of: int, n: int, slots: int, row: Ints, sign: Signs, group: Ints, slot: Places
) -> int:  # fmt: skip
    """Note that the rows at these positions enter or leave; how many changes there are now."""
    for p in range(first, stop):
        row[n], sign[n], group[n], slot[n] = context[at + p], by, of, slots
        n += 1
    return n


@kernel
def slide_frames(
    targets: Ints, frames: Ints, f: int, intervals: Ints, context: Ints,
    row: Ints, sign: Signs, group: Ints, slot: Places, rows: Ints, place: Places,
) -> tuple[int, int]:  # fmt: skip
    """Frames from target to target as rows that enter and leave a group, one group for each interval.

    Fills the code of the row, sign, group and slot of each change; the rows in the group before and after each slot; and for
    each target the place of its frame among the values before and after slots.  Returns how many changes and slots there are.
    """
    n = slots = 0
    for v in range(len(intervals)):
        at = intervals[v, SHIFT]
        for t in range(intervals[v, BEGIN], intervals[v, END]):
            start, stop = frames[t, f, 0], frames[t, f, 1]
            is_new = t == intervals[v, BEGIN]
            old_start, old_stop = (start, start) if is_new else (frames[t - 1, f, 0], frames[t - 1, f, 1])
            begin = n
            n = _move(max(start, old_stop), stop, 1, at, context, v, n, slots, row, sign, group, slot)
            n = _move(old_start, min(start, old_stop), -1, at, context, v, n, slots, row, sign, group, slot)
            if is_new and n == begin:  # nothing is in the frame: something comes and goes, so that there is a slot
                for by in (1, -1):
                    row[n], sign[n], group[n], slot[n] = targets[t, CODE], by, v, slots
                    n += 1
            if n > begin:
                rows[2 * slots], rows[2 * slots + 1] = old_stop - old_start, stop - start
                slots += 1
            place[t] = 2 * slots - 1
    return n, slots


@kernel
def walk_totals(
    frames: Ints, f: int, intervals: Ints, context: Ints, slot_part: Ints,
    row: Ints, sign: Signs, group: Ints, slot: Places, rows: Ints, place: Places,
) -> tuple[int, int]:  # fmt: skip
    """The same for frames from the first row on; groups are partitions, as they are before and after each pair of intervals."""
    n = slots = 0
    for v in range(0, len(intervals), 2):
        was, now, part = intervals[v], intervals[v + 1], slot_part[intervals[v, SLOT]]
        here, begin = was[ROWS], slots
        for t in range(was[END] - 1, was[BEGIN] - 1, -1):
            stop = frames[t, f, 1]
            if stop < here:
                n = _move(stop, here, -1, was[SHIFT], context, part, n, slots, row, sign, group, slot)
                rows[2 * slots], rows[2 * slots + 1] = here, stop
                here, slots = stop, slots + 1
            place[t] = 2 * slots - 1 if slots > begin else 2 * slots
        if now[BASE] < here:
            n = _move(min(was[BASE], here), here, -1, was[SHIFT], context, part, n, slots, row, sign, group, slot)
            n = _move(now[BASE], was[BASE], -1, now[SHIFT], context, part, n, slots, row, sign, group, slot)
            rows[2 * slots], rows[2 * slots + 1] = here, now[BASE]
            here, slots = now[BASE], slots + 1
        for t in range(now[BEGIN], now[END]):
            stop = frames[t, f, 1]
            if stop > here:
                n = _move(here, stop, 1, now[SHIFT], context, part, n, slots, row, sign, group, slot)
                rows[2 * slots], rows[2 * slots + 1] = here, stop
                here, slots = stop, slots + 1
            place[t] = 2 * slots - 1 if slots > begin else 2 * slots
        if here < now[ROWS]:
            n = _move(here, now[ROWS], 1, now[SHIFT], context, part, n, slots, row, sign, group, slot)
            rows[2 * slots], rows[2 * slots + 1] = here, now[ROWS]
            slots += 1
    return n, slots


# --- what has changed -------------------------------------------------------------------------


@kernel
def pair_targets(targets: Ints, intervals: Ints, arena: Bytes, spans: Ints, was: Ints, now: Ints) -> tuple[int, bool]:
    """Each row of a slot as it was and as it is, -1 where it was or is not there; how many, and whether rows are there twice."""
    n, v, twice = 0, 0, False
    while v < len(intervals):
        i = stop_was = j = stop_now = intervals[v, BEGIN]
        slot = intervals[v, SLOT]
        while v < len(intervals) and intervals[v, SLOT] == slot:
            stop_now = intervals[v, END]
            if intervals[v, SIGN] < 0:
                stop_was = stop_now
            v += 1
        j = stop_was
        while i < stop_was or j < stop_now:
            if i < stop_was and j < stop_now:
                one, other = targets[i, CODE], targets[j, CODE]
                leaves = one == other or bytes_before(
                    address(arena), spans[one, START], spans[one, LENGTH], spans[other, START], spans[other, LENGTH]
                )  # fmt: skip
                enters = one == other or not leaves
            else:
                leaves, enters = i < stop_was, j < stop_now
            was[n], now[n] = i if leaves else -1, j if enters else -1
            i += leaves
            j += enters
            n += 1
            twice |= leaves and i < stop_was and targets[i - 1, CODE] == targets[i, CODE]
            twice |= enters and j < stop_now and targets[j - 1, CODE] == targets[j, CODE]
    return n, twice


@kernel
def told(was: Ints, now: Ints, changed: Bytes, target: Ints, sign: Signs) -> int:
    """The targets that leave and enter with what has changed; how many."""
    n = 0
    for i in range(len(was)):
        if was[i] >= 0 and (changed[i] != 0 or now[i] < 0):
            target[n], sign[n] = was[i], -1
            n += 1
        if now[i] >= 0 and (changed[i] != 0 or was[i] < 0):
            target[n], sign[n] = now[i], 1
            n += 1
    return n


@kernel
def by_rank(slot: Ints, rank: Ints) -> Ints:
    """Where to find changes, which come slot by slot, in the order of their slots' ranks."""
    start = np.zeros(len(rank) + 1, np.int64)
    for i in range(len(slot)):
        start[rank[slot[i]] + 1] += 1
    for r in range(len(rank)):
        start[r + 1] += start[r]
    order = np.empty(len(slot), np.int64)
    for i in range(len(slot)):
        r = rank[slot[i]]
        order[start[r]] = i
        start[r] += 1
    return order


@kernel
def count_keys(part: Ints, code: Ints, arena: Bytes, spans: Ints, prefixes: Ints, distinct: Ints) -> None:
    """Add to each partition how many different sort keys its rows have; they come partition by partition, in order."""
    for i in range(len(part)):
        if i == 0 or part[i] != part[i - 1] or not alike(code[i - 1], code[i], address(arena), address(spans), address(prefixes)):
            distinct[part[i]] += 1


@kernel
def count_rows(slot_start: Ints, slot_part: Ints, delta: Ints, held: Ints, rows: Ints) -> None:
    """The rows of a slot's partition before and after it; `held` goes along."""
    for s in range(len(slot_part)):
        part = slot_part[s]
        rows[2 * s] = held[part]
        for i in range(slot_start[s], slot_start[s + 1]):
            held[part] += delta[i]
        rows[2 * s + 1] = held[part]
