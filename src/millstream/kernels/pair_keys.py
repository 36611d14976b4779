"""Pairs of values as int64 keys whose order is the pairs' order: by the first value, ties by the second.

Keys are ids of an Interner, over bytes that compare as the pairs do:

    first (never NULL)                          second
    numbers: 8 bytes, wide DECIMAL: 16          0 if NULL, else 1 and its bytes: 8, 16, or those of the string
    STRING, BINARY: 0 as 0 255, then 0 0

Numbers go most significant byte first, the sign turned round.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.compiled import Bytes, Ints, kernel
from millstream.kernels.interner import LENGTH, Interner
from millstream.kernels.sort_keys import Order, SortKeys, from_order_bytes, order_bytes


class PairKeys(SortKeys):
    """Of a column of structs with two fields; the first is not NULL where the struct is not."""

    def __init__(self, first: pa.DataType, second: pa.DataType) -> None:
        self.type = pa.struct([("first", first), ("second", second)])
        self._pairs = Interner()
        self._width = 0 if arrow_buffers.is_bytes(first) else (8 if arrow_buffers.is_word(first) else 16)

    @property
    def order(self) -> Order:
        return True, self._pairs.arena, self._pairs.spans

    def keys(self, array: pa.Array) -> Ints:
        first, second = array.field(0), array.field(1)
        offsets, data = _joined(*order_bytes(first), self._width > 0, *order_bytes(second), arrow_buffers.valid_mask(second))
        return frozen(self._pairs.intern(frozen(offsets), frozen(data), arrow_buffers.valid_mask(array)))

    def values(self, keys: Ints, valid: Bytes = ALL_VALID) -> pa.Array:
        first, second = self._parts(keys, valid)
        return pa.StructArray.from_arrays([first, second], fields=list(self.type))

    def seconds(self, keys: Ints, valid: Bytes) -> pa.Array:
        """The second values; NULL where the key is not valid."""
        return self._parts(keys, valid)[1]

    def all_seconds(self) -> pa.Array:
        """The second value of every key there is, at the key's place."""
        there = (self._pairs.spans[:, LENGTH] >= 0).astype(np.uint8)
        return self.seconds(np.arange(len(there)), there)

    def _parts(self, keys: Ints, valid: Bytes) -> tuple[pa.Array, pa.Array]:
        offsets, data = self._pairs.gather(np.where(valid != 0, keys, -1) if len(valid) else keys)
        first_offsets, first, second_offsets, second, second_valid = _split(offsets, data, self._width)
        types = [field.type for field in self.type]
        return (
            from_order_bytes(first_offsets, first, valid, types[0]),
            from_order_bytes(second_offsets, second, ALL_VALID if second_valid.all() else second_valid, types[1]),
        )

    def held(self) -> int:
        return len(self._pairs)

    def sweep(self, used: Ints) -> None:
        self._pairs.sweep(used)


@kernel
def _joined(first_offsets: Ints, first: Bytes, fixed: bool, second_offsets: Ints, second: Bytes, second_valid: Bytes) -> tuple[Ints, Bytes]:
    """The bytes of each pair."""
    n = len(first_offsets) - 1
    offsets = np.zeros(n + 1, np.int64)
    for i in range(n):
        size = first_offsets[i + 1] - first_offsets[i] + 1
        if not fixed:
            size += 2
            for k in range(first_offsets[i], first_offsets[i + 1]):
                size += first[k] == 0
        if len(second_valid) == 0 or second_valid[i] != 0:
            size += second_offsets[i + 1] - second_offsets[i]
        offsets[i + 1] = offsets[i] + size
    data = np.empty(offsets[n], np.uint8)
    for i in range(n):
        at = offsets[i]
        for k in range(first_offsets[i], first_offsets[i + 1]):
            data[at] = first[k]
            at += 1
            if not fixed and first[k] == 0:
                data[at] = 255
                at += 1
        if not fixed:
            data[at] = data[at + 1] = 0
            at += 2
        data[at] = len(second_valid) == 0 or second_valid[i] != 0
        if data[at] != 0:
            for k in range(second_offsets[i], second_offsets[i + 1]):
                at += 1
                data[at] = second[k]
    return offsets, data


@kernel
def _split(offsets: Ints, data: Bytes, width: int) -> tuple[Ints, Bytes, Ints, Bytes, Bytes]:
    """The two ranges of bytes of each pair, and whether the second is there; a pair without bytes has neither."""
    n = len(offsets) - 1
    first_offsets, second_offsets, valid = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros(n, np.uint8)
    first, second = np.empty(len(data), np.uint8), np.empty(len(data), np.uint8)
    for i in range(n):
        at, to = offsets[i], first_offsets[i]
        if at == offsets[i + 1]:
            first_offsets[i + 1], second_offsets[i + 1] = to, second_offsets[i]
            continue
        if width > 0:
            first[to : to + width] = data[at : at + width]
            at, to = at + width, to + width
        else:
            while data[at] != 0 or data[at + 1] != 0:
                first[to] = data[at]
                to += 1
                at += 2 if data[at] == 0 else 1
            at += 2
        first_offsets[i + 1] = to
        valid[i] = data[at]
        size = offsets[i + 1] - at - 1
        second[second_offsets[i] : second_offsets[i] + size] = data[at + 1 : offsets[i + 1]]
        second_offsets[i + 1] = second_offsets[i] + size
    return first_offsets, first[: first_offsets[n]], second_offsets, second[: second_offsets[n]], valid
