"""All values of each group, in order, at every slot."""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import Bytes, Ints, address, kernel
from millstream.kernels.extremes import DONE, NEVER_THERE, OUT_OF_NODES
from millstream.kernels.ordered_multiset import (
    EMPTY,
    NOT_THERE,
    TOGETHER,
    copy_keys,
    delete,
    draw_near_turns,
    has_room,
    insert,
    new_ahead,
    size,
)
from millstream.kernels.slots import Places

OUT_OF_ROOM = 3
NOT_NOTED = -1
"""The length of a list that has not been noted."""


@kernel
def last_turns(slot: Places, order: Ints, slots: int) -> Bytes:
    """1 where a change is the last of its slot, in the given order if there is one."""
    seen, out = np.zeros(slots, np.uint8), np.zeros(len(slot), np.uint8)
    for turn in range(len(slot) - 1, -1, -1):
        s = slot[order[turn] if len(order) > 0 else turn]
        out[turn] = seen[s] == 0
        seen[s] = 1
    return out


@kernel
def track_lists(
    code: Ints, slot: Places, sign: Signs, order: Ints, last: Bytes, keys: Ints, valid: Bytes, nodes: Ints, roots: Ints, path: Ints,
    by_bytes: bool, arena: Bytes, spans: Ints, progress: Ints, once: bool, elements: Ints, used: Ints, starts: Ints, lengths: Ints,
) -> int:  # fmt: skip
    """Apply the changes from the progress[0]-th on; where in `elements` the list before and after each slot stands.

    Stops when an insert might find no node or a list no room: the caller sees to it and calls again.
    """
    some_null, trees, text, texts, way = len(valid) > 0, address(nodes), address(arena), address(spans), address(path)
    ahead = new_ahead()
    for turn in range(progress[0], len(code)):
        i = order[turn] if len(order) > 0 else turn
        g, s = code[i], slot[i]
        if not has_room(trees):
            progress[0] = turn
            return OUT_OF_NODES
        if used[0] + 2 * size(trees, roots[g]) + 2 > len(elements):
            progress[0] = turn
            return OUT_OF_ROOM
        if (turn - progress[0]) % TOGETHER == 0:
            draw_near_turns(turn, code, order, keys, valid, trees, roots, ahead, by_bytes, text, texts)
        if lengths[2 * s] == NOT_NOTED:
            starts[2 * s] = used[0]
            used[0] = copy_keys(trees, roots[g], once, way, address(elements), used[0])
            lengths[2 * s] = used[0] - starts[2 * s]
        if not some_null or valid[i] != 0:
            if sign[i] > 0:
                roots[g] = insert(trees, roots[g], keys[i], 1, by_bytes, text, texts)
            else:
                roots[g] = delete(trees, roots[g], keys[i], way, by_bytes, text, texts)
                if roots[g] == NOT_THERE:
                    return NEVER_THERE
        if last[turn] != 0:
            starts[2 * s + 1] = used[0]
            used[0] = copy_keys(trees, roots[g], once, way, address(elements), used[0])
            lengths[2 * s + 1] = used[0] - starts[2 * s + 1]
    return DONE


@kernel
def current_lists(nodes: Ints, roots: Ints, path: Ints, once: bool) -> tuple[Ints, Ints, Ints]:
    """Elements of all lists one after the other, where each begins and how long it is."""
    total = 0
    for i in range(len(roots)):
        total += size(address(nodes), roots[i]) if roots[i] != EMPTY else 0
    elements, starts, lengths, used = np.empty(total, np.int64), np.empty(len(roots), np.int64), np.empty(len(roots), np.int64), 0
    for i in range(len(roots)):
        starts[i] = used
        used = copy_keys(address(nodes), roots[i], once, address(path), address(elements), used)
        lengths[i] = used - starts[i]
    return elements, starts, lengths


@kernel
def mark_changed_lists(words: Ints, starts: Ints, lengths: Ints, changed: Bytes) -> None:
    """Flag the slots whose list differs between before and after."""
    for s in range(len(changed)):
        before, after = starts[2 * s], starts[2 * s + 1]
        differs = lengths[2 * s] != lengths[2 * s + 1]
        k = 0
        while not differs and k < lengths[2 * s]:
            differs = words[before + k] != words[after + k]
            k += 1
        changed[s] |= differs


@kernel
def gather_lists(elements: Ints, starts: Ints, lengths: Ints, places: Places) -> tuple[Ints, Ints]:
    """Offsets and elements of the lists at these places."""
    offsets = np.zeros(len(places) + 1, np.int64)
    for i in range(len(places)):
        offsets[i + 1] = offsets[i] + lengths[places[i]]
    out = np.empty(offsets[len(places)], np.int64)
    for i in range(len(places)):
        begin = starts[places[i]]
        out[offsets[i] : offsets[i + 1]] = elements[begin : begin + lengths[places[i]]]
    return offsets, out
