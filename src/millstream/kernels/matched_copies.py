"""Copies of equal rows that end at different instants, matched with copies on the other side: INTERSECT, EXCEPT and DISTINCT of bags.

A value (the code of a row) has copies on the left and on the right.  A copy is free, or it has a partner on the other side; what can be
matched is: after every instant at most one side of a value has free copies.

    INTERSECT   a pair is shown; it ends with the first of the two
    EXCEPT      a free copy on the left is shown; a pair hides it
    DISTINCT    INTERSECT with one copy on the right that never ends: of the left ones, one is shown at a time

Per instant and value: what has ended goes, then what is taken back goes, what comes is there, and then the free copies that end last are
matched, pair by pair.  So the result does not depend on any order inside the instant.  Who has been shown something that ends finds out by
itself; here only what is shown anew, or taken back before its end, comes out.

Copies are the nodes of treaps (row_treap.py): HIGH is a copy's end, LOW its partner's.

    places of a copy, besides those of its treap:  PARTNER  its partner, NONE if it is free; of one that is not in use, the next such
                                                   VALUE    NONE if it is not in use
                                                   SIDE     LEFT or RIGHT
    places of a value:                             the roots of its free copies on the left and right, and of those with partners

The first copy is none: its places head the list of those that are not in use.  Each change costs O(log copies of its value).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from millstream.core.instant import GONE_NEVER
from millstream.core.signed_batch import Instants
from millstream.kernels.compiled import Address, Ints, address, get, inlined, kernel, put
from millstream.kernels.row_treap import HIGH, LESS, LOW, NONE, TIE, WORDS, delete, insert, last_up_to

DISTINCT, INTERSECT, EXCEPT = range(3)
LEFT, RIGHT = 0, 1
PARTNER, VALUE, SIDE = 5, 6, 7
ROOTS = 4
"""How many a value has."""
ABSENT = np.int64(-(2**63))
"""Instead of the end of a partner that is not there."""
_NEXT, _UNUSED = 0, 1
_FREE, _PAIRED = 0, 2
"""Where the roots of a value's free copies and of its pairs begin, the left one first."""
_NOTHING = cast(int, np.int64(0))
"""To numba a plain 0 is a type of its own, and what is called with it is compiled twice."""
_ON_LEFT, _ON_RIGHT = cast(int, np.int64(LEFT)), cast(int, np.int64(RIGHT))
_FOR_EVER, _LATEST = cast(int, np.int64(GONE_NEVER)), cast(int, np.int64(2**63 - 1))


def new_copies() -> Ints:
    """Room for none."""
    copies = np.full((1, WORDS), NONE, np.int64)
    copies[0, _UNUSED] = 0
    return copies


def with_room(copies: Ints, more: int) -> Ints:
    """The same copies, and room for so many more."""
    if unused(copies) >= more:
        return copies
    larger = np.full((2 * len(copies) + more, WORDS), NONE, np.int64)
    larger[: len(copies)] = copies
    _give_back_from(larger, len(copies))
    return larger


def unused(copies: Ints) -> int:
    return int(copies[0, _UNUSED])


@kernel
def _give_back_from(copies: Ints, first: int) -> None:
    for copy in range(len(copies) - 1, first - 1, -1):
        _give_back(address(copies), copy)


@inlined
def _give_back(copies: Address, copy: int) -> None:
    put(copies, copy * WORDS + PARTNER, get(copies, _NEXT))
    put(copies, copy * WORDS + VALUE, NONE)
    put(copies, _NEXT, copy)
    put(copies, _UNUSED, get(copies, _UNUSED) + 1)


@inlined
def _end(copies: Address, copy: int) -> int:
    return get(copies, copy * WORDS + HIGH)


@inlined
def _root(copies: Address, copy: int, kind: int) -> int:
    return get(copies, copy * WORDS + VALUE) * ROOTS + kind + get(copies, copy * WORDS + SIDE)


@inlined
def _hang_up(copies: Address, roots: Address, copy: int, kind: int) -> None:
    root = _root(copies, copy, kind)
    put(roots, root, insert(copies, get(roots, root), copy, _NOTHING, _NOTHING))


@inlined
def _take_down(copies: Address, roots: Address, copy: int, kind: int) -> None:
    root = _root(copies, copy, kind)
    put(roots, root, delete(copies, get(roots, root), copy, _NOTHING, _NOTHING))


@inlined
def _first(copies: Address, root: int) -> int:
    """The copy that ends first, NONE if there is none."""
    found = NONE
    while root != NONE:
        found = root
        root = get(copies, root * WORDS + LESS)
    return found


@inlined
def _last(copies: Address, root: int) -> int:
    """The copy that ends last, NONE if there is none."""
    return last_up_to(copies, root, _LATEST, _LATEST)


@kernel
def _add(copies: Address, roots: Address, value: int, side: int, end: int) -> int:
    """A free copy."""
    copy = get(copies, _NEXT)
    put(copies, _NEXT, get(copies, copy * WORDS + PARTNER))
    put(copies, _UNUSED, get(copies, _UNUSED) - 1)
    put(copies, copy * WORDS + HIGH, end)
    put(copies, copy * WORDS + LOW, 0)
    put(copies, copy * WORDS + TIE, NONE)
    put(copies, copy * WORDS + PARTNER, NONE)
    put(copies, copy * WORDS + VALUE, value)
    put(copies, copy * WORDS + SIDE, side)
    _hang_up(copies, roots, copy, _FREE)
    return copy


@kernel
def _pair(copies: Address, roots: Address, left: int, right: int) -> None:
    """Two free copies become partners."""
    for copy, other in ((left, right), (right, left)):
        _take_down(copies, roots, copy, _FREE)
        put(copies, copy * WORDS + PARTNER, other)
        put(copies, copy * WORDS + LOW, _end(copies, other))
        _hang_up(copies, roots, copy, _PAIRED)


@kernel
def _part(copies: Address, roots: Address, copy: int) -> int:
    """The copy leaves its partner, which is free from now on."""
    partner = get(copies, copy * WORDS + PARTNER)
    _take_down(copies, roots, copy, _PAIRED)
    _take_down(copies, roots, partner, _PAIRED)
    put(copies, partner * WORDS + PARTNER, NONE)
    put(copies, partner * WORDS + LOW, 0)
    _hang_up(copies, roots, partner, _FREE)
    return partner


@inlined
def _told(out: Ints, n: int, now: int, value: int, end: int, sign: int) -> tuple[Ints, int]:
    """Shown, or taken back before its end: what has ended, ends by itself."""
    if end > now:
        if n == len(out):
            out = np.concatenate((out, np.empty_like(out)))
        out[n, 0], out[n, 1], out[n, 2], out[n, 3] = now, value, end, sign
        n += 1
    return out, n


@kernel
def _leave_partner(kind: int, copies: Address, roots: Address, copy: int, now: int, out: Ints, n: int) -> tuple[Ints, int]:
    value, end = get(copies, copy * WORDS + VALUE), _end(copies, copy)
    partner = _part(copies, roots, copy)
    if kind != EXCEPT:
        out, n = _told(out, n, now, value, min(end, _end(copies, partner)), -1)
    elif get(copies, copy * WORDS + SIDE) == RIGHT:
        out, n = _told(out, n, now, value, _end(copies, partner), 1)
    _give_back(copies, copy)
    return out, n


@kernel
def _end_copies(kind: int, copies: Address, roots: Address, value: int, now: int, out: Ints, n: int) -> tuple[Ints, int]:
    """All that has ended."""
    for side in range(2):
        copy = _first(copies, get(roots, value * ROOTS + _PAIRED + side))
        while copy != NONE and _end(copies, copy) <= now:
            out, n = _leave_partner(kind, copies, roots, copy, now, out, n)
            copy = _first(copies, get(roots, value * ROOTS + _PAIRED + side))
    for side in range(2):
        copy = _first(copies, get(roots, value * ROOTS + _FREE + side))
        while copy != NONE and _end(copies, copy) <= now:
            _take_down(copies, roots, copy, _FREE)
            _give_back(copies, copy)
            copy = _first(copies, get(roots, value * ROOTS + _FREE + side))
    return out, n


@kernel
def _take_back(
    kind: int, copies: Address, roots: Address, value: int, side: int, end: int, now: int, out: Ints, n: int
) -> tuple[Ints, int, bool]:
    """One copy with this end: a free one, else the one whose partner ends last.  Says whether there was one."""
    copy = last_up_to(copies, get(roots, value * ROOTS + _FREE + side), end, _LATEST)
    if copy != NONE and _end(copies, copy) == end:
        _take_down(copies, roots, copy, _FREE)
        _give_back(copies, copy)
        if kind == EXCEPT and side == LEFT:
            out, n = _told(out, n, now, value, end, -1)
        return out, n, True
    copy = last_up_to(copies, get(roots, value * ROOTS + _PAIRED + side), end, _LATEST)
    if copy == NONE or _end(copies, copy) != end:
        return out, n, False
    out, n = _leave_partner(kind, copies, roots, copy, now, out, n)
    return out, n, True


@kernel
def _match(kind: int, copies: Address, roots: Address, value: int, now: int, out: Ints, n: int) -> tuple[Ints, int]:
    """The free copies that end last, pair by pair."""
    left = _last(copies, get(roots, value * ROOTS + _FREE + LEFT))
    right = _last(copies, get(roots, value * ROOTS + _FREE + RIGHT))
    while left != NONE and right != NONE:
        _pair(copies, roots, left, right)
        if kind == EXCEPT:
            out, n = _told(out, n, now, value, _end(copies, left), -1)
        else:
            out, n = _told(out, n, now, value, min(_end(copies, left), _end(copies, right)), 1)
        left = _last(copies, get(roots, value * ROOTS + _FREE + LEFT))
        right = _last(copies, get(roots, value * ROOTS + _FREE + RIGHT))
    return out, n


@kernel
def _keep_one(copies: Address, roots: Address, value: int) -> None:
    """DISTINCT: the copy on the right is there exactly while there are some on the left."""
    wanted = get(roots, value * ROOTS + _FREE + LEFT) != NONE or get(roots, value * ROOTS + _PAIRED + LEFT) != NONE
    free = get(roots, value * ROOTS + _FREE + RIGHT)
    if wanted and free == NONE and get(roots, value * ROOTS + _PAIRED + RIGHT) == NONE:
        _add(copies, roots, value, _ON_RIGHT, _FOR_EVER)
    elif not wanted and free != NONE:
        _take_down(copies, roots, free, _FREE)
        _give_back(copies, free)


@kernel
def settle(
    kind: int, instant: Instants, value: Ints, side: Ints, end: Instants, delta: Ints, copies: Ints, roots: Ints
) -> tuple[Ints, bool]:
    """Changes of numbers of copies, in the order of (instant, value); one of none only has a value looked at.

    Gives rows of (instant, value, end, sign), and whether all that was taken back was there.  There is room for what comes.
    """
    nodes, tops = address(copies), address(roots)
    out, n, sound = np.empty((2 * len(value) + 16, 4), np.int64), _NOTHING, True
    begin = 0
    while begin < len(value):
        now, v, stop = instant[begin], value[begin], begin
        while stop < len(value) and instant[stop] == now and value[stop] == v:
            stop += 1
        out, n = _end_copies(kind, nodes, tops, v, now, out, n)
        for i in range(begin, stop):
            for _ in range(-delta[i]):
                out, n, found = _take_back(kind, nodes, tops, v, side[i], end[i], now, out, n)
                sound &= found
        for i in range(begin, stop):
            for _ in range(delta[i]):
                _add(nodes, tops, v, side[i], end[i])
                if kind == EXCEPT and side[i] == LEFT:
                    out, n = _told(out, n, now, v, end[i], 1)
        if kind == DISTINCT:
            _keep_one(nodes, tops, v)
        out, n = _match(kind, nodes, tops, v, now, out, n)
        begin = stop
    return out[:n], sound


@kernel
def restore(value: Ints, left: Instants, right: Instants, copies: Ints, roots: Ints) -> None:
    """Pairs, and free copies: those whose other side is ABSENT.  There is room for them."""
    nodes, tops = address(copies), address(roots)
    for i in range(len(value)):
        one = _add(nodes, tops, value[i], _ON_LEFT, left[i]) if left[i] != ABSENT else NONE
        other = _add(nodes, tops, value[i], _ON_RIGHT, right[i]) if right[i] != ABSENT else NONE
        if one != NONE and other != NONE:
            _pair(nodes, tops, one, other)
