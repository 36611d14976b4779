"""How our kernels are compiled, and the few scalar primitives that several of them share.

Kernels compile on first use for the dtypes they meet and are cached on disk, so a worker process
loads machine code instead of compiling.  Left to itself, numba drops a cached kernel when the kernel's
own file has changed, but not when a file it calls into has; and it writes its index before the code, into
files that old and new versions share, so that of two workers that start together one may load code of
the version before.  Here every version of this folder's files has cache files of its own.
The hashes here are stable for ever: rows on disk are placed by them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


def _version() -> str:
    """Of all that goes into the machine code: the files of this folder, and numba."""
    digest = hashlib.blake2s(numba.__version__.encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


_VERSION = _version()

AHEAD = 16
"""How many rows before its use a kernel asks for a group's state: state of many groups is not in the cache."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)


def kernel(function: Function) -> Function:
    """Decorator of every kernel."""
    return _cached(numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """Decorator of the scalar functions that kernels call per row."""
    return _cached(numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function))


def _cached(dispatcher: Function) -> Function:
    """The compiled function, with cache files of this version only."""
    cache: Any = dispatcher._cache  # type: ignore[attr-defined]
    cache._cache_file = IndexDataCacheFile(cache._cache_path, f"{cache._impl.filename_base}-{_VERSION}", _VERSION)
    return dispatcher


# --- memory ------------------------------------------------------------------------------------
#
# Functions that work row by row on several arrays take addresses: numba counts references to every
# array that is passed to a function, at a cost of several nanoseconds each.  The kernel that calls
# them holds the arrays, and so keeps them alive.  Nothing is checked.

Address = int


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """address(array): where a contiguous array's data begins."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


def _place(builder: ir.IRBuilder, base: Any, at: Any, bits: int) -> Any:
    """The at-th element of so many bits behind a base address."""
    element = ir.IntType(bits)
    return builder.gep(builder.inttoptr(base, element.as_pointer()), [at], source_etype=element)


@intrinsic
def load_u8(typing_context: Any, base: Any, at: Any) -> Any:
    """load_u8(base, at): the at-th byte."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.load(_place(builder, args[0], args[1], 8), typ=ir.IntType(8))

    return types.uint8(types.int64, types.int64), generate


@intrinsic
def load_u64(typing_context: Any, base: Any, at: Any) -> Any:
    """load_u64(base, at): eight bytes from the at-th on as one little-endian word, at any alignment."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        place = builder.bitcast(_place(builder, args[0], args[1], 8), ir.IntType(64).as_pointer())
        return builder.load(place, align=1, typ=ir.IntType(64))

    return types.uint64(types.int64, types.int64), generate


@intrinsic
def get(typing_context: Any, base: Any, at: Any) -> Any:
    """get(base, at): the at-th int64."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.load(_place(builder, args[0], args[1], 64), typ=ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def put(typing_context: Any, base: Any, at: Any, value: Any) -> Any:
    """put(base, at, value): set the at-th int64."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(builder, args[0], args[1], 64))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def move(typing_context: Any, base: Any, source: Any, target: Any, count: Any) -> Any:
    """move(base, source, target, count): copy so many int64 from one place to another; they may overlap."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        source, target = (_place(builder, args[0], at, 64) for at in args[1:3])
        cgutils.raw_memmove(builder, target, source, args[3], 8, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def copied_32(typing_context: Any, source: Any, at: Any, target: Any, to: Any, one: Any, other: Any) -> Any:
    """copied_32(source, at, target, to, one, other): copies 32 bytes; the n-th bit says whether the n-th of them is one of these two."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        source, at, target, to, *wanted = args
        bytes_32 = ir.VectorType(ir.IntType(8), 32)

        def place(base: Any, at: Any) -> Any:
            return builder.bitcast(_place(builder, base, at, 8), bytes_32.as_pointer())

        values = builder.load(place(source, at), align=1, typ=bytes_32)
        builder.store(values, place(target, to), align=1)
        found = ir.Constant(ir.VectorType(ir.IntType(1), 32), [0] * 32)
        for byte in wanted:
            lane = builder.insert_element(ir.Constant(bytes_32, ir.Undefined), builder.trunc(byte, ir.IntType(8)), ir.IntType(32)(0))
            everywhere = builder.shuffle_vector(lane, lane, ir.Constant(ir.VectorType(ir.IntType(32), 32), [0] * 32))
            found = builder.or_(found, builder.icmp_unsigned("==", values, everywhere))
        return builder.zext(builder.bitcast(found, ir.IntType(32)), ir.IntType(64))

    return types.uint64(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def count_less(typing_context: Any, base: Any, at: Any, first: Any, stop: Any, word: Any) -> Any:
    """count_less(base, at, first, stop, word): how many of the int64 from at + first up to at + stop are less than the word.

    0 <= first <= stop <= 16; all sixteen from the at-th on are read.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        base, at, first, stop, word = args
        sixteen, bits = ir.VectorType(ir.IntType(64), 16), ir.IntType(64)
        values = builder.load(builder.bitcast(_place(builder, base, at, 64), sixteen.as_pointer()), align=8, typ=sixteen)
        lane = builder.insert_element(ir.Constant(sixteen, ir.Undefined), word, ir.IntType(32)(0))
        words = builder.shuffle_vector(lane, lane, ir.Constant(ir.VectorType(ir.IntType(32), 16), [0] * 16))
        less = builder.zext(builder.bitcast(builder.icmp_signed("<", values, words), ir.IntType(16)), bits)
        wanted = builder.sub(builder.shl(bits(1), stop), builder.shl(bits(1), first))
        return builder.ctpop(builder.and_(less, wanted))

    return types.int64(types.int64, types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def prefetch_at(typing_context: Any, base: Any, at: Any) -> Any:
    """prefetch_at(base, at): start to load the at-th int64 into the cache.  Never changes an outcome."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(_place(builder, args[0], args[1], 64), byte)
        hint = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0")
        builder.call(function, [place, word(1), word(3), word(1)])  # for writing, keep in all levels, data
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@inlined
def prefetch(rows: Ints | Bytes, row: int | np.int64) -> None:
    """Start to load a row of a contiguous array of one or two dimensions."""
    prefetch_at(address(rows) + row * (rows.size // len(rows)) * rows.itemsize, 0)


# --- hashes and bytes -------------------------------------------------------------------------


@inlined
def mix(word: np.uint64) -> np.uint64:
    """A bijection of 64 bits in which every input bit moves every output bit."""
    word = word + _GOLDEN
    word = (word ^ (word >> np.uint64(33))) * _MIX_1
    word = (word ^ (word >> np.uint64(33))) * _MIX_2
    return word ^ (word >> np.uint64(33))


@inlined
def hash_bytes(data: Address, start: int, stop: int) -> np.uint64:
    """The hash of the bytes from `start` to `stop`; their number is part of it."""
    word = np.uint64(stop - start) * _GOLDEN
    at = start
    while at + 8 <= stop:
        word = (word ^ load_u64(data, at)) * _MIX_1
        word = word ^ (word >> np.uint64(32))
        at += 8
    if at < stop:
        tail = np.uint64(0)
        for i in range(at, stop):
            tail |= np.uint64(load_u8(data, i)) << np.uint64(8 * (i - at))
        word = (word ^ tail) * _MIX_2
    return mix(word)


@inlined
def same_bytes(left: Address, left_start: int, right: Address, right_start: int, length: int) -> bool:
    at = 0
    while at + 8 <= length:
        if load_u64(left, left_start + at) != load_u64(right, right_start + at):
            return False
        at += 8
    while at < length:
        if load_u8(left, left_start + at) != load_u8(right, right_start + at):
            return False
        at += 1
    return True


@intrinsic
def swapped(typing_context: Any, word: Any) -> Any:
    """swapped(word): the bytes of a word in the opposite order."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.uint64(types.uint64), generate


@inlined
def bytes_before(data: Address, left: int, left_length: int, right: int, right_length: int) -> bool:
    """Whether one range of bytes comes before another, byte by byte, a prefix before what it begins."""
    at, both = 0, min(left_length, right_length)
    while at + 8 <= both:
        one, other = load_u64(data, left + at), load_u64(data, right + at)
        if one != other:
            return swapped(one) < swapped(other)
        at += 8
    while at < both:
        if load_u8(data, left + at) != load_u8(data, right + at):
            return load_u8(data, left + at) < load_u8(data, right + at)
        at += 1
    return left_length < right_length
