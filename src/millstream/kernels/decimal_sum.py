"""Exact sums and averages of DECIMAL per group, at every slot.

An accumulator is (three limbs, count): 192 bits hold the sum of 2^63 values of 38 digits.  The kernels
that apply changes note whole accumulators; others make results of them, for slots and for groups alike.
"""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import AHEAD, Address, Bytes, Ints, address, get, inlined, kernel, prefetch, put
from millstream.kernels.limbs import add_pair, limb, magnitude, set_limb
from millstream.kernels.slots import Places

LIMBS = 3
COUNT = 3
WIDTH = 4
_DIGIT = np.uint64(0xFFFFFFFF)


@inlined
def _note(sums: Ints, g: int, out: Ints, at: int) -> None:
    for k in range(WIDTH):
        out[at, k] = sums[g, k]


@inlined
def _add(sum_: Address, low: np.int64, high: np.int64, sign: np.int64) -> None:
    """Add a 128-bit value, or take it away: the same as adding its complement and 1."""
    flip = np.int64(0) if sign > 0 else np.int64(-1)
    add_pair(sum_, LIMBS, 0, np.uint64(low ^ flip), np.uint64(high ^ flip))
    put(sum_, 2, get(sum_, 2) + ((high ^ flip) >> 63))
    if sign < 0:
        add_pair(sum_, LIMBS, 0, np.uint64(1), np.uint64(0))
    put(sum_, COUNT, get(sum_, COUNT) + sign)


@kernel
def sum_decimals(code: Ints, slot: Places, sign: Signs, values: Ints, valid: Bytes, sums: Ints, out: Ints) -> None:
    """Apply all changes in order; the accumulator before and after each slot."""
    slots, some_null, first = 0, len(valid) > 0, address(sums)
    for i in range(len(code)):
        if i + AHEAD < len(code):
            prefetch(sums, code[i + AHEAD])
        g, s = code[i], slot[i]
        if s == slots:
            _note(sums, g, out, 2 * s)
            slots += 1
        if not some_null or valid[i] != 0:
            _add(first + 8 * WIDTH * g, values[i, 0], values[i, 1], np.int64(sign[i]))
        _note(sums, g, out, 2 * s + 1)


@inlined
def _is_below(number: Address, low: np.uint64, high: np.uint64) -> np.bool_ | bool:
    """Whether an unsigned number of three limbs is below the 128-bit bound."""
    if get(number, 2) != 0 or limb(number, 1) > high:
        return False
    return limb(number, 1) < high or limb(number, 0) < low


@inlined
def _write(number: Address, negative: bool, out: Ints, at: int) -> None:
    """The signed 128-bit value of an unsigned number."""
    low, high = limb(number, 0), limb(number, 1)
    if negative:
        low = ~low + np.uint64(1)
        high = ~high + np.uint64(low == 0)
    out[at, 0], out[at, 1] = np.int64(low), np.int64(high)


@kernel
def decimal_sums(sums: Ints, bound: Ints, out: Ints, valid: Bytes) -> None:
    """The sums as 128-bit words; NULL without values, and where not below the bound (10^digits, as two words)."""
    scratch = np.empty(LIMBS, np.int64)
    for i in range(len(sums)):
        negative = magnitude(address(sums) + 8 * WIDTH * i, LIMBS, address(scratch))
        valid[i] = sums[i, COUNT] > 0 and _is_below(address(scratch), np.uint64(bound[0]), np.uint64(bound[1]))
        _write(address(scratch), negative, out, i)


@inlined
def _multiply(number: Address, factor: np.uint64) -> None:
    """An unsigned number of three limbs times a small factor (below 2^32)."""
    carry = np.uint64(0)
    for i in range(LIMBS):
        word = limb(number, i)
        low = (word & _DIGIT) * factor + carry
        high = (word >> np.uint64(32)) * factor + (low >> np.uint64(32))
        set_limb(number, i, (low & _DIGIT) | (high << np.uint64(32)))
        carry = high >> np.uint64(32)


@kernel
def _divide(number: Address, divisor: np.uint64) -> np.uint64:
    """Divide an unsigned number of three limbs in place; the remainder."""
    rest = np.uint64(0)
    if divisor <= _DIGIT:
        for i in range(LIMBS - 1, -1, -1):
            word = limb(number, i)
            rest = (rest << np.uint64(32)) | (word >> np.uint64(32))
            high = rest // divisor
            rest = ((rest % divisor) << np.uint64(32)) | (word & _DIGIT)
            set_limb(number, i, (high << np.uint64(32)) | (rest // divisor))
            rest = rest % divisor
        return rest
    for i in range(LIMBS - 1, -1, -1):  # more than 2^32 values: bit by bit
        word, quotient = limb(number, i), np.uint64(0)
        for bit in range(63, -1, -1):
            rest = (rest << np.uint64(1)) | ((word >> np.uint64(bit)) & np.uint64(1))
            quotient <<= np.uint64(1)
            if rest >= divisor:
                rest -= divisor
                quotient |= np.uint64(1)
        set_limb(number, i, quotient)
    return rest


@kernel
def decimal_averages(sums: Ints, sum_bound: Ints, factor: int, bound: Ints, out: Ints, valid: Bytes) -> None:
    """sum * factor / count rounded HALF_UP; NULL without values, where the sum is out of bounds, or the average is."""
    scratch = np.empty(LIMBS, np.int64)
    number = address(scratch)
    for i in range(len(sums)):
        negative = magnitude(address(sums) + 8 * WIDTH * i, LIMBS, number)
        valid[i] = sums[i, COUNT] > 0 and _is_below(number, np.uint64(sum_bound[0]), np.uint64(sum_bound[1]))
        if valid[i] == 0:
            continue
        _multiply(number, np.uint64(factor))
        divisor = np.uint64(sums[i, COUNT])
        rest = _divide(number, divisor)
        if rest >= divisor - rest:
            add_pair(number, LIMBS, 0, np.uint64(1), np.uint64(0))
        valid[i] = _is_below(number, np.uint64(bound[0]), np.uint64(bound[1]))
        _write(number, negative, out, i)
