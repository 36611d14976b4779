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

from millstream.kernels.compiled import (
    Address,
    Bytes,
    Ints,
    address,
    get,
    inlined,
    kernel,
    load_u8,
    load_u64,
    put,
    same_bytes,
    swapped,
)
from millstream.kernels.ordered_multiset import (
    NOT_THERE,
    TOGETHER,
    copy_range,
    count_before,
    delete,
    draw_near_slots,
    has_room,
    insert,
    kth,
    new_ahead,
    place_and_times,
    size,
)

CODE, POSITION, FIRST_PEER, AFTER_PEERS, DENSE, INTERVAL = range(6)
TARGET_WIDTH = 6
BEGIN, END, ROWS, SLOT, SIGN, SHIFT, BASE = range(7)
INTERVAL_WIDTH = 7

BY_KEY, START_KIND, START_OFFSET, STOP_KIND, STOP_OFFSET, WANTED, SUMMED, TOUCHES_ALL = range(8)
SPEC_WIDTH = 8
"""BY_KEY: RANGE, not ROWS.  WANTED: in `frames`; SUMMED: its rows are, too, in `context`.  TOUCHES_ALL: any change changes what a
frame over all rows gives."""
BEFORE_ALL, AT_OFFSET, AFTER_ALL = range(3)

OF_FRAME, AT = 0, 1
LOOKUP_WIDTH = 2
"""A lookup: the number of a spec, and the row that is meant: 1 its first, 2 its second, ..., -1 its last."""

SPECS, LOOKUPS, WANTS_PEERS, IS_RUNNING, BACK, AHEAD = range(6)
"""Of `manner`: how many specs and lookups there are; whether peers matter; whether something begins with the first row and is
summed up or counted from there; how many rows before and behind a target are always wanted."""

DONE, OUT_OF_NODES, FULL, NEVER_THERE = range(4)
WHERE, PHASE, CHANGE, TARGETS, INTERVALS, CONTEXT, SINCE = range(7)
"""Of `progress`: the slot, what is to be done for it, the next of its changes; how much has been filled; and the slot's BASE."""
AS_IT_WAS, _APPLY, _AS_IT_IS = range(3)

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
def _key_of(arena: Address, start: int, descending: bool) -> np.int64:
    """The one sort key of a row that has one word there, not NULL: an integer, or a double's word."""
    word = swapped(load_u64(arena, start + 1))
    return np.int64(~word if descending else word) ^ _SIGN


@inlined
def _set_bound(arena: Address, key: np.int64, beyond: int, descending: bool) -> int:
    """The bytes of a key that no row need have, at the beginning of the arena; their number.  NULLs stay on their side of it."""
    word = np.uint64(key ^ _SIGN)
    word = swapped(~word if descending else word)
    if beyond != 0:
        word = ~np.uint64(0)
    put(arena, 0, np.int64(np.uint64(1) | (word << np.uint64(8))))  # a value, not NULL
    put(arena, 1, np.int64((word >> np.uint64(56)) | np.uint64(0xFF00)))
    if beyond == 0:
        return 9
    return 1 if (beyond > 0) == descending else 10  # what all values begin with is before them; more than a value is behind


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
def _peers(trees: Address, root: int, code: int, or_equal: bool, arena: Address, spans: Address, prefixes: Address) -> int:
    """How many rows sort before this one, or before or like it."""
    return count_before(trees, root, get(spans, 2 * code), get(prefixes, code), or_equal, arena, spans, prefixes, 1)


@inlined
def alike(one: int, other: int, arena: Address, spans: Address, prefixes: Address) -> bool:
    """Peers."""
    if one == other:
        return True
    length = get(prefixes, one)
    return length == get(prefixes, other) and same_bytes(arena, get(spans, 2 * one), arena, get(spans, 2 * other), length)


@kernel
def _by_key(
    trees: Address, root: int, code: int, offset: int, forward: bool, or_equal: bool, widened: int,
    arena: Address, spans: Address, prefixes: Address, descending: bool, floating: bool,
) -> int:  # fmt: skip
    """How many rows sort before the key at a distance from this row's, or before or like it."""
    start = get(spans, 2 * code)
    if offset == 0 or load_u8(arena, start) != 1:  # the peers; a NULL is far from everything else
        return _peers(trees, root, code, or_equal, arena, spans, prefixes)
    key = _key_of(arena, start, descending)
    key, beyond = _shifted(key, np.int64(offset), forward != descending, floating, -widened if descending else widened)
    length = _set_bound(arena, key, beyond, descending)
    return count_before(trees, root, 0, length, or_equal, arena, spans, prefixes, 1)


@inlined
def _of(specs: Address, f: int, field: int) -> int:
    return get(specs, f * SPEC_WIDTH + field)


@inlined
def _is_whole(specs: Address, f: int) -> bool:
    return _of(specs, f, START_KIND) == BEFORE_ALL and _of(specs, f, STOP_KIND) == AFTER_ALL


@inlined
def _within(position: int, size: int) -> int:
    return max(0, min(position, size))


@inlined
def _affected(
    trees: Address, root: int, rows: int, code: int, here: int, beyond: int, all_changed: bool,
    specs: Address, lookups: Address, manner: Address, arena: Address, spans: Address, prefixes: Address, descending: bool, floating: bool,
) -> tuple[int, int]:  # fmt: skip
    """The rows whose frames can see a change of this one; itself among them, as often as it is there, from `here` to `beyond`."""
    first, stop = here, beyond
    for f in range(get(manner, SPECS)):
        start_kind, stop_kind = _of(specs, f, START_KIND), _of(specs, f, STOP_KIND)
        if _is_whole(specs, f):
            if _of(specs, f, TOUCHES_ALL) != 0 or all_changed:
                return 0, rows
            continue
        if stop_kind == AFTER_ALL:
            first = 0
        elif _of(specs, f, BY_KEY) == 0:
            first = min(first, here - _of(specs, f, STOP_OFFSET))
        else:
            back = _by_key(
                trees, root, code, _of(specs, f, STOP_OFFSET), False, False, -1, arena, spans, prefixes, descending, floating
            )  # fmt: skip
            first = min(first, back)
        if start_kind == BEFORE_ALL:
            stop = rows
        elif _of(specs, f, BY_KEY) == 0:
            stop = max(stop, beyond - _of(specs, f, START_OFFSET))
        else:
            ahead = _by_key(
                trees, root, code, _of(specs, f, START_OFFSET), False, True, 1, arena, spans, prefixes, descending, floating
            )  # fmt: skip
            stop = max(stop, ahead)
    for k in range(get(manner, LOOKUPS)):
        f, at = get(lookups, LOOKUP_WIDTH * k + OF_FRAME), get(lookups, LOOKUP_WIDTH * k + AT)
        if _is_whole(specs, f) and (here < at or (at < 0 and rows - beyond < -at)):
            return 0, rows
    return _within(first, rows), _within(stop, rows)


@inlined
def _edge(
    trees: Address, root: int, rows: int, kind: int, by_key: bool, offset: int, position: int, code: int, peer: int, is_stop: bool,
    arena: Address, spans: Address, prefixes: Address, descending: bool, floating: bool,
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


@inlined
def _frame(
    trees: Address, root: int, rows: int, specs: Address, f: int, position: int, code: int, first_peer: int, after_peers: int,
    arena: Address, spans: Address, prefixes: Address, descending: bool, floating: bool,
) -> tuple[int, int]:  # fmt: skip
    """The range of positions that a frame covers."""
    by_key = _of(specs, f, BY_KEY) != 0
    start = _edge(
        trees, root, rows, _of(specs, f, START_KIND), by_key, _of(specs, f, START_OFFSET), position, code, first_peer, False,
        arena, spans, prefixes, descending, floating,
    )  # fmt: skip
    stop = _edge(
        trees, root, rows, _of(specs, f, STOP_KIND), by_key, _of(specs, f, STOP_OFFSET), position, code, after_peers, True,
        arena, spans, prefixes, descending, floating,
    )  # fmt: skip
    return start, max(start, stop)


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
    trees: Address, root: int, code: Address, delta: Address, begin: int, many: int, all_changed: bool,
    specs: Address, lookups: Address, manner: Address, arena: Address, spans: Address, prefixes: Address, descending: bool, floating: bool,
    as_it_is: bool, places: Address, found: Address, progress: Address,
) -> int:  # fmt: skip
    """Ranges of positions with all rows that these changes can touch; their number."""
    rows, first = size(trees, root), size(trees, root)
    for i in range(many):
        changed = get(code, begin + i)
        if as_it_is and many == 1:  # mostly: nothing else can have moved it
            here, times = get(places, 0), get(places, 1) + get(delta, begin)
        else:
            here, times = place_and_times(trees, root, changed, True, arena, spans)
        put(places, 2 * i, here)
        put(places, 2 * i + 1, times)
        start, stop = _affected(
            trees, root, rows, changed, here, here + times, all_changed, specs, lookups, manner,
            arena, spans, prefixes, descending, floating,
        )  # fmt: skip
        put(found, 2 * i, start)
        put(found, 2 * i + 1, stop)
        first = min(first, start)
        if not as_it_is:
            put(progress, SINCE, here if i == 0 else min(get(progress, SINCE), here))
    if get(manner, IS_RUNNING) == 0:
        return many
    put(found, 0, first)
    put(found, 1, rows)
    return 1


@inlined
def _first_peer(
    trees: Address, root: int, position: int, code: int, low: int, at: int, context: Address,
    arena: Address, spans: Address, prefixes: Address,
) -> int:  # fmt: skip
    if position == 0 or (position > low and not alike(get(context, at + position - 1), code, arena, spans, prefixes)):
        return position
    return _peers(trees, root, code, False, arena, spans, prefixes)


@inlined
def _after_peers(
    trees: Address, root: int, rows: int, position: int, code: int, high: int, at: int, context: Address,
    arena: Address, spans: Address, prefixes: Address,
) -> int:  # fmt: skip
    """Looked for among the rows around it first."""
    behind = position + 1
    while behind < high and alike(get(context, at + behind), code, arena, spans, prefixes):
        behind += 1
    return _peers(trees, root, code, True, arena, spans, prefixes) if behind == high and high < rows else behind


@inlined
def _put_target(target: Address, code: int, position: int, first_peer: int, after_peers: int, dense: int, interval: int) -> None:
    put(target, CODE, code)
    put(target, POSITION, position)
    put(target, FIRST_PEER, first_peer)
    put(target, AFTER_PEERS, after_peers)
    put(target, DENSE, dense)
    put(target, INTERVAL, interval)


@inlined
def _put_interval(interval: Address, begin: int, end: int, rows: int, slot: int, sign: int, shift: int, base: int) -> None:
    put(interval, BEGIN, begin)
    put(interval, END, end)
    put(interval, ROWS, rows)
    put(interval, SLOT, slot)
    put(interval, SIGN, sign)
    put(interval, SHIFT, shift)
    put(interval, BASE, base)


@inlined
def _describe(
    trees: Address, root: int, part: int, slot: int, as_it_is: bool, found: Address, many: int,
    specs: Address, lookups: Address, manner: Address,
    arena: Address, spans: Address, prefixes: Address, descending: bool, floating: bool, distinct: Address,
    progress: Address, targets: Address, frames: Address, looked: Address, intervals: Address, context: Address,
    target_room: int, interval_room: int, context_room: int,
) -> bool:  # fmt: skip
    """Fill in all targets of these intervals; False, and nothing is, if there is no room."""
    t, v, c, base = get(progress, TARGETS), get(progress, INTERVALS), get(progress, CONTEXT), get(progress, SINCE)
    rows, wants_peers, running = size(trees, root), get(manner, WANTS_PEERS) != 0, get(manner, IS_RUNNING) != 0
    if v + many > interval_room:
        return False
    starts, many_specs = 0, get(manner, SPECS)
    for i in range(many):
        first, stop = get(found, 2 * i), get(found, 2 * i + 1)
        if first >= stop and not running:
            continue
        low, high = max(0, first - get(manner, BACK)), min(rows, stop + get(manner, AHEAD))
        if running:
            low, high = min(low, base), rows
        if t + stop - first > target_room or c + high - low > context_room:
            return False
        copy_range(trees, root, low, high - low, context, c)
        at, wide_low, wide_high, peers_until = c - low, low, high, -1
        begin, first_peer, after_peers = t, first, first
        for position in range(first, stop):
            code = get(context, at + position)
            is_peer = position < peers_until
            if wants_peers and not is_peer:
                first_peer = position
                if t == begin:
                    first_peer = _first_peer(trees, root, position, code, low, at, context, arena, spans, prefixes)
                after_peers = _after_peers(trees, root, rows, position, code, high, at, context, arena, spans, prefixes)
                peers_until = after_peers
                starts += first_peer == position
            _put_target(targets + 8 * TARGET_WIDTH * t, code, position, first_peer, after_peers, starts, v)
            frames_here = frames + 16 * many_specs * t
            for f in range(many_specs):
                by_key = _of(specs, f, BY_KEY) != 0
                if _of(specs, f, WANTED) == 0:
                    continue
                if is_peer and by_key:
                    begins, ends = get(frames_here, 2 * (f - many_specs)), get(frames_here, 2 * (f - many_specs) + 1)
                else:
                    begins, ends = _frame(
                        trees, root, rows, specs, f, position, code, first_peer, after_peers, arena, spans, prefixes, descending, floating
                    )  # fmt: skip
                put(frames_here, 2 * f, begins)
                put(frames_here, 2 * f + 1, ends)
                if _of(specs, f, SUMMED) != 0:
                    if _of(specs, f, START_KIND) == BEFORE_ALL:
                        base = min(base, ends)
                    elif begins < ends:
                        wide_low, wide_high = min(wide_low, begins), max(wide_high, ends)
            for k in range(get(manner, LOOKUPS)):
                f, nth = get(lookups, LOOKUP_WIDTH * k + OF_FRAME), get(lookups, LOOKUP_WIDTH * k + AT)
                begins, ends = get(frames_here, 2 * f), get(frames_here, 2 * f + 1)
                place = begins + nth - 1 if nth > 0 else ends + nth
                row = -1
                if begins <= place < ends:
                    row = get(context, at + place) if low <= place < high else kth(trees, root, place)
                put(looked, t * get(manner, LOOKUPS) + k, row)
            t += 1
        wide_low = min(wide_low, base) if running else wide_low
        if wide_low < low or wide_high > high:
            if c + wide_high - wide_low > context_room:
                return False
            copy_range(trees, root, wide_low, wide_high - wide_low, context, c)
            low, high = wide_low, wide_high
        _put_interval(intervals + 8 * INTERVAL_WIDTH * v, begin, t, rows, slot, 1 if as_it_is else -1, c - low, base)
        c += high - low
        v += 1
    if running:
        _number_peers(targets, get(progress, TARGETS), t, starts, part, as_it_is, distinct)
    put(progress, TARGETS, t)
    put(progress, INTERVALS, v)
    put(progress, CONTEXT, c)
    put(progress, SINCE, base)
    return True


@inlined
def _number_peers(targets: Address, begin: int, end: int, starts: int, part: int, as_it_is: bool, distinct: Address) -> None:
    """Dense ranks.  Targets go up to the last row, so how many keys there are tells how many are before them."""
    before = get(distinct, part) if as_it_is else get(distinct, part) - starts
    for t in range(begin, end):
        put(targets, t * TARGET_WIDTH + DENSE, get(targets, t * TARGET_WIDTH + DENSE) + before)
    put(distinct, part, before + starts if as_it_is else before)


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
    trees, text, texts, sorted_by, ahead = address(nodes), address(arena), address(spans), address(prefixes), new_ahead()
    while progress[WHERE] < len(slot_part):
        s = progress[WHERE]
        if s % TOGETHER == 0 and progress[PHASE] == AS_IT_WAS:
            draw_near_slots(s, slot_start, slot_part, code, trees, roots, ahead, text, texts)
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
            trees, root, address(code), address(delta), first, stop - first, all_changed[s] != 0,
            address(specs), address(lookups), address(manner), text, texts, sorted_by, descending, floating,
            as_it_is, address(places), address(found), address(progress),
        )  # fmt: skip
        many = _merged(found, many) if many > 1 else many
        if not _describe(
            trees, root, part, s, as_it_is, address(found), many, address(specs), address(lookups), address(manner),
            text, texts, sorted_by, descending, floating, address(distinct), address(progress),
            address(targets), address(frames), address(looked), address(intervals), address(context),
            len(targets), len(intervals), len(context),
        ):  # fmt: skip
            places[0, 1], progress[SINCE] = had, since
            return FULL
        progress[PHASE] = AS_IT_WAS if as_it_is else _APPLY
        progress[WHERE] += as_it_is
    return DONE
