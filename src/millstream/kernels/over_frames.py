"""OVER: which rows of a partition a change touches, and what each of them sees, before and after.

A partition's rows stand in an ordered multiset, so a row has a position and a frame is a range of positions.  When rows change at
one instant, the rows whose frames could have seen one of them are found by position and by key: for each change one interval, and
intervals that touch are one.  A row outside of them sees the same rows as before.  Each row inside is a target, with all that its
results are made of:

    targets    (n, 6)         CODE of the row, its POSITION, its peers' range of positions, its DENSE rank, its interval
    frames     (n, specs, 2)  the range of positions that each frame covers
    looked     (n, lookups)   the code of a row that a result comes from (lag, first_value, ...), -1: there is none
    intervals  (m, 7)         its targets from BEGIN to END; ROWS of the partition; its SLOT (partition and instant) and
                              SIGN: -1 as it was, 1 as it is; codes of the rows around it: position p is at context[SHIFT + p]

A frame is a row of `specs`; offsets are negative before the current row.  In RANGE frames they are distances of the one sort key.

Frames from the first row on are not read from their beginning: what is summed up over the whole partition is known, and
`context` holds the rows behind BASE, before which nothing has changed and no frame of a target ends (kernels/over_walks.py).
A slot then has two intervals, both up to the last row, whether there are targets or not.
A frame over all rows touches others than the changed row only if the caller or a lookup says so.
"""

from __future__ import annotations

import numpy as np

from millstream.kernels.compiled import Address, Bytes, Ints, address, inlined, kernel, prefetch_at, same_bytes
from millstream.kernels.ordered_multiset import (
    NOT_THERE,
    copy_range,
    count_before,
    delete,
    has_room,
    insert,
    kth,
    place_and_times,
    size,
)
from millstream.kernels.row_store import START

CODE, POSITION, FIRST_PEER, AFTER_PEERS, DENSE, INTERVAL = range(6)
TARGET_WIDTH = 6
BEGIN, END, ROWS, SLOT, SIGN, SHIFT, BASE = range(7)
INTERVAL_WIDTH = 7

BY_KEY, START_KIND, START_OFFSET, STOP_KIND, STOP_OFFSET, WANTED, SUMMED, TOUCHES_ALL = range(8)
"""BY_KEY: RANGE, not ROWS.  WANTED: in `frames`; SUMMED: its rows are, too, in `context`.  TOUCHES_ALL: any change changes what a
frame over all rows gives."""
BEFORE_ALL, AT_OFFSET, AFTER_ALL = range(3)

OF_FRAME, AT = 0, 1
LOOKUP_WIDTH = 2
"""A lookup: the number of a spec, and the row that is meant: 1 its first, 2 its second, ..., -1 its last."""

WANTS_PEERS, IS_RUNNING, BACK, AHEAD = range(4)
"""Of `manner`: whether peers matter; whether something begins with the first row and is summed up or counted from there; how many
rows before and behind a target are always wanted."""

DONE, OUT_OF_NODES, FULL, NEVER_THERE = range(4)
WHERE, PHASE, CHANGE, TARGETS, INTERVALS, CONTEXT, SINCE = range(7)
"""Of `progress`: the slot, what is to be done for it, the next of its changes; how much has been filled; and the slot's BASE."""
AS_IT_WAS, _APPLY, _AS_IT_IS = range(3)

_SOON = 8
_SIGN = np.int64(-(2**63))
_MOST, _LEAST = np.int64(2**63 - 1), _SIGN
_MARGIN = 2.0**-48


# --- keys -------------------------------------------------------------------------------------


@inlined
def _as_double(word: np.int64) -> np.float64:
    return np.int64(word ^ ((word >> 63) & ~_SIGN)).view(np.float64)


@inlined
def _as_word(value: np.float64) -> np.int64:
    word = np.float64(value + 0.0).view(np.int64) if value == value else np.float64(np.nan).view(np.int64)
    return word ^ ((word >> 63) & ~_SIGN)


@inlined
def _key_of(arena: Bytes, start: int, descending: bool) -> np.int64:
    """The one sort key of a row that has one word there, not NULL: an integer, or a double's word."""
    word = np.uint64(0)
    for i in range(8):
        word = (word << np.uint64(8)) | np.uint64(arena[start + 1 + i])
    return np.int64(~word if descending else word) ^ _SIGN


@inlined
def _set_bound(arena: Bytes, key: np.int64, beyond: int, descending: bool) -> int:
    """The bytes of a key that no row need have, at the beginning of the arena; their number.  NULLs stay on their side of it."""
    word = np.uint64(key ^ _SIGN)
    word = ~word if descending else word
    arena[0] = 1
    for i in range(8):
        arena[1 + i] = np.uint8((word >> np.uint64(56 - 8 * i)) & np.uint64(255))
    if beyond == 0:
        return 9
    if (beyond > 0) == descending:
        return 1  # what all values begin with is before them
    for i in range(9):
        arena[1 + i] = 255
    return 10


@kernel
def _shifted(key: np.int64, offset: np.int64, forward: bool, floating: bool, widened: int) -> tuple[np.int64, int]:
    """The key so far from this one, or, if not `forward`, the key from which this one is so far; -1 or 1 if it is beyond all keys.

    Sums of doubles are rounded: `widened` (-1 or 1) moves the outcome down or up by more than that could be.
    """
    if not floating:
        by = offset if forward else -offset
        if by > 0 and key > _MOST - by:
            return key, 1
        if by < 0 and key < _LEAST - by:
            return key, -1
        return key + by, 0
    here, distance = _as_double(key), np.int64(offset).view(np.float64)
    there = here + distance if forward else here - distance
    if widened != 0:
        margin = _MARGIN * (abs(here) + abs(distance))
        if not np.isfinite(margin):
            return key, widened
        there += widened * margin
    return _as_word(there), 0


# --- frames -----------------------------------------------------------------------------------


@inlined
def _peers(trees: Address, root: int, code: int, or_equal: bool, arena: Bytes, spans: Ints, prefixes: Ints) -> int:
    """How many rows sort before this one, or before or like it."""
    return count_before(
        trees, root, spans[code, START], prefixes[code], or_equal, address(arena), address(spans), address(prefixes), 1
    )  # fmt: skip


@inlined
def alike(one: int, other: int, arena: Bytes, spans: Ints, prefixes: Ints) -> bool:
    """Peers."""
    if one == other:
        return True
    return prefixes[one] == prefixes[other] and same_bytes(
        address(arena), spans[one, START], address(arena), spans[other, START], prefixes[one]
    )


@kernel
def _by_key(
    trees: Address, root: int, code: int, offset: np.int64, forward: bool, or_equal: bool, widened: int,
    arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool,
) -> int:  # fmt: skip
    """How many rows sort before the key at a distance from this row's, or before or like it."""
    start = spans[code, START]
    if offset == 0 or arena[start] != 1:  # the peers; a NULL is far from everything else
        return _peers(trees, root, code, or_equal, arena, spans, prefixes)
    key = _key_of(arena, start, descending)
    key, beyond = _shifted(key, offset, forward != descending, floating, -widened if descending else widened)
    length = _set_bound(arena, key, beyond, descending)
    return count_before(trees, root, 0, length, or_equal, address(arena), address(spans), address(prefixes), 1)


@inlined
def _within(position: int, size: int) -> int:
    return max(0, min(position, size))


@inlined
def _affected(
    trees: Address, root: int, rows: int, code: int, here: int, beyond: int, all_changed: bool, specs: Ints, lookups: Ints,
    arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool,
) -> tuple[int, int]:  # fmt: skip
    """The rows whose frames can see a change of this one; itself among them, as often as it is there, from `here` to `beyond`."""
    first, stop = here, beyond
    for f in range(len(specs)):
        start_kind, stop_kind = specs[f, START_KIND], specs[f, STOP_KIND]
        if start_kind == BEFORE_ALL and stop_kind == AFTER_ALL:
            if specs[f, TOUCHES_ALL] != 0 or all_changed:
                return 0, rows
            continue
        if stop_kind == AFTER_ALL:
            first = 0
        elif specs[f, BY_KEY] == 0:
            first = min(first, here - specs[f, STOP_OFFSET])
        else:
            back = _by_key(
                trees, root, code, specs[f, STOP_OFFSET], False, False, -1, arena, spans, prefixes, descending, floating
            )  # fmt: skip
            first = min(first, back)
        if start_kind == BEFORE_ALL:
            stop = rows
        elif specs[f, BY_KEY] == 0:
            stop = max(stop, beyond - specs[f, START_OFFSET])
        else:
            ahead = _by_key(
                trees, root, code, specs[f, START_OFFSET], False, True, 1, arena, spans, prefixes, descending, floating
            )  # fmt: skip
            stop = max(stop, ahead)
    for k in range(len(lookups)):
        f, at = lookups[k, OF_FRAME], lookups[k, AT]
        if specs[f, START_KIND] == BEFORE_ALL and specs[f, STOP_KIND] == AFTER_ALL and (here < at or (at < 0 and rows - beyond < -at)):
            return 0, rows
    return _within(first, rows), _within(stop, rows)


@inlined
def _edge(
    trees: Address, root: int, rows: int, kind: int, by_key: bool, offset: int, position: int, code: int, peer: int, is_stop: bool,
    arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool,
) -> int:  # fmt: skip
    """Where a frame begins, or where it ends; `peer` is where the row's peers do."""
    if kind == BEFORE_ALL:
        return 0
    if kind == AFTER_ALL:
        return rows
    if not by_key:
        return _within(position + offset + is_stop, rows)
    if offset == 0:
        return peer
    return _by_key(trees, root, code, offset, True, is_stop, 0, arena, spans, prefixes, descending, floating)


# --- targets ----------------------------------------------------------------------------------


@kernel
def _merged(found: Ints, many: int) -> int:
    """Ranges in order, those that touch as one and without empty ones, at the beginning of `found`; their number."""
    order = np.argsort(found[:many, 0])
    ranges = found[:many][order]
    n = 0
    for i in range(many):
        first, stop = ranges[i, 0], ranges[i, 1]
        if first >= stop:
            continue
        if n > 0 and first <= found[n - 1, 1]:
            found[n - 1, 1] = max(found[n - 1, 1], stop)
        else:
            found[n, 0], found[n, 1] = first, stop
            n += 1
    return n


@inlined
def _find_intervals(
    trees: Address, root: int, code: Ints, delta: Ints, begin: int, many: int, all_changed: bool, specs: Ints, lookups: Ints, manner: Ints,
    arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool, as_it_is: bool, places: Ints, found: Ints, progress: Ints,
) -> int:  # fmt: skip
    """Ranges of positions, in order, that do not touch one another: all rows that these changes can touch; their number."""
    rows = size(trees, root)
    for i in range(many):
        if as_it_is and many == 1:  # mostly: nothing else can have moved it
            places[i, 1] += delta[begin]
        else:
            places[i, 0], places[i, 1] = place_and_times(trees, root, code[begin + i], True, address(arena), address(spans))
        here = places[i, 0]
        found[i, 0], found[i, 1] = _affected(
            trees, root, rows, code[begin + i], here, here + places[i, 1], all_changed, specs, lookups,
            arena, spans, prefixes, descending, floating,
        )  # fmt: skip
        if not as_it_is:
            progress[SINCE] = here if i == 0 else min(progress[SINCE], here)
    if manner[IS_RUNNING] != 0:
        for i in range(1, many):
            found[0, 0] = min(found[0, 0], found[i, 0])
        found[0, 1] = rows
        return 1
    if many == 1:
        return 1 if found[0, 0] < found[0, 1] else 0
    return _merged(found, many)


@inlined
def _first_peer(
    trees: Address, root: int, position: int, code: int, low: int, at: int, context: Ints, arena: Bytes, spans: Ints, prefixes: Ints
) -> int:  # fmt: skip
    if position == 0 or (position > low and not alike(context[at + position - 1], code, arena, spans, prefixes)):
        return position
    return _peers(trees, root, code, False, arena, spans, prefixes)


@inlined
def _after_peers(
    trees: Address, root: int, rows: int, position: int, code: int, high: int, at: int, context: Ints,
    arena: Bytes, spans: Ints, prefixes: Ints,
) -> int:  # fmt: skip
    """Looked for among the rows around it first."""
    behind = position + 1
    while behind < high and alike(context[at + behind], code, arena, spans, prefixes):
        behind += 1
    return _peers(trees, root, code, True, arena, spans, prefixes) if behind == high and high < rows else behind


@inlined
def _describe(
    trees: Address, root: int, part: int, slot: int, as_it_is: bool, found: Ints, many: int, specs: Ints, lookups: Ints, manner: Ints,
    arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool, distinct: Ints,
    progress: Ints, targets: Ints, frames: Ints, looked: Ints, intervals: Ints, context: Ints,
) -> bool:  # fmt: skip
    """Fill in all targets of these intervals; False, and nothing is, if there is no room."""
    t, v, c, base = progress[TARGETS], progress[INTERVALS], progress[CONTEXT], progress[SINCE]
    rows, wants_peers, running = size(trees, root), manner[WANTS_PEERS] != 0, manner[IS_RUNNING] != 0
    if v + many > len(intervals):
        return False
    starts = 0
    for i in range(many):
        first, stop = found[i, 0], found[i, 1]
        low, high = max(0, first - manner[BACK]), min(rows, stop + manner[AHEAD])
        if running:
            low, high = min(low, base), rows
        if t + stop - first > len(targets) or c + high - low > len(context):
            return False
        copy_range(trees, root, low, high - low, address(context), c)
        at, wide_low, wide_high, peers_until = c - low, low, high, -1
        begin, first_peer, after_peers = t, first, first
        for position in range(first, stop):
            code = context[at + position]
            is_peer = position < peers_until
            if wants_peers and not is_peer:
                first_peer = position
                if t == begin:
                    first_peer = _first_peer(trees, root, position, code, low, at, context, arena, spans, prefixes)
                after_peers = _after_peers(trees, root, rows, position, code, high, at, context, arena, spans, prefixes)
                peers_until = after_peers
                starts += first_peer == position
            targets[t, CODE], targets[t, POSITION], targets[t, INTERVAL] = code, position, v
            targets[t, FIRST_PEER], targets[t, AFTER_PEERS], targets[t, DENSE] = first_peer, after_peers, starts
            for f in range(len(specs)):
                by_key = specs[f, BY_KEY] != 0
                if specs[f, WANTED] == 0:
                    continue
                if is_peer and by_key:
                    begins, ends = frames[t - 1, f, 0], frames[t - 1, f, 1]
                else:
                    begins = _edge(
                        trees, root, rows, specs[f, START_KIND], by_key, specs[f, START_OFFSET], position, code, first_peer, False,
                        arena, spans, prefixes, descending, floating,
                    )  # fmt: skip
                    ends = _edge(
                        trees, root, rows, specs[f, STOP_KIND], by_key, specs[f, STOP_OFFSET], position, code, after_peers, True,
                        arena, spans, prefixes, descending, floating,
                    )  # fmt: skip
                    ends = max(begins, ends)
                frames[t, f, 0], frames[t, f, 1] = begins, ends
                if specs[f, SUMMED] != 0:
                    if specs[f, START_KIND] == BEFORE_ALL:
                        base = min(base, ends)
                    elif begins < ends:
                        wide_low, wide_high = min(wide_low, begins), max(wide_high, ends)
            for k in range(len(lookups)):
                begins, ends, nth = frames[t, lookups[k, OF_FRAME], 0], frames[t, lookups[k, OF_FRAME], 1], lookups[k, AT]
                place = begins + nth - 1 if nth > 0 else ends + nth
                if not begins <= place < ends:
                    looked[t, k] = -1
                elif low <= place < high:
                    looked[t, k] = context[at + place]
                else:
                    looked[t, k] = kth(trees, root, place)
            t += 1
        wide_low = min(wide_low, base) if running else wide_low
        if wide_low < low or wide_high > high:
            if c + wide_high - wide_low > len(context):
                return False
            copy_range(trees, root, wide_low, wide_high - wide_low, address(context), c)
            low, high = wide_low, wide_high
        intervals[v, BEGIN], intervals[v, END], intervals[v, ROWS], intervals[v, SLOT] = begin, t, rows, slot
        intervals[v, SIGN], intervals[v, SHIFT], intervals[v, BASE] = 1 if as_it_is else -1, c - low, base
        c += high - low
        v += 1
    if running:
        _number_peers(targets, progress[TARGETS], t, starts, part, as_it_is, distinct)
    progress[TARGETS], progress[INTERVALS], progress[CONTEXT], progress[SINCE] = t, v, c, base
    return True


@inlined
def _number_peers(targets: Ints, begin: int, end: int, starts: int, part: int, as_it_is: bool, distinct: Ints) -> None:
    """Dense ranks.  Targets go up to the last row, so how many keys there are tells how many are before them."""
    if not as_it_is:
        distinct[part] -= starts
    for t in range(begin, end):
        targets[t, DENSE] += distinct[part]
    if as_it_is:
        distinct[part] += starts


@kernel
def follow(
    slot_start: Ints, slot_part: Ints, code: Ints, delta: Ints, all_changed: Bytes, nodes: Ints, roots: Ints, path: Ints,
    specs: Ints, lookups: Ints, manner: Ints, arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool,
    distinct: Ints, places: Ints, found: Ints,
    progress: Ints, targets: Ints, frames: Ints, looked: Ints, intervals: Ints, context: Ints,
) -> int:  # fmt: skip
    """Apply the changes slot by slot, and note the targets of each before and after.

    Stops when it is done, when an insert might find no node, when there is no room for what a slot has to say (the caller
    uses up what is there, if that is whole slots, or makes more room, and calls again), or at a row that was never there.
    """
    trees, text, texts = address(nodes), address(arena), address(spans)
    while progress[WHERE] < len(slot_part):
        s = progress[WHERE]
        if s + _SOON < len(slot_part):
            prefetch_at(trees, max(0, roots[slot_part[s + _SOON]]))
        part, first, stop = slot_part[s], slot_start[s], slot_start[s + 1]
        if progress[PHASE] == _APPLY:
            for i in range(first + progress[CHANGE], stop):
                progress[CHANGE] = i - first
                if delta[i] > 0:
                    if not has_room(trees):
                        return OUT_OF_NODES
                    roots[part] = insert(trees, roots[part], code[i], delta[i], True, text, texts)
                for _ in range(-delta[i]):
                    roots[part] = delete(trees, roots[part], code[i], address(path), True, text, texts)
                    if roots[part] == NOT_THERE:
                        return NEVER_THERE
            progress[PHASE], progress[CHANGE] = _AS_IT_IS, 0
        as_it_is, root, since = progress[PHASE] == _AS_IT_IS, roots[part], progress[SINCE]
        if not as_it_is and 2 * max(progress[TARGETS], progress[INTERVALS]) > len(targets):
            return FULL
        had = places[0, 1]
        many = _find_intervals(
            trees, root, code, delta, first, stop - first, all_changed[s] != 0, specs, lookups, manner,
            arena, spans, prefixes, descending, floating, as_it_is, places, found, progress,
        )  # fmt: skip
        if not _describe(
            trees, root, part, s, as_it_is, found, many, specs, lookups, manner,
            arena, spans, prefixes, descending, floating, distinct, progress, targets, frames, looked, intervals, context,
        ):  # fmt: skip
            places[0, 1], progress[SINCE] = had, since
            return FULL
        progress[PHASE] = AS_IT_WAS if as_it_is else _APPLY
        progress[WHERE] += as_it_is
    return DONE
