"""How our kernels are compiled, and the few scalar primitives that several of them share.

Kernels compile on first use for the dtypes they meet and are cached on disk, so a worker process
loads machine code instead of compiling.  numba notices a change of a kernel's own file, not of a
file it calls into: what lives here is therefore small and meant never to change.  The hashes are
stable for ever in any case, since rows on disk are placed by them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)


def kernel(function: Function) -> Function:
    """Decorator of every kernel."""
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)


def inlined(function: Function) -> Function:
    """Decorator of the scalar functions that kernels call per row."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function)


@intrinsic
def load_u64(typing_context: Any, data: Any, at: Any) -> Any:
    """load_u64(data, at): eight bytes of a uint8 array as one little-endian word, at any alignment."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]], source_etype=ir.IntType(8))
        word = builder.bitcast(place, ir.IntType(64).as_pointer())
        return builder.load(word, align=1, typ=ir.IntType(64))

    return types.uint64(data, types.int64), generate


@inlined
def mix(word: np.uint64) -> np.uint64:
    """A bijection of 64 bits in which every input bit moves every output bit."""
    word = word + _GOLDEN
    word = (word ^ (word >> np.uint64(33))) * _MIX_1
    word = (word ^ (word >> np.uint64(33))) * _MIX_2
    return word ^ (word >> np.uint64(33))


@inlined
def hash_bytes(data: Bytes, start: int, stop: int) -> np.uint64:
    """The hash of data[start:stop]; the length is part of it."""
    word = np.uint64(stop - start) * _GOLDEN
    at = start
    while at + 8 <= stop:
        word = (word ^ load_u64(data, at)) * _MIX_1
        word = word ^ (word >> np.uint64(32))
        at += 8
    if at < stop:
        tail = np.uint64(0)
        for i in range(at, stop):
            tail |= np.uint64(data[i]) << np.uint64(8 * (i - at))
        word = (word ^ tail) * _MIX_2
    return mix(word)


@inlined
def same_bytes(left: Bytes, left_start: int, right: Bytes, right_start: int, length: int) -> bool:
    at = 0
    while at + 8 <= length:
        if load_u64(left, left_start + at) != load_u64(right, right_start + at):
            return False
        at += 8
    while at < length:
        if left[left_start + at] != right[right_start + at]:
            return False
        at += 1
    return True
