"""The border between Arrow arrays and the flat numpy arrays that kernels read and write.

    any fixed-width value      <->  one int64 each ("code word"), equal words = equal values
    DECIMAL of 19 to 38 digits <->  two int64 each, low word first
    STRING, BINARY             <->  offsets (int64) and bytes
    validity                   <->  one byte each, or an empty mask where nothing is NULL

Floats become the bits of their double, with one NaN and one zero, as Spark groups them.  Slices of
arrays are respected; values under a NULL are arbitrary.  Inputs of kernels are marked read-only, so
that each kernel compiles for one signature, whether Arrow or numpy owns the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.kernels.compiled import Bytes, Ints

ALL_VALID: Bytes = np.empty(0, np.uint8)
"""The mask of a column without NULLs."""
ALL_VALID.flags.writeable = False

_WORD_DIGITS = 18
"""Decimals of up to so many digits fit one int64."""


def is_wide_decimal(type_: pa.DataType) -> bool:
    return pa.types.is_decimal(type_) and type_.precision > _WORD_DIGITS


def is_bytes(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)


def is_word(type_: pa.DataType) -> bool:
    """Values of this type are one int64 each."""
    if pa.types.is_decimal(type_):
        return not is_wide_decimal(type_)
    return pa.types.is_null(type_) or (pa.types.is_primitive(type_) and type_.bit_width <= 64)


def frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only, contiguous, aligned view (or copy, if it must be)."""
    view = np.require(values, requirements=["C", "A"]).view()
    view.flags.writeable = False
    return view


def plain(array: pa.Array) -> pa.Array:
    """The array without dictionary encoding."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def null_free_dictionary(array: pa.Array) -> pa.Array:
    """Plain, unless it is a dictionary array that can be worked on value by value."""
    if pa.types.is_dictionary(array.type) and (array.dictionary.null_count or not len(array.dictionary)):
        return array.dictionary_decode()
    return array


def dictionary_indices(array: pa.Array) -> Ints:
    """Indices into the dictionary, 0 where NULL."""
    return words(array.indices.fill_null(0))


def valid_mask(array: pa.Array) -> Bytes:
    """One byte for each value, 0 where it is NULL; ALL_VALID if none is."""
    if array.null_count == 0:
        return ALL_VALID
    if pa.types.is_null(array.type):
        return frozen(np.zeros(len(array), np.uint8))
    return frozen(_unpacked(array.buffers()[0], array.offset, len(array)))


def words(array: pa.Array) -> Ints:
    """One int64 for each value of a type for which `is_word` holds."""
    kind = array.type
    if pa.types.is_null(kind) or len(array) == 0:
        return frozen(np.zeros(len(array), np.int64))
    if pa.types.is_boolean(kind):
        return frozen(_unpacked(array.buffers()[1], array.offset, len(array)).astype(np.int64))
    if pa.types.is_decimal(kind):
        return frozen(np.ascontiguousarray(decimal_words(array)[:, 0]))
    values = _fixed_width(array, _dtype(kind))
    if pa.types.is_floating(kind):
        return frozen(canonical_doubles(values.astype(np.float64)).view(np.int64))
    return frozen(values.astype(np.int64, copy=False))


def doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    """The values of a FLOAT or DOUBLE column as doubles, bits untouched."""
    return frozen(_fixed_width(array, _dtype(array.type)).astype(np.float64, copy=False))


def canonical_doubles(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The same values with one NaN and one zero."""
    values = values + 0.0  # -0.0 + 0.0 is 0.0
    missing = np.isnan(values)
    if missing.any():
        values[missing] = np.nan
    return values


def decimal_words(array: pa.Array) -> Ints:
    """The unscaled values as rows of (low word, high word)."""
    if len(array) == 0:
        return frozen(np.empty((0, 2), np.int64))
    both = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 16 * array.offset)
    return frozen(both.reshape(-1, 2))


def byte_ranges(array: pa.Array) -> tuple[Ints, Bytes]:
    """offsets and data: value i is data[offsets[i]:offsets[i + 1]]."""
    if len(array) == 0:
        return frozen(np.zeros(1, np.int64)), frozen(np.empty(0, np.uint8))
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    width = np.dtype(np.int64 if large else np.int32)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, width, len(array) + 1, width.itemsize * array.offset)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None and data_buffer.size else np.empty(0, np.uint8)
    return frozen(offsets.astype(np.int64, copy=False)), frozen(data)


# --- back to Arrow ----------------------------------------------------------------------------


def from_words(values: Ints, valid: Bytes, type_: pa.DataType) -> pa.Array:
    """The array whose `words` are these."""
    n = len(values)
    if pa.types.is_null(type_):
        return pa.nulls(n)
    if pa.types.is_boolean(type_):
        return _array(type_, n, valid, _packed(values.astype(np.uint8)))
    if pa.types.is_decimal(type_):
        return from_decimal_words(np.stack([values, values >> 63], axis=1), valid, type_)
    if pa.types.is_floating(type_):
        return _array(type_, n, valid, pa.py_buffer(values.view(np.float64).astype(_dtype(type_), copy=False)))
    return _array(type_, n, valid, pa.py_buffer(values.astype(_dtype(type_), copy=False)))


def from_decimal_words(values: Ints, valid: Bytes, type_: pa.DataType) -> pa.Array:
    return _array(type_, len(values), valid, pa.py_buffer(np.ascontiguousarray(values)))


def from_byte_ranges(offsets: Ints, data: Bytes, valid: Bytes, type_: pa.DataType) -> pa.Array:
    large = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
    if not large and len(offsets) and offsets[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{offsets[-1]} bytes do not fit one {type_} array")
    width = np.int64 if large else np.int32
    buffers = [_bitmap(valid), pa.py_buffer(offsets.astype(width, copy=False)), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, len(offsets) - 1, buffers)


def _array(type_: pa.DataType, length: int, valid: Bytes, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(type_, length, [_bitmap(valid), data])


def _bitmap(valid: Bytes) -> pa.Buffer | None:
    return None if len(valid) == 0 or valid.all() else _packed(valid)


def _packed(flags: Bytes) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _unpacked(bitmap: pa.Buffer, offset: int, length: int) -> Bytes:
    first = offset // 8
    flags: Bytes = np.unpackbits(np.frombuffer(bitmap, np.uint8, offset=first), bitorder="little", count=offset - 8 * first + length)
    return flags[offset - 8 * first :]


def _fixed_width(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), dtype.itemsize * array.offset)


def _dtype(type_: pa.DataType) -> np.dtype[Any]:
    """How Arrow lays the values out: dates, timestamps and durations as the integers they are."""
    if pa.types.is_floating(type_):
        return np.dtype(f"f{type_.bit_width // 8}")
    return np.dtype(f"{'u' if pa.types.is_unsigned_integer(type_) else 'i'}{type_.bit_width // 8}")


# --- to keep ----------------------------------------------------------------------------------


def to_bytes(columns: Sequence[pa.Array]) -> Bytes:
    """The columns in Arrow's stream format, for snapshots."""
    batch = pa.RecordBatch.from_arrays(list(columns), names=[str(i) for i in range(len(columns))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(sink.getvalue(), np.uint8)


def from_bytes(data: Bytes) -> list[pa.Array]:
    with pa.ipc.open_stream(pa.py_buffer(np.ascontiguousarray(data))) as reader:
        columns: list[pa.Array] = reader.read_next_batch().columns
    return columns
