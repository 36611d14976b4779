"""Rows in order, through flat arrays: one treap per key, whose nodes are the rows themselves.

A row is known by its number.  Rows are ordered by two words, HIGH and then LOW, by the bytes behind TIE (an id of an Interner, or -1
where nothing else tells rows apart), and by their number.  A treap is ordered by that from left to right and by a hash of the rows'
numbers from top to bottom, so it is as deep as a random tree, whatever the order in which rows come; everything here costs O(log n).

    places of a row in the tree:  LESS, MORE   the subtrees of rows before and after it, NONE if there is none

In large trees nearly every row on the way down is a cache miss.  `draw_near` goes down for several changes at once, so that their misses
overlap; when they are then made one by one, what they need is near.

Trees are worked on through addresses (see compiled.py); a row's places begin at its number times WORDS.  An empty tree has the root NONE.
"""

from __future__ import annotations

import numpy as np

from millstream.kernels.compiled import Address, Ints, bytes_before, get, inlined, kernel, mix, prefetch_at, put

NONE = -1
WORDS = 10
"""A row's places; those that are not named here are the caller's."""
LESS, MORE, HIGH, LOW, TIE = 0, 1, 2, 3, 4
DEEPEST = 1024
"""No treap of rows that fit a machine is as deep."""
TOGETHER = 16
"""So many changes are drawn near at once."""


@inlined
def is_below(rows: Address, row: int, high: int, low: int) -> bool:
    """The row's words come before these."""
    own = get(rows, row * WORDS + HIGH)
    return own < high or (own == high and get(rows, row * WORDS + LOW) < low)


@inlined
def _precedes(rows: Address, one: int, other: int, arena: Address, spans: Address) -> bool:
    high, low = get(rows, other * WORDS + HIGH), get(rows, other * WORDS + LOW)
    if get(rows, one * WORDS + HIGH) != high or get(rows, one * WORDS + LOW) != low:
        return is_below(rows, one, high, low)
    tie, other_tie = get(rows, one * WORDS + TIE), get(rows, other * WORDS + TIE)
    if tie == other_tie:
        return one < other
    return bytes_before(arena, get(spans, 2 * tie), get(spans, 2 * tie + 1), get(spans, 2 * other_tie), get(spans, 2 * other_tie + 1))


@inlined
def _rank(row: int) -> np.uint64:
    return mix(np.uint64(row))


@inlined
def new_ahead() -> Ints:
    """Scratch space for `draw_near`: where each change begins, and its words."""
    return np.zeros((3, TOGETHER), np.int64)


@kernel
def draw_near(rows: Address, many: int, ahead: Address) -> None:
    """Start to load what lies on the ways to these words, from these roots on.  Never changes an outcome."""
    node_of, high_of, low_of = ahead, ahead + 8 * TOGETHER, ahead + 16 * TOGETHER
    inner = True
    while inner:
        inner = False
        for i in range(many):
            node = get(node_of, i)
            if node != NONE:
                side = MORE if is_below(rows, node, get(high_of, i), get(low_of, i)) else LESS
                node = get(rows, node * WORDS + side)
                put(node_of, i, node)
                if node != NONE:
                    prefetch_at(rows, node * WORDS)
                    inner = True


@kernel
def insert(rows: Address, root: int, row: int, arena: Address, spans: Address) -> int:
    """The root from now on."""
    rank = _rank(row)
    above, side, node = NONE, LESS, root
    while node != NONE and _rank(node) > rank:
        above, side = node, LESS if _precedes(rows, row, node, arena, spans) else MORE
        node = get(rows, node * WORDS + side)
    less, less_side, more, more_side = row, LESS, row, MORE  # where what comes before and after the row is hung up next
    while node != NONE:
        if _precedes(rows, row, node, arena, spans):
            put(rows, more * WORDS + more_side, node)
            more, more_side = node, LESS
            node = get(rows, node * WORDS + LESS)
        else:
            put(rows, less * WORDS + less_side, node)
            less, less_side = node, MORE
            node = get(rows, node * WORDS + MORE)
    put(rows, less * WORDS + less_side, NONE)
    put(rows, more * WORDS + more_side, NONE)
    if above == NONE:
        return row
    put(rows, above * WORDS + side, row)
    return root


@kernel
def delete(rows: Address, root: int, row: int, arena: Address, spans: Address) -> int:
    """The root from now on; the row is in the tree."""
    above, side, node = NONE, LESS, root
    while node != row:
        above, side = node, LESS if _precedes(rows, row, node, arena, spans) else MORE
        node = get(rows, node * WORDS + side)
    less, more = get(rows, row * WORDS + LESS), get(rows, row * WORDS + MORE)
    while less != NONE or more != NONE:
        is_less = more == NONE or (less != NONE and _rank(less) > _rank(more))
        node = less if is_less else more
        if above == NONE:
            root = node
        else:
            put(rows, above * WORDS + side, node)
        if less == NONE or more == NONE:
            return root
        above, side = node, MORE if is_less else LESS
        if is_less:
            less = get(rows, node * WORDS + MORE)
        else:
            more = get(rows, node * WORDS + LESS)
    if above == NONE:
        return NONE
    put(rows, above * WORDS + side, NONE)
    return root


@inlined
def last_up_to(rows: Address, root: int, high: int, low: int) -> int:
    """The last row whose words are not after these; NONE if there is none."""
    node, found = root, NONE
    while node != NONE:
        own = get(rows, node * WORDS + HIGH)
        if own < high or (own == high and get(rows, node * WORDS + LOW) <= low):
            found = node
            node = get(rows, node * WORDS + MORE)
        else:
            node = get(rows, node * WORDS + LESS)
    return found


@inlined
def next_after(rows: Address, root: int, row: int, arena: Address, spans: Address) -> int:
    """The row that follows, NONE after the last."""
    node, found = root, NONE
    while node != NONE:
        if _precedes(rows, row, node, arena, spans):
            found = node
            node = get(rows, node * WORDS + LESS)
        else:
            node = get(rows, node * WORDS + MORE)
    return found
