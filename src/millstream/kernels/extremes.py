"""The least and the greatest value of each group, at every slot."""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import AHEAD, Address, Bytes, Ints, address, inlined, kernel, prefetch_at
from millstream.kernels.ordered_multiset import EMPTY, NOT_THERE, delete, greatest, has_room, insert, least
from millstream.kernels.slots import Places

DONE, OUT_OF_NODES, NEVER_THERE = 0, 1, 2

NOT_NOTED = 255
"""In `present`: the slot has not begun."""


@inlined
def _note(nodes: Address, root: int, at: int, low: Ints, high: Ints, present: Bytes) -> None:
    present[at] = root != EMPTY
    if root != EMPTY:
        low[at], high[at] = least(nodes, root), greatest(nodes, root)
    else:
        low[at] = high[at] = 0


@kernel
def track_extremes(
    code: Ints, slot: Places, sign: Signs, order: Ints, keys: Ints, valid: Bytes, nodes: Ints, roots: Ints, path: Ints,
    by_bytes: bool, arena: Bytes, spans: Ints, progress: Ints, low: Ints, high: Ints, present: Bytes,
) -> int:  # fmt: skip
    """Apply the changes, in the given order if there is one, from the progress[0]-th on; both extremes before and after each slot.

    Stops when an insert might find no node (the caller makes room and calls again), or at a value that was never there.
    """
    some_null, trees, text, texts, way = len(valid) > 0, address(nodes), address(arena), address(spans), address(path)
    for turn in range(progress[0], len(code)):
        if not has_room(trees):
            progress[0] = turn
            return OUT_OF_NODES
        if turn + AHEAD < len(code):
            prefetch_at(trees, max(0, roots[code[turn + AHEAD]]))
        i = order[turn] if len(order) > 0 else turn
        g, s = code[i], slot[i]
        root = roots[g]
        if present[2 * s] == NOT_NOTED:
            _note(trees, root, 2 * s, low, high, present)
        if not some_null or valid[i] != 0:
            if sign[i] > 0:
                root = insert(trees, root, keys[i], 1, by_bytes, text, texts)
            else:
                root = delete(trees, root, keys[i], way, by_bytes, text, texts)
                if root == NOT_THERE:
                    return NEVER_THERE
            roots[g] = root
        _note(trees, root, 2 * s + 1, low, high, present)
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
def current_extremes(nodes: Ints, roots: Ints) -> tuple[Ints, Ints, Bytes]:
    """Both extremes of these multisets as they are now."""
    low, high, present = np.empty(len(roots), np.int64), np.empty(len(roots), np.int64), np.empty(len(roots), np.uint8)
    for i in range(len(roots)):
        _note(address(nodes), roots[i], i, low, high, present)
    return low, high, present
