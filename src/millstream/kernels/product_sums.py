"""Counts and sums over all combinations of rows with equal keys, one of each side, for each key and at every instant.

A key that na rows of side a have, nb of b and nc of c is that of na * nb * nc combinations; a sum over them of a column of c is the sum
over c, times na * nb.  So a change of a row costs the same however many partners it has.

    places of a key:       TURN     when it was last noted, see below
                           COUNTS   from here on, for each side, how many rows have it
                           then, for each call that is about a column: LOW, HIGH, SEEN, the 128-bit sum of that column over the rows of
                           its side (of a count: nothing), and how many of them have a value

    what a call is:        KIND     COUNT or SUM
                           SIDE     of its column, -1: all that counts are rows
                           AT       where its places begin

Changes of one instant are made one after the other; what the key was like before the first that matters is noted, and compared with what
it is like after the last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import AHEAD, Address, Bytes, Ints, address, get, inlined, kernel, prefetch_at, put

TURN, COUNTS = 0, 1
LOW, HIGH, SEEN = 0, 1, 2
HELD = 3
"""Places of a call that is about a column."""
KIND, SIDE, AT = 0, 1, 2
COUNT, SUM = 0, 1
SOUND, NEVER_THERE, TOO_MANY = 0, 1, 2

_LEAST = np.int64(-(2**63))
_RELEASED = -1
_MOST = 2.0**63
_SIZE_BELOW_0, _SIZE_ABOVE_0 = np.uint64(2**63), np.uint64(2**63 - 1)


@inlined
def _combinations(states: Address, state: int, sides: int, but: int) -> int:
    """Of the rows of all sides but one."""
    many = 1
    for side in range(sides):
        if side != but:
            many *= get(states, state + COUNTS + side)
    return many


@inlined
def _fault(states: Address, state: int, sides: int) -> int:
    """Whether numbers of rows are none, or give more combinations than BIGINT can count."""
    size = 1.0
    for side in range(sides):
        many = get(states, state + COUNTS + side)
        if many < 0:
            return NEVER_THERE
        size *= many
    return TOO_MANY if size >= _MOST else SOUND


@inlined
def _result(states: Address, state: int, sides: int, calls: Address, call: int) -> tuple[int, int]:
    """The value of a call, and whether there is one."""
    side = get(calls, 3 * call + SIDE)
    others = _combinations(states, state, sides, side)
    if side < 0:
        return others, 1
    held = state + get(calls, 3 * call + AT)
    seen, low = get(states, held + SEEN), get(states, held + LOW)
    if get(calls, 3 * call + KIND) == COUNT:
        return seen * others, 1
    if seen <= 0 or others <= 0 or get(states, held + HIGH) != low >> 63:
        return 0, 0
    # not by the product itself: what does not fit wraps round, and the compiler may take it that nothing ever does
    size = np.uint64(0) - np.uint64(low) if low < 0 else np.uint64(low)
    return (low * others, 1) if size <= (_SIZE_BELOW_0 if low < 0 else _SIZE_ABOVE_0) // np.uint64(others) else (0, 0)


@inlined
def _add(states: Address, held: int, value: np.int64, sign: np.int64) -> None:
    signed = value * sign
    old = np.uint64(get(states, held + LOW))
    new = old + np.uint64(signed)
    put(states, held + LOW, np.int64(new))
    # -(-2^63) wraps round to itself: as a 128-bit number its high word is 0, not -1
    put(states, held + HIGH, get(states, held + HIGH) + (signed >> 63) + ((signed == _LEAST) & (sign < 0)) + (new < old))
    put(states, held + SEEN, get(states, held + SEEN) + sign)


@inlined
def _note(states: Address, state: int, sides: int, calls: Address, many: int, notes: Address, note: int, key: int) -> None:
    put(notes, note, key)
    put(notes, note + 1, _combinations(states, state, sides, -1) > 0)
    for call in range(many):
        value, present = _result(states, state, sides, calls, call)
        put(notes, note + 2 + 2 * call, value)
        put(notes, note + 3 + 2 * call, present)


@kernel
def multiply(
    instant: Instants, key: Ints, sign: Signs, starts: Ints, values: Ints, valid: Bytes, calls: Ints, states: Ints, turn: int,
    at: Instants, signs: Signs, keys: Ints, words: Ints, there: Bytes,
) -> tuple[int, int, int]:  # fmt: skip
    """Apply the changes of all sides, which stand one side after the other.

    Fills in what comes out of them: when, with which sign, the code of the key, and the calls' values; there is room for two rows a
    change.  Returns how many these are, the next turn, and whether all was well.
    """
    sides, many, width = len(starts) - 1, len(calls), states.shape[1]
    place, tables, what = starts[:-1].copy(), address(states), address(calls)
    notes = np.empty((len(key) + 1, 2 + 2 * many), np.int64)
    noted, size, n, fault = address(notes), 2 + 2 * many, 0, SOUND
    now_notes = np.empty((1, size), np.int64)
    after = address(now_notes)
    while True:
        now, some = np.int64(0), False
        for side in range(sides):
            if place[side] < starts[side + 1] and (not some or instant[place[side]] < now):
                now, some = instant[place[side]], True
        if not some:
            break
        touched = 0
        turn += 1
        for side in range(sides):
            i, stop = place[side], starts[side + 1]
            while i < stop and instant[i] == now:
                if i + AHEAD < stop:
                    prefetch_at(tables, key[i + AHEAD] * width)
                state = key[i] * width
                if get(tables, state + TURN) != turn and _combinations(tables, state, sides, side) != 0:
                    put(tables, state + TURN, turn)
                    _note(tables, state, sides, what, many, noted, touched * size, key[i])
                    touched += 1
                put(tables, state + COUNTS + side, get(tables, state + COUNTS + side) + sign[i])
                for call in range(many):
                    if get(what, 3 * call + SIDE) == side and valid[call, i] != 0:
                        _add(tables, state + get(what, 3 * call + AT), values[call, i], np.int64(sign[i]))
                i += 1
            place[side] = i
        for note in range(touched):
            code = notes[note, 0]
            fault = max(fault, _fault(tables, code * width, sides))
            _note(tables, code * width, sides, what, many, after, 0, code)
            same = notes[note, 1] == now_notes[0, 1]
            for k in range(2, size):
                same &= notes[note, k] == now_notes[0, k]
            if same:
                continue
            if notes[note, 1] != 0:
                at[n], signs[n], keys[n] = now, -1, code
                for call in range(many):
                    words[call, n], there[call, n] = notes[note, 2 + 2 * call], notes[note, 3 + 2 * call]
                n += 1
            if now_notes[0, 1] != 0:
                at[n], signs[n], keys[n] = now, 1, code
                for call in range(many):
                    words[call, n], there[call, n] = now_notes[0, 2 + 2 * call], now_notes[0, 3 + 2 * call]
                n += 1
    return n, turn, fault


@kernel
def results(keys: Ints, sides: int, calls: Ints, states: Ints, words: Ints, there: Bytes) -> npt.NDArray[np.bool_]:
    """What the calls are for each of these keys now, and which of them have combinations."""
    tables, what, width = address(states), address(calls), states.shape[1]
    some = np.empty(len(keys), np.bool_)
    for i in range(len(keys)):
        some[i] = _combinations(tables, keys[i] * width, sides, -1) > 0
        for call in range(len(calls)):
            words[call, i], there[call, i] = _result(tables, keys[i] * width, sides, what, call)
    return some


@kernel
def forsaken(key: Ints, sign: Signs, sides: int, states: Ints) -> tuple[Ints, bool]:
    """The keys among these that no row has any more, each once; and whether no number of rows is negative."""
    out, n, sound = np.empty(len(key), np.int64), 0, True
    for i in range(len(key)):
        if i + AHEAD < len(key):
            prefetch_at(address(states), key[i + AHEAD] * states.shape[1])
        if sign[i] > 0:
            continue
        some = states[key[i], TURN] == _RELEASED
        for side in range(sides):
            some |= states[key[i], COUNTS + side] != 0
            sound &= states[key[i], COUNTS + side] >= 0
        if not some:
            states[key[i], TURN] = _RELEASED
            out[n] = key[i]
            n += 1
    for i in range(n):
        states[out[i], TURN] = 0
    return out[:n], sound
