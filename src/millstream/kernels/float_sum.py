"""Exact sums of doubles per group, at every slot.

Every double is an integer times 2^-1074, so a fixed-point number of 34 limbs holds any sum exactly:
what leaves takes with it exactly what it brought, in whatever order.  Values of one group are mostly
of similar size, so a group has five limbs of that number, where its first value falls, and the whole
number ("wide") only once a value falls outside.

    sums    (groups, 8)  five limbs | place: 1 + the first one's position, WIDE, or UNSET | row of the wide number | finite values
    odd     (groups, 4)  values that are not finite: NaN, +infinity, -infinity; and their total
    wide    (rows, 34)   row 0 heads the list of free ones: (a free row, how many there are)

A value may start in the lower three of the five limbs; then 2^63 values cannot overflow them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import AHEAD, Address, Bytes, Ints, address, get, inlined, kernel, prefetch, put
from millstream.kernels.limbs import LONGEST, add_pair, nearest_double, subtract_pair
from millstream.kernels.slots import Places

WIDTH = 8
NARROW_LIMBS, WIDE_LIMBS = 5, 34
PLACE, ROW, FINITE = 5, 6, 7
NAN, PLUS, MINUS, ODD = 0, 1, 2, 3
ODD_WIDTH = 4
UNSET, WIDE = 0, -1
LEAST_EXPONENT = -1074
_NEXT, _FREE = 0, 1

NEXT_CHANGE, SLOTS = 0, 1
"""Of `progress`: the next change to apply, and the slots begun so far."""

Doubles = npt.NDArray[np.float64]


def new_wide() -> Ints:
    return wide_of(np.zeros((0, WIDE_LIMBS), np.int64))


def grown_wide(wide: Ints) -> Ints:
    larger = np.zeros((2 * len(wide), WIDE_LIMBS), np.int64)
    larger[: len(wide)] = wide
    _free_rows(larger, len(wide))
    return larger


def wide_of(numbers: Ints) -> Ints:
    """Room for wide numbers, these in the rows from 1 on."""
    wide = np.zeros((max(16, 2 * (len(numbers) + 1)), WIDE_LIMBS), np.int64)
    wide[1 : len(numbers) + 1] = numbers
    _free_rows(wide, len(numbers) + 1)
    return wide


@kernel
def _free_rows(wide: Ints, first: int) -> None:
    for row in range(len(wide) - 1, first - 1, -1):
        wide[row, 0], wide[0, _NEXT] = wide[0, _NEXT], row
        wide[0, _FREE] += 1


@inlined
def _widen(sum_: Address, wide: Address) -> None:
    """Move a group's five limbs into a wide number.  There is a free row."""
    row = get(wide, _NEXT)
    number = wide + 8 * WIDE_LIMBS * row
    put(wide, _NEXT, get(number, 0))
    put(wide, _FREE, get(wide, _FREE) - 1)
    place, above = get(sum_, PLACE) - 1, get(sum_, NARROW_LIMBS - 1) >> 63
    for i in range(WIDE_LIMBS):
        inside = place <= i < place + NARROW_LIMBS
        put(number, i, get(sum_, i - place) if inside else (0 if i < place else above))
    put(sum_, PLACE, WIDE)
    put(sum_, ROW, row)


@inlined
def _is_zero(number: Address, limbs: int) -> bool:
    bits = 0
    for i in range(limbs):
        bits |= get(number, i)
    return bits == 0


@inlined
def _leave_place(sum_: Address, wide: Address) -> None:
    """Forget where the last values were, if the sum is 0: inside an instant it may not be, with as many gone as came."""
    if get(sum_, PLACE) != WIDE:
        if _is_zero(sum_, NARROW_LIMBS):
            put(sum_, PLACE, UNSET)
        return
    number = wide + 8 * WIDE_LIMBS * get(sum_, ROW)
    if _is_zero(number, WIDE_LIMBS):
        put(number, 0, get(wide, _NEXT))
        put(wide, _NEXT, get(sum_, ROW))
        put(wide, _FREE, get(wide, _FREE) + 1)
        for i in range(FINITE):
            put(sum_, i, 0)


@inlined
def _add_finite(sum_: Address, bits: int, sign: np.int64, wide: Address) -> None:
    """Add or take away a finite double, given by its bits."""
    exponent, mantissa = (bits >> 52) & 0x7FF, bits & 0xFFFFFFFFFFFFF
    if exponent > 0:
        mantissa |= 1 << 52
        exponent -= 1
    at, shift = exponent >> 6, exponent & 63
    low = np.uint64(mantissa) << np.uint64(shift)
    high = (np.uint64(mantissa) >> np.uint64(1)) >> np.uint64(63 - shift)
    put(sum_, FINITE, get(sum_, FINITE) + sign)
    if mantissa == 0:
        return
    if get(sum_, PLACE) == UNSET:
        put(sum_, PLACE, 1 + max(0, at - 1))
    elif get(sum_, PLACE) != WIDE and not 0 <= at - (get(sum_, PLACE) - 1) <= 2:
        _widen(sum_, wide)
    number, limbs = sum_, NARROW_LIMBS
    if get(sum_, PLACE) == WIDE:
        number, limbs = wide + 8 * WIDE_LIMBS * get(sum_, ROW), WIDE_LIMBS
    else:
        at -= get(sum_, PLACE) - 1
    if (bits < 0) == (sign < 0):
        add_pair(number, limbs, at, low, high)
    else:
        subtract_pair(number, limbs, at, low, high)


@inlined
def add_finite(sum_: Address, bits: int, sign: np.int64, wide: Address) -> None:
    """The same, and a sum of nothing forgets where its values were."""
    _add_finite(sum_, bits, sign, wide)
    if get(sum_, FINITE) == 0:
        _leave_place(sum_, wide)


@inlined
def is_odd(bits: int) -> bool:
    """Not finite."""
    return (bits >> 52) & 0x7FF == 0x7FF


@inlined
def is_full(wide: Address) -> bool:
    """One more value might find no wide number."""
    return get(wide, _FREE) == 0


@inlined
def _sum(sum_: Address, odd: Address, wide: Address, scratch: Address) -> float:
    if get(odd, ODD) != 0:
        if get(odd, NAN) > 0 or (get(odd, PLUS) > 0 and get(odd, MINUS) > 0):
            return math.nan
        return math.inf if get(odd, PLUS) > 0 else -math.inf
    if get(sum_, PLACE) == WIDE:
        return nearest_double(wide + 8 * WIDE_LIMBS * get(sum_, ROW), WIDE_LIMBS, LEAST_EXPONENT, scratch)
    return nearest_double(sum_, NARROW_LIMBS, 64 * (get(sum_, PLACE) - 1) + LEAST_EXPONENT, scratch)


@kernel
def sum_doubles(
    code: Ints, slot: Places, sign: Signs, bits: Ints, valid: Bytes, sums: Ints, odds: Ints, wide: Ints,
    progress: Ints, out: Doubles, counts: Ints,
) -> bool:  # fmt: skip
    """Apply the changes from `progress` on; sum and number of values before and after each slot.

    Stops, and returns False, when it might run out of wide numbers: the caller makes room and calls again.
    """
    some_null, wides = len(valid) > 0, address(wide)
    first_sum, first_odd, scratch = address(sums), address(odds), np.empty(LONGEST, np.int64)
    for i in range(progress[NEXT_CHANGE], len(code)):
        if is_full(wides):
            progress[NEXT_CHANGE] = i
            return False
        if i + AHEAD < len(code):
            prefetch(sums, code[i + AHEAD])
        s = slot[i]
        sum_, odd = first_sum + 8 * WIDTH * code[i], first_odd + 8 * ODD_WIDTH * code[i]
        if s == progress[SLOTS]:
            out[2 * s] = _sum(sum_, odd, wides, address(scratch))
            counts[2 * s] = get(sum_, FINITE) + get(odd, ODD)
            progress[SLOTS] += 1
        if not some_null or valid[i] != 0:
            if is_odd(bits[i]):
                kind = NAN if bits[i] & 0xFFFFFFFFFFFFF != 0 else (PLUS if bits[i] > 0 else MINUS)
                put(odd, kind, get(odd, kind) + sign[i])
                put(odd, ODD, get(odd, ODD) + sign[i])
            else:
                add_finite(sum_, bits[i], np.int64(sign[i]), wides)
        out[2 * s + 1] = _sum(sum_, odd, wides, address(scratch))
        counts[2 * s + 1] = get(sum_, FINITE) + get(odd, ODD)
    return True


@kernel
def current_sums(groups: Ints, sums: Ints, odds: Ints, wide: Ints) -> tuple[Doubles, Ints]:
    """Sum and number of values of these groups as they are now."""
    out, counts, scratch = np.empty(len(groups), np.float64), np.empty(len(groups), np.int64), np.empty(LONGEST, np.int64)
    for i in range(len(groups)):
        sum_, odd = address(sums) + 8 * WIDTH * groups[i], address(odds) + 8 * ODD_WIDTH * groups[i]
        out[i] = _sum(sum_, odd, address(wide), address(scratch))
        counts[i] = get(sum_, FINITE) + get(odd, ODD)
    return out, counts
