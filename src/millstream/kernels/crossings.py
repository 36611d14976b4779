"""Rows beside a threshold: which pass it, and which cross it when it moves.

A partition's rows stand in an ordered multiset, so those that pass are the positions behind a cut, or before it.  When the
threshold moves, the rows between the old cut and the new one change sides, whatever else is there.
"""

from __future__ import annotations

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import Address, Bytes, Ints, address, bytes_before, inlined, kernel
from millstream.kernels.ordered_multiset import (
    EMPTY,
    NOT_THERE,
    TOGETHER,
    copy_range,
    count_before,
    delete,
    draw_near_slots,
    has_room,
    insert,
    new_ahead,
    size,
)  # fmt: skip
from millstream.kernels.row_store import START

DONE, OUT_OF_NODES, FULL, NEVER_THERE = range(4)
SLOT, PHASE, CHANGE, FILLED, NEEDED = range(5)
"""Of `progress`: the slot, what is to be done for it, the next of its changes; how many changes have been filled in, and how many
must have room before it can go on."""
SAME = -1
"""Instead of the row of a new threshold: it does not move."""
_LEAVING, _MOVING, _ENTERING = range(3)


@inlined
def _is_before(code: int, or_equal: bool, arena: Address, spans: Ints, prefixes: Ints, width: int) -> bool:
    """The row stands before the cut; the threshold is at the beginning of the arena."""
    if or_equal:
        return not bytes_before(arena, 0, width, spans[code, START], prefixes[code])
    return bytes_before(arena, spans[code, START], prefixes[code], 0, width)


@inlined
def _cut(trees: Address, root: int, width: int, above: bool, or_equal: bool, arena: Address, spans: Address, prefixes: Address) -> int:
    """How many rows stand before the cut; without a threshold (no width) it is where no row passes."""
    if width == 0:
        return size(trees, root) if above else 0
    return count_before(trees, root, 0, width, or_equal, arena, spans, prefixes, 1)


@inlined
def _lay_out(bounds: Bytes, row: int, arena: Bytes) -> None:
    for i in range(bounds.shape[1]):
        arena[i] = bounds[row, i]


@kernel
def _apply(
    s: int, part: int, begin: int, end: int, entering: bool, code: Ints, delta: Ints, nodes: Ints, roots: Ints, path: Ints, width: int,
    above: bool, or_equal: bool, arena: Bytes, spans: Ints, prefixes: Ints, progress: Ints, out_code: Ints, out_slot: Ints, sign: Signs,
) -> int:  # fmt: skip
    """The rows of a slot that enter, or those that leave, beside the threshold at the beginning of the arena."""
    trees, text, texts = address(nodes), address(arena), address(spans)
    n = progress[FILLED]
    for i in range(begin + progress[CHANGE], end):
        progress[CHANGE] = i - begin
        if (delta[i] > 0) != entering:
            continue
        many = abs(delta[i]) if width > 0 and _is_before(code[i], or_equal, text, spans, prefixes, width) != above else 0
        progress[NEEDED] = n + many
        if progress[NEEDED] > len(out_code):
            return FULL
        if entering:
            if not has_room(trees):
                return OUT_OF_NODES
            roots[part] = insert(trees, roots[part], code[i], delta[i], True, text, texts)
        for _ in range(-delta[i]):
            roots[part] = delete(trees, roots[part], code[i], address(path), True, text, texts)
            if roots[part] == NOT_THERE:
                return NEVER_THERE
        out_code[n : n + many], out_slot[n : n + many] = code[i], s
        sign[n : n + many] = 1 if entering else -1
        n += many
        progress[FILLED] = n
    progress[CHANGE] = 0
    progress[PHASE] = _LEAVING if entering else _MOVING
    return DONE


@kernel
def _move(
    s: int, root: int, width: int, bounds: Bytes, bound: int, new_width: int, nodes: Ints, above: bool, or_equal: bool,
    arena: Bytes, spans: Ints, prefixes: Ints, progress: Ints, out_code: Ints, out_slot: Ints, sign: Signs,
) -> int:  # fmt: skip
    """The rows that stand between the threshold at the beginning of the arena and its successor."""
    trees, text, texts, lengths = address(nodes), address(arena), address(spans), address(prefixes)
    n = progress[FILLED]
    was = _cut(trees, root, width, above, or_equal, text, texts, lengths)
    _lay_out(bounds, bound, arena)
    now = _cut(trees, root, new_width, above, or_equal, text, texts, lengths)
    many = abs(now - was)
    progress[NEEDED] = n + many
    if progress[NEEDED] > len(out_code):
        return FULL
    copy_range(trees, root, min(was, now), many, address(out_code), n)
    out_slot[n : n + many] = s
    sign[n : n + many] = 1 if (now < was) == above else -1
    progress[FILLED] = n + many
    return DONE


@kernel
def follow(
    slot_start: Ints, slot_part: Ints, slot_bound: Ints, code: Ints, delta: Ints, nodes: Ints, roots: Ints, path: Ints,
    bounds: Bytes, widths: Ints, new_bounds: Bytes, new_widths: Ints, above: bool, or_equal: bool,
    arena: Bytes, spans: Ints, prefixes: Ints, progress: Ints, out_code: Ints, out_slot: Ints, sign: Signs,
) -> int:  # fmt: skip
    """Apply the changes slot by slot: rows leave beside the old threshold, it moves, rows enter beside the new one.

    Stops when it is done, when an insert might find no node, when the output has no room (the caller makes it and calls
    again), or at a row that was never there.
    """
    trees, text, texts, ahead = address(nodes), address(arena), address(spans), new_ahead()
    while progress[SLOT] < len(slot_part):
        s = progress[SLOT]
        if s % TOGETHER == 0 and progress[PHASE] == _LEAVING:
            draw_near_slots(s, slot_start, slot_part, code, trees, roots, ahead, text, texts)
        part, begin, end, bound = slot_part[s], slot_start[s], slot_start[s + 1], slot_bound[s]
        _lay_out(bounds, part, arena)
        if progress[PHASE] == _LEAVING:
            state = _apply(
                s, part, begin, end, False, code, delta, nodes, roots, path, widths[part],
                above, or_equal, arena, spans, prefixes, progress, out_code, out_slot, sign,
            )  # fmt: skip
            if state != DONE:
                return state
        if progress[PHASE] == _MOVING:
            if bound != SAME and roots[part] != EMPTY:
                state = _move(
                    s, roots[part], widths[part], new_bounds, bound, new_widths[bound], nodes, above, or_equal,
                    arena, spans, prefixes, progress, out_code, out_slot, sign,
                )  # fmt: skip
                if state != DONE:
                    return state
            if bound != SAME:
                bounds[part], widths[part] = new_bounds[bound], new_widths[bound]
            progress[PHASE] = _ENTERING
        _lay_out(bounds, part, arena)
        state = _apply(
            s, part, begin, end, True, code, delta, nodes, roots, path, widths[part],
            above, or_equal, arena, spans, prefixes, progress, out_code, out_slot, sign,
        )  # fmt: skip
        if state != DONE:
            return state
        progress[SLOT] += 1
    return DONE
