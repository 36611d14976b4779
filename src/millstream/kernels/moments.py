"""Exact variances of doubles: from the exact sums of the values and of their squares, rounded once.

A square of a double is the sum of two doubles, the nearest one and what is missing: both go into one fixed-point
number (kernels/float_sum.py).  So a value takes with it exactly what it brought; and from the number of values n,
their sum s and the sum of their squares q, the spread n * q - s * s is computed in whole limbs: no digit is lost,
however close the two are.
"""

from __future__ import annotations

import math

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import AHEAD, Address, Bytes, Ints, address, get, inlined, kernel, prefetch, put
from millstream.kernels.float_sum import (
    FINITE,
    LEAST_EXPONENT,
    NARROW_LIMBS,
    NEXT_CHANGE,
    PLACE,
    ROW,
    SLOTS,
    WIDE,
    WIDE_LIMBS,
    WIDTH,
    Doubles,
    add_finite,
    is_full,
    is_odd,
)
from millstream.kernels.limbs import add_pair, limb, magnitude, nearest_double, set_limb, subtract_pair
from millstream.kernels.slots import Places

_LONGEST = 76
"""Limbs of a spread: twice those of a wide number, and some."""
_SPREAD, _PRODUCT, _FACTOR, _ROUNDING = 0, _LONGEST, 2 * _LONGEST, 3 * _LONGEST
SCRATCH = 4 * _LONGEST
_LARGEST = 1e150
"""Beyond it a square might not be a double."""
_HALVES = 2.0**27 + 1
_LOW_HALF = np.uint64(0xFFFFFFFF)


def squares(values: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """The values, too large ones infinite, and their squares as two doubles each (Dekker, Numer. Math. 18, 1971)."""
    values = np.where(np.abs(values) > _LARGEST, np.inf, values)
    finite = np.where(np.isfinite(values), values, 0.0)
    high = _HALVES * finite
    high = high - (high - finite)
    low = finite - high
    square = finite * finite
    return values, square, ((high * high - square) + 2.0 * high * low) + low * low


@inlined
def _multiply(out: Address, left: Address, limbs: int, right: Address, more: int) -> None:
    """out = left * right, magnitudes of so many limbs each."""
    for i in range(limbs + more):
        put(out, i, 0)
    half = np.uint64(32)
    for i in range(limbs):
        a_low, a_high = limb(left, i) & _LOW_HALF, limb(left, i) >> half
        carry = np.uint64(0)
        for j in range(more):
            b_low, b_high = limb(right, j) & _LOW_HALF, limb(right, j) >> half
            low, cross, other = a_low * b_low, a_low * b_high, a_high * b_low
            middle = (low >> half) + (cross & _LOW_HALF) + (other & _LOW_HALF)
            high = a_high * b_high + (cross >> half) + (other >> half) + (middle >> half)
            low = (low & _LOW_HALF) | (middle << half)
            total = limb(out, i + j) + low
            high += np.uint64(total < low)
            total += carry
            high += np.uint64(total < carry)
            set_limb(out, i + j, total)
            carry = high
        set_limb(out, i + more, carry)


@inlined
def _used(number: Address, limbs: int) -> int:
    """How many limbs of a magnitude are not leading zeros."""
    while limbs > 0 and get(number, limbs - 1) == 0:
        limbs -= 1
    return limbs


@inlined
def _add_shifted(out: Address, limbs: int, number: Address, count: int, shift: int, negative: bool) -> None:
    """Add or subtract a magnitude times 2^shift."""
    at, bits = shift >> 6, np.uint64(shift & 63)
    for i in range(count):
        word = limb(number, i)
        low = word << bits
        high = (word >> np.uint64(1)) >> (np.uint64(63) - bits)
        if negative:
            subtract_pair(out, limbs, at + i, low, high)
        else:
            add_pair(out, limbs, at + i, low, high)


@kernel
def _spread(sum_: Address, wide: Address, square: Address, wide_square: Address, scratch: Address) -> float:
    """n * q - s * s, rounded once; `scratch` has room for SCRATCH limbs."""
    out, product, factor = scratch + 8 * _SPREAD, scratch + 8 * _PRODUCT, scratch + 8 * _FACTOR
    s, s_limbs, s_place = sum_, NARROW_LIMBS, max(get(sum_, PLACE) - 1, 0)
    if get(sum_, PLACE) == WIDE:
        s, s_limbs, s_place = wide + 8 * WIDE_LIMBS * get(sum_, ROW), WIDE_LIMBS, 0
    q, q_limbs, q_place = square, NARROW_LIMBS, max(get(square, PLACE) - 1, 0)
    if get(square, PLACE) == WIDE:
        q, q_limbs, q_place = wide_square + 8 * WIDE_LIMBS * get(square, ROW), WIDE_LIMBS, 0
    q_exponent, s_exponent = 64 * q_place + LEAST_EXPONENT, 2 * (64 * s_place + LEAST_EXPONENT)
    least = min(q_exponent, s_exponent)
    q_limbs = _used(q, q_limbs)
    magnitude(s, s_limbs, factor)
    s_limbs = _used(factor, s_limbs)
    limbs = 2 + max(q_limbs + 1 + ((q_exponent - least) >> 6), 2 * s_limbs + ((s_exponent - least) >> 6))
    for i in range(limbs):
        put(out, i, 0)
    _multiply(product, factor, s_limbs, factor, s_limbs)
    _add_shifted(out, limbs, product, 2 * s_limbs, s_exponent - least, True)
    put(factor, 0, get(sum_, FINITE))
    _multiply(product, q, q_limbs, factor, 1)
    _add_shifted(out, limbs, product, q_limbs + 1, q_exponent - least, False)
    return nearest_double(out, limbs, least, scratch + 8 * _ROUNDING)


@inlined
def _note(
    g: int, at: int, sums: Address, wide: Address, square_sums: Address, wide_squares: Address, odds: Ints, out: Doubles, counts: Ints,
    scratch: Address,
) -> None:  # fmt: skip
    sum_ = sums + 8 * WIDTH * g
    counts[at] = get(sum_, FINITE) + odds[g]
    out[at] = math.nan if odds[g] != 0 else _spread(sum_, wide, square_sums + 8 * WIDTH * g, wide_squares, scratch)


@kernel
def track_spreads(
    code: Ints, slot: Places, sign: Signs, bits: Ints, square: Ints, missing: Ints, valid: Bytes,
    sums: Ints, wide: Ints, square_sums: Ints, wide_squares: Ints, odds: Ints, progress: Ints, out: Doubles, counts: Ints,
) -> bool:  # fmt: skip
    """Apply the changes from `progress` on; spread and number of values before and after each slot.

    Stops, and returns False, when it might run out of wide numbers: the caller makes room and calls again.
    """
    some_null, values, all_squares = len(valid) > 0, address(sums), address(square_sums)
    wides, more_wides, scratch = address(wide), address(wide_squares), np.empty(SCRATCH, np.int64)
    for i in range(progress[NEXT_CHANGE], len(code)):
        if is_full(wides) or is_full(more_wides):
            progress[NEXT_CHANGE] = i
            return False
        if i + AHEAD < len(code):
            prefetch(sums, code[i + AHEAD])
            prefetch(square_sums, code[i + AHEAD])
        g, s, sign_ = code[i], slot[i], np.int64(sign[i])
        if s == progress[SLOTS]:
            _note(g, 2 * s, values, wides, all_squares, more_wides, odds, out, counts, address(scratch))
            progress[SLOTS] += 1
        if not some_null or valid[i] != 0:
            if is_odd(bits[i]):
                odds[g] += sign_
            else:
                add_finite(values + 8 * WIDTH * g, bits[i], sign_, wides)
                add_finite(all_squares + 8 * WIDTH * g, square[i], sign_, more_wides)
                add_finite(all_squares + 8 * WIDTH * g, missing[i], sign_, more_wides)
        _note(g, 2 * s + 1, values, wides, all_squares, more_wides, odds, out, counts, address(scratch))
    return True


@kernel
def current_spreads(groups: Ints, sums: Ints, wide: Ints, square_sums: Ints, wide_squares: Ints, odds: Ints) -> tuple[Doubles, Ints]:
    """Spread and number of values of these groups as they are now."""
    out, counts, scratch = np.empty(len(groups), np.float64), np.empty(len(groups), np.int64), np.empty(SCRATCH, np.int64)
    for i in range(len(groups)):
        _note(groups[i], i, address(sums), address(wide), address(square_sums), address(wide_squares), odds, out, counts, address(scratch))
    return out, counts
