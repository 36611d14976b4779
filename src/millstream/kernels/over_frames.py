"""OVER: which rows of a partition a change touches, and what each of them sees, before and after.

A partition's rows stand in an ordered multiset, so a row has a position and a frame is a range of positions.  When rows change at
one instant, the rows whose frames could have seen one of them are found by position and by key: for each change one interval, and
intervals that touch are one.  A row outside of them sees the same rows as before.  Each row inside is a target, with all that its
results are made of:

    targets   (n, 8)         CODE of the row, its POSITION, SIZE of the partition, its peers' range of positions,
                             its interval, its SLOT (partition and instant), SIGN: -1 as it was, 1 as it is
    frames    (n, specs, 2)  the range of positions that each frame covers
    looked    (n, lookups)   the code of a row that a result comes from (lag, first_value, ...), -1: there is none
    context   codes of the rows that the frames of an interval cover, for those that are summed up; position p of interval i
              is at context[shift[i] + p]

A frame is a row of `specs`; offsets are negative before the current row.  In RANGE frames they are distances of the one sort key.
"""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import Address, Bytes, Ints, address, inlined, kernel
from millstream.kernels.ordered_multiset import EMPTY, NOT_THERE, copy_range, count_before, delete, has_room, insert, kth, size
from millstream.kernels.row_store import LENGTH, START
from millstream.kernels.slots import Places

CODE, POSITION, SIZE, FIRST_PEER, AFTER_PEERS, INTERVAL, SLOT, SIGN = range(8)
TARGET_WIDTH = 8

BY_KEY, START_KIND, START_OFFSET, STOP_KIND, STOP_OFFSET, SUMMED = range(6)
SPEC_WIDTH = 6
"""BY_KEY: RANGE, not ROWS.  SUMMED: its rows are wanted in `context`."""
BEFORE_ALL, AT_OFFSET, AFTER_ALL = range(3)

OF_FRAME, AT = 0, 1
LOOKUP_WIDTH = 2
"""A lookup: the number of a spec, and the row that is meant: 1 its first, 2 its second, ..., -1 its last."""

DONE, OUT_OF_NODES, FULL, NEVER_THERE = range(4)
WHERE, PHASE, CHANGE, TARGETS, INTERVALS, CONTEXT = range(6)
"""Of `progress`: the slot, what is to be done for it, the next of its changes; and how much has been filled."""
_AS_IT_WAS, _APPLY, _AS_IT_IS = range(3)

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
def _rows_before(trees: Address, root: int, code: int, or_equal: bool, arena: Bytes, spans: Ints) -> int:
    return count_before(
        trees, root, spans[code, START], spans[code, LENGTH], or_equal, address(arena), address(spans), address(spans) + 8, 2
    )  # fmt: skip


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


@kernel
def _affected(
    trees: Address, root: int, rows: int, code: int, specs: Ints, arena: Bytes, spans: Ints, prefixes: Ints,
    descending: bool, floating: bool,
) -> tuple[int, int]:  # fmt: skip
    """The rows whose frames can see a change of this one; itself among them, as often as it is there."""
    here = _rows_before(trees, root, code, False, arena, spans)
    beyond = _rows_before(trees, root, code, True, arena, spans)
    first, stop = here, beyond
    for f in range(len(specs)):
        if specs[f, STOP_KIND] == AFTER_ALL:
            first = 0
        elif specs[f, BY_KEY] == 0:
            first = min(first, here - specs[f, STOP_OFFSET])
        else:
            back = _by_key(
                trees, root, code, specs[f, STOP_OFFSET], False, False, -1, arena, spans, prefixes, descending, floating
            )  # fmt: skip
            first = min(first, back)
        if specs[f, START_KIND] == BEFORE_ALL:
            stop = rows
        elif specs[f, BY_KEY] == 0:
            stop = max(stop, beyond - specs[f, START_OFFSET])
        else:
            ahead = _by_key(
                trees, root, code, specs[f, START_OFFSET], False, True, 1, arena, spans, prefixes, descending, floating
            )  # fmt: skip
            stop = max(stop, ahead)
    return _within(first, rows), _within(stop, rows)


@kernel
def _frame(
    trees: Address, root: int, target: Ints, spec: Ints, frame: Ints, arena: Bytes, spans: Ints, prefixes: Ints,
    descending: bool, floating: bool,
) -> None:  # fmt: skip
    rows, position = target[SIZE], target[POSITION]
    if spec[START_KIND] == BEFORE_ALL:
        start = 0
    elif spec[START_KIND] == AFTER_ALL:
        start = rows
    elif spec[BY_KEY] == 0:
        start = _within(position + spec[START_OFFSET], rows)
    elif spec[START_OFFSET] == 0:
        start = target[FIRST_PEER]
    else:
        start = _by_key(
            trees, root, target[CODE], spec[START_OFFSET], True, False, 0, arena, spans, prefixes, descending, floating
        )  # fmt: skip
    if spec[STOP_KIND] == AFTER_ALL:
        stop = rows
    elif spec[STOP_KIND] == BEFORE_ALL:
        stop = 0
    elif spec[BY_KEY] == 0:
        stop = _within(position + spec[STOP_OFFSET] + 1, rows)
    elif spec[STOP_OFFSET] == 0:
        stop = target[AFTER_PEERS]
    else:
        stop = _by_key(
            trees, root, target[CODE], spec[STOP_OFFSET], True, True, 0, arena, spans, prefixes, descending, floating
        )  # fmt: skip
    frame[0], frame[1] = start, max(start, stop)


# --- targets ----------------------------------------------------------------------------------


@kernel
def _intervals(
    trees: Address, root: int, changed: Ints, specs: Ints, arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool
) -> Ints:  # fmt: skip
    """Ranges of positions, in order, that do not touch one another: all rows that these changes can touch."""
    found = np.empty((len(changed), 2), np.int64)
    rows = size(trees, root)
    for i in range(len(changed)):
        first, stop = _affected(trees, root, rows, changed[i], specs, arena, spans, prefixes, descending, floating)
        found[i, 0], found[i, 1] = first, stop
    if len(changed) == 1:  # mostly
        return found if found[0, 0] < found[0, 1] else found[:0]
    order = np.argsort(found[:, 0])
    merged = np.empty_like(found)
    n = 0
    for place in order:
        first, stop = found[place, 0], found[place, 1]
        if first >= stop:
            continue
        if n > 0 and first <= merged[n - 1, 1]:
            merged[n - 1, 1] = max(merged[n - 1, 1], stop)
        else:
            merged[n, 0], merged[n, 1] = first, stop
            n += 1
    return merged[:n]


@kernel
def _describe(
    trees: Address, root: int, slot: int, sign: int, intervals: Ints, specs: Ints, lookups: Ints, wants_peers: bool,
    arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool,
    progress: Ints, targets: Ints, frames: Ints, looked: Ints, shift: Ints, context: Ints,
) -> bool:  # fmt: skip
    """Fill in all targets of these intervals; False, and nothing is, if there is no room."""
    t, v, c = progress[TARGETS], progress[INTERVALS], progress[CONTEXT]
    wanted = 0
    for i in range(len(intervals)):
        wanted += intervals[i, 1] - intervals[i, 0]
    if t + wanted > len(targets) or v + len(intervals) > len(shift):
        return False
    rows = size(trees, root)
    codes = np.empty(wanted, np.int64)
    for i in range(len(intervals)):
        first, stop = intervals[i, 0], intervals[i, 1]
        copy_range(trees, root, first, stop - first, address(codes), 0)
        low, high, peers_until = rows, 0, -1
        for position in range(first, stop):
            target = targets[t]
            target[CODE], target[POSITION], target[SIZE] = codes[position - first], position, rows
            target[INTERVAL], target[SLOT], target[SIGN] = v, slot, sign
            is_peer = position < peers_until
            if is_peer:
                target[FIRST_PEER], target[AFTER_PEERS] = targets[t - 1, FIRST_PEER], targets[t - 1, AFTER_PEERS]
            elif wants_peers:
                target[FIRST_PEER] = _peers(trees, root, target[CODE], False, arena, spans, prefixes)
                target[AFTER_PEERS] = peers_until = _peers(trees, root, target[CODE], True, arena, spans, prefixes)
            for f in range(len(specs)):
                if is_peer and specs[f, BY_KEY] != 0:
                    frames[t, f, 0], frames[t, f, 1] = frames[t - 1, f, 0], frames[t - 1, f, 1]
                else:
                    _frame(trees, root, target, specs[f], frames[t, f], arena, spans, prefixes, descending, floating)
                if specs[f, SUMMED] and frames[t, f, 0] < frames[t, f, 1]:
                    low, high = min(low, frames[t, f, 0]), max(high, frames[t, f, 1])
            for k in range(len(lookups)):
                looked[t, k] = _looked_up(trees, root, frames[t, lookups[k, OF_FRAME]], lookups[k, AT])
            t += 1
        if low < high:
            if c + high - low > len(context):
                return False
            copy_range(trees, root, low, high - low, address(context), c)
            shift[v] = c - low
            c += high - low
        else:
            shift[v] = c
        v += 1
    progress[TARGETS], progress[INTERVALS], progress[CONTEXT] = t, v, c
    return True


@kernel
def _looked_up(trees: Address, root: int, frame: Ints, at: int) -> int:
    position = frame[0] + at - 1 if at > 0 else frame[1] + at
    return kth(trees, root, position) if frame[0] <= position < frame[1] else -1


@kernel
def follow(
    slot_start: Ints, slot_part: Ints, code: Ints, delta: Ints, nodes: Ints, roots: Ints, path: Ints,
    specs: Ints, lookups: Ints, wants_peers: bool, arena: Bytes, spans: Ints, prefixes: Ints, descending: bool, floating: bool,
    progress: Ints, targets: Ints, frames: Ints, looked: Ints, shift: Ints, context: Ints,
) -> int:  # fmt: skip
    """Apply the changes slot by slot, and note the targets of each before and after.

    Stops when it is done, when an insert might find no node, when there is no room for what a slot has to say (the caller
    uses up what is there, or makes more room, and calls again), or at a row that was never there.
    """
    trees, text, texts = address(nodes), address(arena), address(spans)
    while progress[WHERE] < len(slot_part):
        s = progress[WHERE]
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
            continue
        if roots[part] != EMPTY:
            intervals = _intervals(trees, roots[part], code[first:stop], specs, arena, spans, prefixes, descending, floating)
            if not _describe(
                trees, roots[part], s, -1 if progress[PHASE] == _AS_IT_WAS else 1, intervals, specs, lookups, wants_peers,
                arena, spans, prefixes, descending, floating, progress, targets, frames, looked, shift, context,
            ):  # fmt: skip
                return FULL
        if progress[PHASE] == _AS_IT_WAS:
            progress[PHASE] = _APPLY
        else:
            progress[PHASE] = _AS_IT_WAS
            progress[WHERE] += 1
    return DONE


# --- what to sum up ---------------------------------------------------------------------------


@kernel
def slide_frames(
    targets: Ints, frames: Ints, f: int, shift: Ints, context: Ints,
    row: Ints, sign: Signs, group: Ints, slot: Places, rows: Ints, of_target: Places,
) -> tuple[int, int]:  # fmt: skip
    """Frames from target to target as rows that enter and leave a group, one group for each interval.

    Fills the code of the row, sign, group and slot of each change; the rows in the group before and after each slot; and for
    each target the slot after which the group is its frame.  Returns how many changes and slots there are.
    """
    n = slots = 0
    for t in range(len(targets)):
        interval = targets[t, INTERVAL]
        start, stop, at = frames[t, f, 0], frames[t, f, 1], shift[interval]
        is_new = t == 0 or targets[t - 1, INTERVAL] != interval
        old_start, old_stop = (start, start) if is_new else (frames[t - 1, f, 0], frames[t - 1, f, 1])
        begin = n
        for p in range(max(start, old_stop), stop):
            row[n], sign[n] = context[at + p], 1
            n += 1
        for p in range(old_start, min(start, old_stop)):
            row[n], sign[n] = context[at + p], -1
            n += 1
        if is_new and n == begin:  # nothing is in the frame: something comes and goes, so that there is a slot
            row[n], sign[n], row[n + 1], sign[n + 1] = targets[t, CODE], 1, targets[t, CODE], -1
            n += 2
        if n > begin:
            for i in range(begin, n):
                group[i], slot[i] = interval, slots
            rows[2 * slots], rows[2 * slots + 1] = old_stop - old_start, stop - start
            slots += 1
        of_target[t] = slots - 1
    return n, slots


@kernel
def distinct_peers(targets: Ints, frames: Ints, f: int, shift: Ints, context: Ints, arena: Bytes, spans: Ints, prefixes: Ints) -> Ints:
    """How many different sort keys there are up to each target's; its frame goes from the first row to its own."""
    out = np.empty(len(targets), np.int64)
    for t in range(len(targets)):
        at = shift[targets[t, INTERVAL]]
        is_new = t == 0 or targets[t - 1, INTERVAL] != targets[t, INTERVAL]
        begin = 0 if is_new else targets[t - 1, POSITION] + 1
        count = 0 if is_new else out[t - 1]
        for p in range(begin, targets[t, POSITION] + 1):
            if p == 0 or not _alike(context[at + p - 1], context[at + p], arena, spans, prefixes):
                count += 1
        out[t] = count
    return out


@inlined
def _alike(one: int, other: int, arena: Bytes, spans: Ints, prefixes: Ints) -> bool:
    if prefixes[one] != prefixes[other]:
        return False
    for i in range(prefixes[one]):  # noqa: SIM110 - numba compiles no generators inline
        if arena[spans[one, START] + i] != arena[spans[other, START] + i]:
            return False
    return True
