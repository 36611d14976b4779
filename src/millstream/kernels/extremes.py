"""The least and the greatest value of each group, at every slot."""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import Bytes, Ints, address, inlined, kernel
from millstream.kernels.ordered_multiset import (
    EMPTY,
    NOT_THERE,
    TOGETHER,
    delete,
    draw_near_turns,
    greatest,
    has_room,
    insert,
    least,
    new_ahead,
    precedes,
    replace,
)
from millstream.kernels.slots import Places

DONE, OUT_OF_NODES, NEVER_THERE = 0, 1, 2

NOT_NOTED = 255
"""In `present`: the slot has not begun."""


_NEAR = 1024
"""So many nodes are in the cache anyway: with them, drawing near is a fourth of the work."""

LEAST, GREATEST = 0, 1
"""Places in `ends`, which has a row for each group; a group without values has none, whatever stands there."""


@inlined
def _note(ends: Ints, group: int, root: int, at: int, low: Ints, high: Ints, present: Bytes) -> None:
    present[at] = root != EMPTY
    low[at], high[at] = (ends[group, LEAST], ends[group, GREATEST]) if root != EMPTY else (0, 0)


@kernel
def track_extremes(
    code: Ints, slot: Places, sign: Signs, order: Ints, keys: Ints, valid: Bytes, nodes: Ints, roots: Ints, ends: Ints, path: Ints,
    by_bytes: bool, arena: Bytes, spans: Ints, progress: Ints, low: Ints, high: Ints, present: Bytes,
) -> int:  # fmt: skip
    """Apply the changes, in the given order if there is one, from the progress[0]-th on; both extremes before and after each slot.

    Stops when an insert might find no node (the caller makes room and calls again), or at a value that was never there.
    What enters and leaves a group at one instant is most often one number that has become another, with none between the two: then
    nothing in the tree moves.  Such pairs come first; the turns from progress[1] to progress[2] have been had with them.
    """
    some_null, trees, text, texts, way = len(valid) > 0, address(nodes), address(arena), address(spans), address(path)
    ahead, drawn = new_ahead(), 0
    turn, done_from, done_to = progress[0], progress[1], progress[2]
    while turn < len(code):
        if turn == done_from and done_from < done_to:
            turn = done_to
            continue
        if not has_room(trees):
            progress[0], progress[1], progress[2] = turn, done_from, done_to
            return OUT_OF_NODES
        if turn >= drawn and len(nodes) > _NEAR:
            draw_near_turns(turn, code, order, keys, valid, trees, roots, ahead, by_bytes, text, texts)
            drawn = turn + TOGETHER
        i = order[turn] if len(order) > 0 else turn
        g, s, key = code[i], slot[i], keys[i]
        root = roots[g]
        if present[2 * s] == NOT_NOTED:
            _note(ends, g, root, 2 * s, low, high, present)
            if len(order) > 0 and not by_bytes and root != EMPTY and sign[i] > 0:
                begun, leaves = turn, turn
                while leaves < len(code) and slot[order[leaves]] == s and sign[order[leaves]] > 0:
                    leaves += 1
                done_from = done_to = leaves
                while turn < leaves and done_to < len(code) and slot[order[done_to]] == s:
                    new, old = order[turn], order[done_to]
                    if some_null and (valid[new] == 0 or valid[old] == 0):
                        break
                    is_least, is_greatest = keys[old] == ends[g, LEAST], keys[old] == ends[g, GREATEST]
                    if not replace(trees, root, keys[old], keys[new], is_least, is_greatest):
                        break
                    if is_least:
                        ends[g, LEAST] = keys[new]
                    if is_greatest:
                        ends[g, GREATEST] = keys[new]
                    turn += 1
                    done_to += 1
                if turn > begun:
                    _note(ends, g, root, 2 * s + 1, low, high, present)
                    continue
        if not some_null or valid[i] != 0:
            if sign[i] > 0:
                if root == EMPTY or precedes(key, ends[g, LEAST], by_bytes, text, texts):
                    ends[g, LEAST] = key
                if root == EMPTY or precedes(ends[g, GREATEST], key, by_bytes, text, texts):
                    ends[g, GREATEST] = key
                root = insert(trees, root, key, 1, by_bytes, text, texts)
            else:
                root = delete(trees, root, key, way, by_bytes, text, texts)
                if root == NOT_THERE:
                    return NEVER_THERE
                if root != EMPTY and key == ends[g, LEAST]:
                    ends[g, LEAST] = least(trees, root)
                if root != EMPTY and key == ends[g, GREATEST]:
                    ends[g, GREATEST] = greatest(trees, root)
            roots[g] = root
        _note(ends, g, root, 2 * s + 1, low, high, present)
        turn += 1
    return DONE


@kernel
def restore(
    nodes: Ints, roots: Ints, groups: Ints, keys: Ints, times: Ints, by_bytes: bool, arena: Bytes, spans: Ints, begin: int
) -> int:  # fmt: skip
    """Insert each key as often as it says; where to go on once there is room, or the number of keys."""
    trees, text, texts = address(nodes), address(arena), address(spans)
    for i in range(begin, len(keys)):
        if not has_room(trees):
            return i
        roots[groups[i]] = insert(trees, roots[groups[i]], keys[i], times[i], by_bytes, text, texts)
    return len(keys)


@kernel
def find_ends(nodes: Ints, roots: Ints, ends: Ints) -> None:
    """Both ends of all multisets, from these alone."""
    for group in range(len(roots)):
        if roots[group] != EMPTY:
            ends[group, LEAST], ends[group, GREATEST] = least(address(nodes), roots[group]), greatest(address(nodes), roots[group])


@kernel
def current_extremes(codes: Ints, roots: Ints, ends: Ints) -> tuple[Ints, Ints, Bytes]:
    """Both extremes of these groups as they are now."""
    low, high, present = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64), np.empty(len(codes), np.uint8)
    for i in range(len(codes)):
        _note(ends, codes[i], roots[codes[i]], i, low, high, present)
    return low, high, present
