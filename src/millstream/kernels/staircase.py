"""Values with an end, of which only those are kept that can still be the greatest: one staircase per group.

A value that is no greater than another, and ends no later, will never be the greatest: it is dropped at once, and those that a new one
makes so with it.  What is left gets smaller from left to right and ends later and later:

    value   9 ──┐
            7   └─────┐
            4         └───────┐        the first is the greatest now; when it ends, it is the next
                │     │       │
    end         5     8       12

Of n values that end in random order about ln n are left; where there are many, because values fall with time, a staircase is still a
treap (row_treap.py) of which HIGH is the end, and everything costs O(log).  NULL is below all values.

    places of a step, besides those of its treap:  VALUE    0 for NULL
                                                   PRESENT  0 for NULL, else 1

The first step is none: its places head the list of those that are not in use.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from millstream.kernels.compiled import Address, Ints, address, get, inlined, kernel, put
from millstream.kernels.row_treap import HIGH, LESS, LOW, MORE, NONE, TIE, WORDS, delete, insert, last_up_to

VALUE, PRESENT = 5, 6
_NEXT, UNUSED = 0, 1
_NOTHING = cast(int, np.int64(0))
"""To numba a plain 0 is a type of its own, and what is called with it is compiled twice."""
_LATEST = cast(int, np.int64(2**63 - 1))


def new_steps() -> Ints:
    """Room for none."""
    steps = np.full((1, WORDS), NONE, np.int64)
    steps[0, UNUSED] = 0
    return steps


def in_use(steps: Ints) -> int:
    return len(steps) - 1 - int(steps[0, UNUSED])


@kernel
def with_room(steps: Ints) -> Ints:
    """The same steps, and room for at least one more."""
    larger = np.full((2 * len(steps) + 64, WORDS), NONE, np.int64)
    larger[: len(steps)] = steps
    for step in range(len(larger) - 1, len(steps) - 1, -1):
        _give_back(address(larger), step)
    return larger


@inlined
def hiding(steps: Address, root: int, value: int, present: int, end: int) -> int:
    """One that is no less and ends no sooner, NONE if there is none.  It hides what it hides until it ends, even if another replaces it."""
    node, found = root, NONE
    while node != NONE:
        if get(steps, node * WORDS + HIGH) >= end:
            found = node
            node = get(steps, node * WORDS + LESS)
        else:
            node = get(steps, node * WORDS + MORE)
    return NONE if found != NONE and _is_less(steps, found, value, present) else found


@kernel
def add(steps: Address, root: int, value: int, present: int, end: int) -> tuple[int, bool]:
    """The root from now on, and whether this is the greatest.  The value is not hidden, and there is room for it."""
    below = last_up_to(steps, root, end, _LATEST)
    while below != NONE and (_is_less(steps, below, value, present) or _is_equal(steps, below, value, present)):
        root = _without(steps, root, below)
        below = last_up_to(steps, root, end, _LATEST)
    step = get(steps, _NEXT)
    put(steps, _NEXT, get(steps, step * WORDS + HIGH))
    put(steps, UNUSED, get(steps, UNUSED) - 1)
    put(steps, step * WORDS + HIGH, end)
    put(steps, step * WORDS + LOW, 0)
    put(steps, step * WORDS + TIE, NONE)
    put(steps, step * WORDS + VALUE, value)
    put(steps, step * WORDS + PRESENT, present)
    return insert(steps, root, step, _NOTHING, _NOTHING), below == NONE


@kernel
def without_ended(steps: Address, root: int, now: int) -> int:
    """The root from now on."""
    step = greatest(steps, root)
    while step != NONE and get(steps, step * WORDS + HIGH) <= now:
        root = _without(steps, root, step)
        step = greatest(steps, root)
    return root


@inlined
def greatest(steps: Address, root: int) -> int:
    """The step of the greatest value, NONE if there is none."""
    found = NONE
    while root != NONE:
        found = root
        root = get(steps, root * WORDS + LESS)
    return found


@inlined
def _is_less(steps: Address, step: int, value: int, present: int) -> bool:
    own = get(steps, step * WORDS + PRESENT)
    return own < present or (own == present and get(steps, step * WORDS + VALUE) < value)


@inlined
def _is_equal(steps: Address, step: int, value: int, present: int) -> bool:
    return get(steps, step * WORDS + PRESENT) == present and get(steps, step * WORDS + VALUE) == value


@inlined
def _without(steps: Address, root: int, step: int) -> int:
    root = delete(steps, root, step, _NOTHING, _NOTHING)
    _give_back(steps, step)
    return root


@inlined
def _give_back(steps: Address, step: int) -> None:
    put(steps, step * WORDS + HIGH, get(steps, _NEXT))
    put(steps, _NEXT, step)
    put(steps, UNUSED, get(steps, UNUSED) + 1)
