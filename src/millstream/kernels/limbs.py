"""Numbers of many 64-bit limbs: two's complement, least significant limb first, behind an address."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from millstream.kernels.compiled import Address, get, inlined, kernel, put

LONGEST = 40
"""No number has more limbs."""


@intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """leading_zeros(word): how many of a word's highest bits are 0; 64 for 0."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """trailing_zeros(word): how many of a word's lowest bits are 0; 64 for 0."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


@inlined
def limb(number: Address, at: int) -> np.uint64:
    return np.uint64(get(number, at))


@inlined
def set_limb(number: Address, at: int, word: np.uint64) -> None:
    put(number, at, np.int64(word))


@inlined
def add_pair(number: Address, limbs: int, at: int, low: np.uint64, high: np.uint64) -> None:
    """Add (low, high) from limb `at` on, carrying as far as it goes.  at + 1 < limbs."""
    old = limb(number, at)
    set_limb(number, at, old + low)
    carry = np.uint64(old + low < old)
    old = limb(number, at + 1)
    new = old + high
    set_limb(number, at + 1, new + carry)
    carry = np.uint64((new < old) | (new + carry < new))
    i = at + 2
    while carry != 0 and i < limbs:
        new = limb(number, i) + np.uint64(1)
        set_limb(number, i, new)
        carry = np.uint64(new == 0)
        i += 1


@inlined
def subtract_pair(number: Address, limbs: int, at: int, low: np.uint64, high: np.uint64) -> None:
    """Subtract (low, high) from limb `at` on, borrowing as far as it goes.  at + 1 < limbs."""
    old = limb(number, at)
    set_limb(number, at, old - low)
    borrow = np.uint64(old < low)
    old = limb(number, at + 1)
    new = old - high
    set_limb(number, at + 1, new - borrow)
    borrow = np.uint64((old < high) | (new < borrow))
    i = at + 2
    while borrow != 0 and i < limbs:
        new = limb(number, i)
        set_limb(number, i, new - np.uint64(1))
        borrow = np.uint64(new == 0)
        i += 1


@inlined
def magnitude(number: Address, limbs: int, out: Address) -> bool:
    """Write the absolute value to `out`; whether the number is negative."""
    negative = get(number, limbs - 1) < 0
    flip = ~np.uint64(0) if negative else np.uint64(0)
    carry = np.uint64(negative)
    for i in range(limbs):
        word = (limb(number, i) ^ flip) + carry
        carry = carry & np.uint64(word == 0)
        set_limb(out, i, word)
    return negative


@kernel
def nearest_double(number: Address, limbs: int, exponent: int, scratch: Address) -> float:
    """The double nearest to number * 2^exponent, ties to even; infinite beyond the largest.

    Exact below the normal range if exponent >= -1074: such a number has no more bits than a double shows.
    """
    negative = magnitude(number, limbs, scratch)
    top = limbs - 1
    while top > 0 and get(scratch, top) == 0:
        top -= 1
    head = limb(scratch, top)
    if top == 0:
        value = math.ldexp(float(head), exponent)
        return -value if negative and head != 0 else value
    zeros = leading_zeros(head)
    below = limb(scratch, top - 1)
    rest = np.uint64(0)
    if zeros > 0:
        head = (head << np.uint64(zeros)) | (below >> np.uint64(64 - zeros))
        below = below << np.uint64(zeros)
    rest |= below
    i = top - 2
    while rest == 0 and i >= 0:
        rest |= limb(scratch, i)
        i -= 1
    # 64 bits are more than 53 + 2: one bit that says "and something below" makes the rounding right
    value = math.ldexp(float(head | np.uint64(rest != 0)), 64 * top - zeros + exponent)
    return -value if negative else value
