"""Rows that stand far behind the first of their partition: known by code and count, linked by partition, in no order.

Of a partition with many rows only the first ones stand in its ordered multiset: these are hot, the others cold.  Which a row is, one
comparison tells: it is hot if its word (kernels/ordered_multiset.py) is not above the partition's horizon, so rows with the same word
are on the same side.  A change of a cold row is a count and a link, however many rows there are.

    spill     too many rows are hot: the horizon comes down, and what is above it becomes cold
    refill    too few are hot: the horizon goes up to the word of the TAKEN-th cold row, and what is not above it becomes hot

A refill looks at every cold row.  Where there have been fewer changes since the last one, it takes more rows than that: so all of them
together look at a few rows for each change, also where every change is one of the first row.

    places of a row (int64 each):   those of kernels/join_lists.py, a partition being a key
    places of a partition:          HEAD, COPIES  of its cold rows, as there
                                    HOT           how many rows are hot, copies counted
                                    HORIZON       the greatest word of a hot row; LAST_WORD: all rows are hot
                                    MOST          with more hot rows than this some are to spill
                                    TAKEN         how many rows a refill takes
                                    SINCE         changes since the last refill
"""

from __future__ import annotations

import numpy as np

from millstream.kernels.compiled import Address, Ints, address, inlined, kernel, mix, prefetch, prefetch_at
from millstream.kernels.join_lists import BEFORE, COPIES, COUNT, HEAD, NEXT, count_in
from millstream.kernels.ordered_multiset import LAST_WORD, TOGETHER, delete, draw_near, greatest, has_room, insert, kth, word_of

HOT, HORIZON, MOST, TAKEN, SINCE = range(2, 7)
_PLACES = 8
_MORE = 4
"""Times as many rows are taken as by a refill that has been too short a time ago."""
_SELDOM = 4
"""Times as many changes as a refill looks at rows: it takes fewer than the last."""


def grown_rows(rows: Ints, capacity: int) -> Ints:
    """The same rows, with room for so many."""
    if capacity <= len(rows):
        return rows
    larger = np.full((capacity, 4), -1, np.int64)
    larger[:, COUNT] = 0
    larger[: len(rows)] = rows
    return larger


def grown_zones(zones: Ints, capacity: int, kept: int) -> Ints:
    """The same partitions, with room for so many; those without rows keep `kept` rows hot."""
    if capacity <= len(zones):
        return zones
    larger = np.zeros((capacity, _PLACES), np.int64)
    larger[:, HEAD], larger[:, HORIZON], larger[:, MOST], larger[:, TAKEN] = -1, LAST_WORD, 2 * kept, kept
    larger[: len(zones)] = zones
    return larger


@inlined
def is_cold(row: int, part: int, delta: int, rows: Ints, zones: Ints, nodes: Address, arena: Address, spans: Address) -> bool:
    """Whether a change is one of a cold row.  A row that leaves is where it is counted: its bytes are not looked for."""
    if rows[row, COUNT] > 0:
        return True
    return delta > 0 and zones[part, HORIZON] < LAST_WORD and word_of(nodes, row, True, arena, spans) > zones[part, HORIZON]


@kernel
def spill(part: int, nodes: Address, root: int, rows: Ints, zones: Ints, path: Address, arena: Address, spans: Address) -> int:
    """Leaves about half of the hot rows hot, or as many as a refill takes; the root from now on."""
    kept = min(zones[part, TAKEN], zones[part, HOT] // 2)
    horizon = word_of(nodes, kth(nodes, root, kept - 1), True, arena, spans)
    row = greatest(nodes, root)
    while word_of(nodes, row, True, arena, spans) > horizon:
        root = delete(nodes, root, row, path, True, arena, spans)
        count_in(row, part, 1, rows, zones)
        zones[part, HOT] -= 1
        zones[part, HORIZON] = horizon
        row = greatest(nodes, root)
    zones[part, MOST] = 2 * zones[part, HOT]
    return root


@kernel
def raise_horizon(part: int, kept: int, nodes: Address, rows: Ints, zones: Ints, arena: Address, spans: Address) -> int:
    """The first half of a refill: above which rows the horizon is to be; how many it has looked at."""
    words = np.empty(zones[part, COPIES], np.int64)
    n, row = 0, zones[part, HEAD]
    while row >= 0:
        words[n] = word_of(nodes, row, True, arena, spans)
        n += 1
        row = rows[row, NEXT]
    if zones[part, SINCE] < n and zones[part, TAKEN] < n:
        zones[part, TAKEN] *= _MORE
    elif zones[part, SINCE] >= _SELDOM * n:
        zones[part, TAKEN] = max(zones[part, TAKEN] // 2, kept)
    zones[part, SINCE] = 0
    zones[part, HORIZON] = nth_least(words[:n], zones[part, TAKEN] - 1) if zones[part, TAKEN] < n else LAST_WORD
    return n


@kernel
def warm(part: int, kept: int, nodes: Address, roots: Ints, rows: Ints, zones: Ints, arena: Address, spans: Address) -> bool:
    """The second half: rows that are not above the horizon any more become hot.  Whether there was room; if not, to be called again."""
    row = zones[part, HEAD]
    while row >= 0:
        after, count = rows[row, NEXT], rows[row, COUNT]
        if word_of(nodes, row, True, arena, spans) <= zones[part, HORIZON]:
            if not has_room(nodes):
                return False
            count_in(row, part, -count, rows, zones)
            roots[part] = insert(nodes, roots[part], row, count, True, arena, spans)
            zones[part, HOT] += count
        row = after
    zones[part, MOST] = 2 * max(zones[part, HOT], kept)
    return True


@inlined
def make_new(part: int, kept: int, zones: Ints) -> None:
    """A partition without rows is like one that never had any."""
    zones[part, HORIZON], zones[part, MOST], zones[part, TAKEN], zones[part, SINCE] = LAST_WORD, 2 * kept, kept, 0


@kernel
def nth_least(words: Ints, n: int) -> int:
    """The n-th least word, counted from 0.  Moves the words about."""
    low, high = 0, len(words)  # it is one of words[low:high]
    while True:
        pivot = words[low + np.int64(mix(np.uint64(low ^ high)) % np.uint64(high - low))]
        less, i, greater = low, low, high  # [low, less) are less, [less, i) equal, [greater, high) greater
        while i < greater:
            word = words[i]
            if word < pivot:
                words[i], words[less] = words[less], word
                less += 1
                i += 1
            elif word > pivot:
                greater -= 1
                words[i], words[greater] = words[greater], word
            else:
                i += 1
        if n < less:
            high = less
        elif n >= greater:
            low = greater
        else:
            return int(pivot)


@kernel
def draw_near_slots(
    slot: int, slot_start: Ints, slot_part: Ints, code: Ints, delta: Ints, nodes: Address, roots: Ints, rows: Ints, zones: Ints,
    ahead: Ints, arena: Address, spans: Address,
) -> None:  # fmt: skip
    """Start to load what the first changes of the next slots will read, in the multisets or here.  Never changes an outcome."""
    stop, many = min(slot + TOGETHER, len(slot_part)), 0
    for s in range(slot, stop):
        prefetch(zones, slot_part[s])
        prefetch(rows, code[slot_start[s]])
        prefetch_at(spans, 2 * code[slot_start[s]])
    for s in range(slot, stop):
        part, i = slot_part[s], slot_start[s]
        if not is_cold(code[i], part, delta[i], rows, zones, nodes, arena, spans):
            ahead[0, many], ahead[1, many] = roots[part], code[i]
            many += 1
        elif delta[i] > 0:
            prefetch(rows, max(zones[part, HEAD], 0))
        else:
            prefetch(rows, max(rows[code[i], BEFORE], 0))
            prefetch(rows, max(rows[code[i], NEXT], 0))
    if many > 0:
        draw_near(nodes, many, address(ahead), True, arena, spans)
