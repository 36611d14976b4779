"""Values at given ranks of each group's order, at every slot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import Address, Bytes, Ints, address, inlined, kernel
from millstream.kernels.extremes import DONE, NEVER_THERE, OUT_OF_NODES
from millstream.kernels.ordered_multiset import (
    EMPTY,
    NOT_THERE,
    TOGETHER,
    delete,
    draw_near_rank,
    draw_near_turns,
    has_room,
    insert,
    kth,
    kth_and_next,
    new_ahead,
    size,
)
from millstream.kernels.slots import Places

Doubles = npt.NDArray[np.float64]

NOT_NOTED = -1


@inlined
def _note(nodes: Address, root: int, at: int, fractions: Doubles, discrete: Bytes, low: Ints, high: Ints, counts: Ints) -> None:
    n = size(nodes, root) if root != EMPTY else 0
    counts[at] = n
    for f in range(len(fractions)):
        if n == 0:
            low[at, f] = high[at, f] = 0
        elif discrete[f] != 0:
            rank = max(int(np.ceil(fractions[f] * n)) - 1, 0)
            low[at, f] = high[at, f] = kth(nodes, root, rank)
        else:
            position = (n - 1) * fractions[f]
            if np.ceil(position) != np.floor(position):
                low[at, f], high[at, f] = kth_and_next(nodes, root, int(np.floor(position)))
            else:
                low[at, f] = high[at, f] = kth(nodes, root, int(position))


@kernel
def track_ranks(
    code: Ints, slot: Places, sign: Signs, order: Ints, keys: Ints, valid: Bytes, nodes: Ints, roots: Ints, path: Ints,
    by_bytes: bool, arena: Bytes, spans: Ints, progress: Ints, last: Bytes, fractions: Doubles, discrete: Bytes,
    low: Ints, high: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Apply the changes from the progress[0]-th on; the values around each fraction and their number before and after each slot.

    Stops when an insert might find no node (the caller makes room and calls again), or at a value that was never there.
    """
    some_null, trees, text, texts, way = len(valid) > 0, address(nodes), address(arena), address(spans), address(path)
    ahead = new_ahead()
    for turn in range(progress[0], len(code)):
        if not has_room(trees):
            progress[0] = turn
            return OUT_OF_NODES
        if (turn - progress[0]) % TOGETHER == 0:
            draw_near_turns(turn, code, order, keys, valid, trees, roots, ahead, by_bytes, text, texts)
            for f in range(len(fractions)):
                draw_near_rank(turn, code, order, trees, roots, ahead, fractions[f])
        i = order[turn] if len(order) > 0 else turn
        g, s = code[i], slot[i]
        if counts[2 * s] == NOT_NOTED:
            _note(trees, roots[g], 2 * s, fractions, discrete, low, high, counts)
        if not some_null or valid[i] != 0:
            if sign[i] > 0:
                roots[g] = insert(trees, roots[g], keys[i], 1, by_bytes, text, texts)
            else:
                roots[g] = delete(trees, roots[g], keys[i], way, by_bytes, text, texts)
                if roots[g] == NOT_THERE:
                    return NEVER_THERE
        if last[turn] != 0:
            _note(trees, roots[g], 2 * s + 1, fractions, discrete, low, high, counts)
    return DONE


@kernel
def current_ranks(nodes: Ints, roots: Ints, fractions: Doubles, discrete: Bytes) -> tuple[Ints, Ints, Ints]:
    """The values around each fraction, and their number, as they are now."""
    low, high = np.empty((len(roots), len(fractions)), np.int64), np.empty((len(roots), len(fractions)), np.int64)
    counts = np.empty(len(roots), np.int64)
    for i in range(len(roots)):
        _note(address(nodes), roots[i], i, fractions, discrete, low, high, counts)
    return low, high, counts
