"""Values as int64 keys whose order is the values' order in Spark; and back.

integers, dates, timestamps, booleans, DECIMAL up to 18 digits   the value itself
floats          the bits, with those of negative numbers turned round: NaN is the largest
STRING, BINARY  ids of an Interner, ordered by its bytes
wide DECIMAL    the same, over 16 bytes, most significant first and the sign turned round
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.interner import Interner

Order = tuple[bool, Bytes, Ints]
"""What kernels need to compare keys: whether by bytes, and then an Interner's arena and spans."""
BY_NUMBER: Order = (False, np.empty(0, np.uint8), np.empty((0, 2), np.int64))

_SIGN = np.int64(-(2**63))


def is_sortable(type_: pa.DataType) -> bool:
    return arrow_buffers.is_word(type_) or arrow_buffers.is_bytes(type_) or arrow_buffers.is_wide_decimal(type_)


class SortKeys:
    """The keys of one column."""

    def __init__(self, type_: pa.DataType) -> None:
        assert is_sortable(type_), f"{type_} has no order"
        self.type = type_
        self._interner = None if arrow_buffers.is_word(type_) else Interner()

    @property
    def order(self) -> Order:
        """How the keys compare, until the next call of `keys` or `sweep`."""
        return BY_NUMBER if self._interner is None else (True, self._interner.arena, self._interner.spans)

    def keys(self, array: pa.Array) -> Ints:
        """A key for each value; arbitrary where it is NULL."""
        array = arrow_buffers.plain(array)
        if self._interner is None:
            words = arrow_buffers.words(array)
            return frozen(turned(words)) if pa.types.is_floating(self.type) else words
        return frozen(self._interner.intern(*order_bytes(array), arrow_buffers.valid_mask(array)))

    def values(self, keys: Ints, valid: Bytes = ALL_VALID) -> pa.Array:
        """The values behind keys."""
        if self._interner is None:
            return arrow_buffers.from_words(turned(keys) if pa.types.is_floating(self.type) else keys, valid, self.type)
        offsets, data = self._interner.gather(np.where(valid != 0, keys, -1) if len(valid) else keys)
        return from_order_bytes(offsets, data, valid, self.type)

    def held(self) -> int:
        """How many byte strings are kept."""
        return 0 if self._interner is None else len(self._interner)

    def sweep(self, used: Ints) -> None:
        """Forget the bytes of keys that are not among these."""
        if self._interner is not None:
            self._interner.sweep(used)


def turned(words: Ints) -> Ints:
    """Between the bits of doubles and integers of the same order (its own inverse)."""
    turned: Ints = words ^ ((words >> 63) & ~_SIGN)
    return turned


def order_bytes(array: pa.Array) -> tuple[Ints, Bytes]:
    """offsets and bytes that compare, byte by byte, as the values do.  Some bytes under a NULL."""
    if arrow_buffers.is_bytes(array.type):
        return arrow_buffers.byte_ranges(array)
    if arrow_buffers.is_word(array.type):
        words = arrow_buffers.words(array)
        words = (turned(words) if pa.types.is_floating(array.type) else words) ^ _SIGN
    else:
        words = arrow_buffers.decimal_words(array)[:, ::-1].copy()  # most significant word first
        words[:, 0] ^= _SIGN
    width = 8 * words.size // max(len(array), 1)
    return frozen(np.arange(len(array) + 1) * width), frozen(words.byteswap().view(np.uint8).reshape(-1))


def from_order_bytes(offsets: Ints, data: Bytes, valid: Bytes, type_: pa.DataType) -> pa.Array:
    """The values with these bytes; there are none under a NULL."""
    if arrow_buffers.is_bytes(type_):
        return arrow_buffers.from_byte_ranges(offsets, data, valid, type_)
    there = valid != 0 if len(valid) else slice(None)
    if arrow_buffers.is_word(type_):
        words = np.zeros(len(offsets) - 1, np.int64)
        words[there] = data.view(np.int64).byteswap() ^ _SIGN
        return arrow_buffers.from_words(turned(words) if pa.types.is_floating(type_) else words, valid, type_)
    pairs = np.zeros((len(offsets) - 1, 2), np.int64)
    pairs[there] = _decimal_words(data)
    return arrow_buffers.from_decimal_words(pairs, valid, type_)


def _decimal_words(data: Bytes) -> Ints:
    words = data.view(np.int64).byteswap().reshape(-1, 2)
    words[:, 0] ^= _SIGN
    return np.ascontiguousarray(words[:, ::-1])
