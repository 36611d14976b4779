"""As-of join, instant by instant: which left rows get another partner, and which pairs come and go.

A row of either side is known by its code (one for all equal rows), a key by its code.  What counts as a left row's partner is the
last right row of its key that is not after it, in the order of row_treap.py; the operator turns words round for other comparisons.

    places of a row, besides those of its treap:  COUNT    how often it is there
                                                  BEFORE   how often it was there when the instant began
                                                  KEY      the code of its key
                                                  PARTNER  of a left row: its right row, NONE if there is none
                                                  MARK     what the instant has done to it so far
    places of a key:                              LEFTS    the root of its left rows
                                                  RIGHTS   the root of its right rows

Inside an instant, rows that come enter the tree of right rows before others leave it.  Then the last right row up to a left one,
among those of before and after, is its partner before and after unless it has just come or is about to leave.  So exactly the left rows
between a right row that comes or leaves and the next one have to look for another partner.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import Address, Bytes, Ints, address, get, inlined, kernel, put
from millstream.kernels.row_treap import (
    DEEPEST,
    HIGH,
    LESS,
    LOW,
    MORE,
    NONE,
    TOGETHER,
    WORDS,
    delete,
    draw_near,
    insert,
    is_below,
    last_up_to,
    new_ahead,
    next_after,
)

COUNT, BEFORE, KEY, PARTNER, MARK = 5, 6, 7, 8, 9
LEFTS, RIGHTS = 0, 1
_UNTOUCHED, _COUNTED, _REMATCHED = 0, 1, 2
_NOTHING = cast(int, np.int64(0))
"""Where to begin to count: to numba a plain 0 is a type of its own, and what is called with it is compiled twice."""


@inlined
def _count(rows: Address, row: int, sign: int) -> bool:
    """Whether this is the first change of the row at this instant."""
    first = get(rows, row * WORDS + MARK) == _UNTOUCHED
    if first:
        put(rows, row * WORDS + MARK, _COUNTED)
        put(rows, row * WORDS + BEFORE, get(rows, row * WORDS + COUNT))
    put(rows, row * WORDS + COUNT, get(rows, row * WORDS + COUNT) + sign)
    return first


@inlined
def _comes(rows: Address, row: int) -> bool:
    return get(rows, row * WORDS + BEFORE) == 0 and get(rows, row * WORDS + COUNT) > 0


@inlined
def _leaves(rows: Address, row: int) -> bool:
    return get(rows, row * WORDS + BEFORE) > 0 and get(rows, row * WORDS + COUNT) == 0


@kernel
def _touch_between(
    lefts: Address, root: int, rights: Address, first: int, until: int, touched: Ints, n: int, stack: Ints
) -> tuple[Ints, int]:
    """Adds the left rows from right row `first` on, and before `until` unless that is NONE, to the touched ones."""
    high, low = get(rights, first * WORDS + HIGH), get(rights, first * WORDS + LOW)
    depth, node = 0, root
    while node != NONE or depth > 0:
        if node != NONE:
            if is_below(lefts, node, high, low):
                node = get(lefts, node * WORDS + MORE)
            else:
                stack[depth] = node
                depth += 1
                node = get(lefts, node * WORDS + LESS)
            continue
        depth -= 1
        node = stack[depth]
        if until != NONE and not is_below(lefts, node, get(rights, until * WORDS + HIGH), get(rights, until * WORDS + LOW)):
            break
        if get(lefts, node * WORDS + MARK) == _UNTOUCHED:
            put(lefts, node * WORDS + BEFORE, get(lefts, node * WORDS + COUNT))
            touched, n = _appended(touched, n, node)
        put(lefts, node * WORDS + MARK, _REMATCHED)
        node = get(lefts, node * WORDS + MORE)
    return touched, n


@inlined
def _appended(items: Ints, n: int, item: int) -> tuple[Ints, int]:
    if n == len(items):
        items = np.concatenate((items, np.empty_like(items)))
    items[n] = item
    return items, n + 1


@kernel
def _emitted(out: Ints, n: int, copies: int, left: int, right: int, now: int) -> tuple[Ints, int]:
    """So many copies of a pair come, or leave if there are less than none."""
    for _ in range(abs(copies)):
        if n == len(out):
            out = np.concatenate((out, np.empty_like(out)))
        out[n, 0], out[n, 1], out[n, 2], out[n, 3] = left, right, 1 if copies > 0 else -1, now
        n += 1
    return out, n


@kernel
def _draw_near(codes: Ints, first: int, rows: Address, lefts: Address, rights: Address, keys: Ints, ahead: Ints) -> None:
    """What the next changes of one side will look for, in the trees of both."""
    many = min(TOGETHER, len(codes) - first)
    for side in range(2):
        for t in range(many):
            row = codes[first + t]
            ahead[0, t] = keys[get(rows, row * WORDS + KEY), side]
            ahead[1, t], ahead[2, t] = get(rows, row * WORDS + HIGH), get(rows, row * WORDS + LOW)
        draw_near(lefts if side == LEFTS else rights, many, address(ahead))


@kernel
def match(
    left: Ints, left_instant: Instants, left_sign: Signs, right: Ints, right_instant: Instants, right_sign: Signs,
    lefts: Ints, rights: Ints, keys: Ints, arena: Bytes, spans: Ints, keeps_left: bool,
) -> tuple[Ints, bool]:  # fmt: skip
    """Rows of (left code, right code or NONE, sign, instant), in instant order; and whether no row was ever there less than never."""
    ours, theirs, text, texts = address(lefts), address(rights), address(arena), address(spans)
    out = np.empty((2 * len(left) + len(right) + 16, 4), np.int64)
    touched, moved = np.empty(len(left) + len(right) + 16, np.int64), np.empty(len(right) + 1, np.int64)
    stack, ahead = np.empty(DEEPEST, np.int64), new_ahead()
    sound = True
    i, j, n = _NOTHING, _NOTHING, _NOTHING
    while i < len(left) or j < len(right):
        if i < len(left) and (j == len(right) or left_instant[i] <= right_instant[j]):
            now = left_instant[i]
        else:
            now = right_instant[j]
        touches, moves = _NOTHING, 0
        while i < len(left) and left_instant[i] == now:
            if i % TOGETHER == 0:
                _draw_near(left, i, ours, ours, theirs, keys, ahead)
            if _count(ours, left[i], left_sign[i]):
                touched, touches = _appended(touched, touches, left[i])
            i += 1
        while j < len(right) and right_instant[j] == now:
            if j % TOGETHER == 0:
                _draw_near(right, j, theirs, ours, theirs, keys, ahead)
            if _count(theirs, right[j], right_sign[j]):
                moved[moves] = right[j]
                moves += 1
            j += 1
        for m in range(moves):
            row = moved[m]
            if _comes(theirs, row):
                key = get(theirs, row * WORDS + KEY)
                keys[key, RIGHTS] = insert(theirs, keys[key, RIGHTS], row, text, texts)
            put(theirs, row * WORDS + MARK, _UNTOUCHED)
            sound &= get(theirs, row * WORDS + COUNT) >= 0
        for m in range(moves):
            row = moved[m]
            if _comes(theirs, row) or _leaves(theirs, row):
                key = get(theirs, row * WORDS + KEY)
                until = next_after(theirs, keys[key, RIGHTS], row, text, texts)
                touched, touches = _touch_between(ours, keys[key, LEFTS], theirs, row, until, touched, touches, stack)
        for m in range(moves):
            row = moved[m]
            if _leaves(theirs, row):
                key = get(theirs, row * WORDS + KEY)
                keys[key, RIGHTS] = delete(theirs, keys[key, RIGHTS], row, text, texts)
        for m in range(touches):
            row = touched[m]
            key, before, count, partner = (
                get(ours, row * WORDS + KEY),
                get(ours, row * WORDS + BEFORE),
                get(ours, row * WORDS + COUNT),
                get(ours, row * WORDS + PARTNER),
            )
            sound &= count >= 0
            old = partner
            if count > 0 and (before == 0 or get(ours, row * WORDS + MARK) == _REMATCHED):
                partner = last_up_to(theirs, keys[key, RIGHTS], get(ours, row * WORDS + HIGH), get(ours, row * WORDS + LOW))
                put(ours, row * WORDS + PARTNER, partner)
            if _comes(ours, row):
                keys[key, LEFTS] = insert(ours, keys[key, LEFTS], row, text, texts)
                old = partner
            elif _leaves(ours, row):
                keys[key, LEFTS] = delete(ours, keys[key, LEFTS], row, text, texts)
            if old == partner:
                if keeps_left or partner != NONE:
                    out, n = _emitted(out, n, count - before, row, partner, now)
            else:
                if keeps_left or old != NONE:
                    out, n = _emitted(out, n, -before, row, old, now)
                if keeps_left or partner != NONE:
                    out, n = _emitted(out, n, count, row, partner, now)
            put(ours, row * WORDS + MARK, _UNTOUCHED)
    return out[:n], sound


@kernel
def gone(codes: Ints, rows: Ints) -> Ints:
    """The codes among these whose rows are not there any more, each once."""
    out = np.empty(len(codes), np.int64)
    n = 0
    for i in range(len(codes)):
        row = codes[i]
        if rows[row, COUNT] == 0 and rows[row, KEY] != NONE:
            rows[row, KEY] = NONE
            out[n] = row
            n += 1
    return out[:n]
