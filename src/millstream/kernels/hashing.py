"""Hashes that place rows into buckets.

A hash is a pure function of the values, the same on every machine and in every release: rows on
disk are found by it.  Equal values of different widths (INT 5 and BIGINT 5, plain and dictionary
strings) hash alike; NULL is a value of its own.  Equality is never decided here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.compiled import Bytes, Hashes, Ints, address, hash_bytes, kernel, mix

_SEED = np.uint64(0x6D696C6C73747265)  # "millstre"
_NULL = np.uint64(0x2545F4914F6CDD1D)


def hash_columns(columns: Sequence[pa.Array]) -> Hashes:
    """One hash for each row over all the columns, in their order."""
    assert columns, "no columns to hash"
    hashes = np.full(len(columns[0]), _SEED)
    for column in map(arrow_buffers.null_free_dictionary, columns):
        _combine(hashes, hash_values(column), arrow_buffers.valid_mask(column))
    return hashes


def hash_values(array: pa.Array) -> Hashes:
    """The hash of each value of one column; arbitrary where it is NULL."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return hash_values(array.dictionary)[arrow_buffers.dictionary_indices(array)]
    if arrow_buffers.is_bytes(kind):
        return _hash_byte_ranges(*arrow_buffers.byte_ranges(array))
    if arrow_buffers.is_wide_decimal(kind):
        return _hash_word_pairs(arrow_buffers.decimal_words(array))
    if arrow_buffers.is_word(kind):
        return _hash_words(arrow_buffers.words(array))
    if pa.types.is_struct(kind):
        return hash_columns(array.flatten())
    if pa.types.is_list(kind):
        return _hash_ranges(arrow_buffers.words(array.offsets), hash_columns([array.values]))
    if pa.types.is_map(kind):
        return _hash_ranges(arrow_buffers.words(array.offsets), hash_columns([array.keys, array.items]))
    raise TypeError(f"cannot hash {kind}")


def bucket_of(hashes: Hashes, buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each hash, from 0 to buckets - 1.  Reads the upper half only; hash tables use the lower."""
    return (((hashes >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int32)


def dealt(numbers: Ints, run_bits: int, block_bits: int, buckets: int) -> npt.NDArray[np.int32]:
    """Blocks of 2**block_bits numbers go to the buckets in turn; with which of them each run of 2**run_bits begins, a hash says."""
    return _dealt(arrow_buffers.frozen(numbers), run_bits, block_bits, buckets)


def split_by_bucket(bucket: npt.NDArray[np.int32], buckets: int) -> tuple[Ints, Ints]:
    """(order, offsets): the rows of bucket b, in their old order, are order[offsets[b]:offsets[b + 1]]."""
    order, offsets = np.empty(len(bucket), np.int64), np.zeros(buckets + 1, np.int64)
    _counting_sort(arrow_buffers.frozen(bucket), order, offsets)
    return order, offsets


@kernel
def _hash_words(words: Ints) -> Hashes:
    out = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        out[i] = mix(np.uint64(words[i]))
    return out


@kernel
def _dealt(numbers: Ints, run_bits: int, block_bits: int, buckets: int) -> npt.NDArray[np.int32]:
    out = np.empty(len(numbers), np.int32)
    last, bucket = np.int64(-1), 0
    for i in range(len(numbers)):
        block = numbers[i] >> block_bits
        if block != last:
            first = ((mix(np.uint64(numbers[i] >> run_bits)) >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)
            last, bucket = block, (np.int64(first) + block) % buckets
        out[i] = bucket
    return out


@kernel
def _hash_word_pairs(pairs: Ints) -> Hashes:
    out = np.empty(len(pairs), np.uint64)
    for i in range(len(pairs)):
        low, high = pairs[i, 0], pairs[i, 1]
        # a value that fits one word hashes as in a narrower DECIMAL of the same scale
        out[i] = mix(np.uint64(low)) if high == low >> 63 else mix(np.uint64(low) ^ mix(np.uint64(high)))
    return out


@kernel
def _hash_byte_ranges(offsets: Ints, data: Bytes) -> Hashes:
    out, bytes_ = np.empty(len(offsets) - 1, np.uint64), address(data)
    for i in range(len(offsets) - 1):
        out[i] = hash_bytes(bytes_, offsets[i], offsets[i + 1])
    return out


@kernel
def _hash_ranges(offsets: Ints, elements: Hashes) -> Hashes:
    """The hash of each range of elements, their number included."""
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        word = mix(np.uint64(offsets[i + 1] - offsets[i]))
        for k in range(offsets[i], offsets[i + 1]):
            word = mix(word ^ elements[k])
        out[i] = word
    return out


@kernel
def _combine(hashes: Hashes, column: Hashes, valid: Bytes) -> None:
    some_null = len(valid) > 0
    for i in range(len(hashes)):
        value = _NULL if some_null and valid[i] == 0 else column[i]
        hashes[i] = mix(hashes[i] ^ value)


@kernel
def _counting_sort(bucket: npt.NDArray[np.int32], order: Ints, offsets: Ints) -> None:
    for i in range(len(bucket)):
        offsets[bucket[i] + 1] += 1
    for b in range(1, len(offsets)):
        offsets[b] += offsets[b - 1]
    free = offsets.copy()
    for i in range(len(bucket)):
        order[free[bucket[i]]] = i
        free[bucket[i]] += 1
