"""Values as byte strings whose order is the values': a row's bytes are those of its columns, one after the other.

    NULL              one byte, before or after that of all values
    words             a byte, then eight, the most significant first and the sign turned round (sort_keys.py)
    wide DECIMAL      the same, with sixteen
    STRING, BINARY    a byte, then the value's bytes with each 0 written 0 255, then 0 0
    STRUCT            a byte, then its fields
    ARRAY, MAP        a byte, then each element behind a 1, then a 0

No value's bytes begin another's, so columns may stand side by side.  For a descending order the value's bits are turned.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Bytes, Ints, kernel
from millstream.kernels.sort_keys import turned

Ranges = tuple[Ints, Bytes]
"""offsets and data: the bytes of value i are data[offsets[i]:offsets[i + 1]]."""

_SIGN = np.int64(-(2**63))
_NULL_FIRST, _VALUE, _NULL_LAST = 0, 1, 2


def order_bytes(array: pa.Array, *, descending: bool = False, nulls_first: bool = True, exact: bool = False) -> Ranges:
    """`exact`: 0.0 and -0.0 are two values, for telling rows apart; else one, as in ORDER BY."""
    array = arrow_buffers.plain(array)
    valid = np.ones(len(array), np.uint8) if array.null_count == 0 else arrow_buffers.valid_mask(array)
    offsets, data = _values(array, exact)
    null = np.uint8(_NULL_FIRST if nulls_first else _NULL_LAST)
    return _flagged(frozen(offsets), frozen(data), frozen(valid), null, np.uint8(255 if descending else 0))


def side_by_side(parts: Sequence[Ranges], rows: int) -> Ranges:
    """The bytes of several columns, row by row."""
    at = np.zeros(rows + 1, np.int64)
    for offsets, _ in parts:
        at[1:] += np.diff(offsets)
    np.cumsum(at, out=at)
    data, place = np.empty(int(at[-1]), np.uint8), at[:-1].copy()
    for offsets, part in parts:
        _append(frozen(offsets), frozen(part), place, data)
    return at, data


def _values(array: pa.Array, exact: bool) -> Ranges:
    kind, n = array.type, len(array)
    if arrow_buffers.is_word(kind):
        words = arrow_buffers.words(array)
        if pa.types.is_floating(kind):
            words = turned(arrow_buffers.doubles(array).view(np.int64) if exact else words)
        return _fixed((words ^ _SIGN).reshape(-1, 1))
    if arrow_buffers.is_wide_decimal(kind):
        words = arrow_buffers.decimal_words(array)[:, ::-1].copy()
        words[:, 0] ^= _SIGN
        return _fixed(words)
    if arrow_buffers.is_bytes(kind):
        return _escaped(*arrow_buffers.byte_ranges(array))
    if pa.types.is_struct(kind):
        return side_by_side([order_bytes(field, exact=exact) for field in array.flatten()], n)
    elements = pa.StructArray.from_arrays([array.keys, array.items], ["k", "v"]) if pa.types.is_map(kind) else array.values
    offsets, data = order_bytes(elements, exact=exact)
    return _listed(arrow_buffers.words(array.offsets), frozen(offsets), frozen(data))


def _fixed(words: Ints) -> Ranges:
    """Rows of words, each with its most significant byte first."""
    width = 8 * words.shape[1]
    return np.arange(len(words) + 1) * width, np.ascontiguousarray(words).byteswap().view(np.uint8).reshape(-1)


@kernel
def _flagged(offsets: Ints, data: Bytes, valid: Bytes, null: np.uint8, flip: np.uint8) -> Ranges:
    """A byte before each value that says whether it is NULL, and then stands alone."""
    n = len(valid)
    at = np.zeros(n + 1, np.int64)
    for i in range(n):
        at[i + 1] = at[i] + 1 + (offsets[i + 1] - offsets[i] if valid[i] else 0)
    out = np.empty(at[n], np.uint8)
    for i in range(n):
        if valid[i] == 0:
            out[at[i]] = null
            continue
        out[at[i]] = _VALUE
        for j in range(offsets[i + 1] - offsets[i]):
            out[at[i] + 1 + j] = data[offsets[i] + j] ^ flip
    return at, out


@kernel
def _escaped(offsets: Ints, data: Bytes) -> Ranges:
    n = len(offsets) - 1
    at = np.zeros(n + 1, np.int64)
    for i in range(n):
        zeros = 0
        for j in range(offsets[i], offsets[i + 1]):
            zeros += data[j] == 0
        at[i + 1] = at[i] + offsets[i + 1] - offsets[i] + zeros + 2
    out = np.zeros(at[n], np.uint8)
    for i in range(n):
        k = at[i]
        for j in range(offsets[i], offsets[i + 1]):
            out[k] = data[j]
            k += 1
            if data[j] == 0:
                out[k] = 255
                k += 1
    return at, out


@kernel
def _listed(lists: Ints, offsets: Ints, data: Bytes) -> Ranges:
    """Each element of a list behind a 1, and a 0 at the end.  `lists` says which elements a list has."""
    n = len(lists) - 1
    at = np.zeros(n + 1, np.int64)
    for i in range(n):
        at[i + 1] = at[i] + offsets[lists[i + 1]] - offsets[lists[i]] + lists[i + 1] - lists[i] + 1
    out = np.zeros(at[n], np.uint8)
    for i in range(n):
        k = at[i]
        for element in range(lists[i], lists[i + 1]):
            out[k] = 1
            k += 1
            for j in range(offsets[element], offsets[element + 1]):
                out[k] = data[j]
                k += 1
    return at, out


@kernel
def _append(offsets: Ints, data: Bytes, place: Ints, out: Bytes) -> None:
    """Copy each value to its place, and move the place behind it."""
    for i in range(len(place)):
        k = place[i]
        for j in range(offsets[i], offsets[i + 1]):
            out[k] = data[j]
            k += 1
        place[i] = k
