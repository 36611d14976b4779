"""Exact sums of integers per group, at every slot.

An accumulator is (low, high, count): a 128-bit sum and how many values are in it.  2^63 values of
64 bits cannot overflow it, so what left BIGINT's range comes back exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import AHEAD, Bytes, Ints, address, inlined, kernel, prefetch
from millstream.kernels.limbs import nearest_double
from millstream.kernels.slots import Places

LOW, HIGH, COUNT = 0, 1, 2
WIDTH = 4
"""Words per accumulator: a power of two keeps each in one cache line."""

_LEAST = np.int64(-(2**63))


@inlined
def _add(sums: Ints, g: int, value: np.int64, sign: np.int64) -> None:
    signed = value * sign
    old = np.uint64(sums[g, LOW])
    new = old + np.uint64(signed)
    sums[g, LOW] = np.int64(new)
    # -(-2^63) wraps round to itself: as a 128-bit number its high word is 0, not -1
    sums[g, HIGH] += (signed >> 63) + ((signed == _LEAST) & (sign < 0)) + (new < old)
    sums[g, COUNT] += sign


@inlined
def _fits(sums: Ints, g: int) -> bool:
    """There is a sum, and BIGINT can hold it."""
    return (sums[g, COUNT] > 0) & (sums[g, HIGH] == sums[g, LOW] >> 63)


@kernel
def sum_integers(code: Ints, slot: Places, sign: Signs, values: Ints, valid: Bytes, sums: Ints, out: Ints, out_valid: Bytes) -> None:
    """Apply all changes in order; the BIGINT sum before and after each slot."""
    slots, some_null = 0, len(valid) > 0
    for i in range(len(code)):
        if i + AHEAD < len(code):
            prefetch(sums, code[i + AHEAD])
        g, s = code[i], slot[i]
        if s == slots:
            out[2 * s], out_valid[2 * s] = sums[g, LOW], _fits(sums, g)
            slots += 1
        if not some_null or valid[i] != 0:
            _add(sums, g, values[i], np.int64(sign[i]))
        out[2 * s + 1], out_valid[2 * s + 1] = sums[g, LOW], _fits(sums, g)


@kernel
def count_values(code: Ints, slot: Places, sign: Signs, valid: Bytes, counts: Ints, out: Ints) -> None:
    """How many values are not NULL, before and after each slot."""
    slots, some_null = 0, len(valid) > 0
    for i in range(len(code)):
        if i + AHEAD < len(code):
            prefetch(counts, code[i + AHEAD])
        g, s = code[i], slot[i]
        if s == slots:
            out[2 * s] = counts[g]
            slots += 1
        if not some_null or valid[i] != 0:
            counts[g] += sign[i]
        out[2 * s + 1] = counts[g]


@kernel
def track_integer_sums(code: Ints, slot: Places, sign: Signs, values: Ints, valid: Bytes, sums: Ints, out: Ints) -> None:
    """Apply all changes in order; the accumulator before and after each slot."""
    slots, some_null = 0, len(valid) > 0
    for i in range(len(code)):
        if i + AHEAD < len(code):
            prefetch(sums, code[i + AHEAD])
        g, s = code[i], slot[i]
        if s == slots:
            for k in range(WIDTH):
                out[2 * s, k] = sums[g, k]
            slots += 1
        if not some_null or valid[i] != 0:
            _add(sums, g, values[i], np.int64(sign[i]))
        for k in range(WIDTH):
            out[2 * s + 1, k] = sums[g, k]


@kernel
def integer_averages(sums: Ints, out: npt.NDArray[np.float64], valid: Bytes) -> None:
    """The double nearest to the exact sum, divided by the count; NULL without values."""
    scratch = np.empty(2, np.int64)
    for i in range(len(sums)):
        valid[i] = sums[i, COUNT] > 0
        total = nearest_double(address(sums) + 8 * WIDTH * i, 2, 0, address(scratch))
        out[i] = total / sums[i, COUNT] if sums[i, COUNT] > 0 else 0.0
