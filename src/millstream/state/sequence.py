"""Arrival order across partitions that are written at the same time: the numbers in `_seq`.

    63          32 31                    0
    ┌─────────────┬───────────┬──────────┐
    │ ingest      │ partition │ row      │      as many partition bits as this ingest's partitions need
    └─────────────┴───────────┴──────────┘

Ingests come one after the other, partitions of one ingest in their order, rows as they stand in the partition.

Where rows may be in any bucket, blocks of neighbours take turns, so that a bucket can read its blocks of a file and leave out the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.kernels.compiled import Ints
from millstream.kernels.hashing import dealt

_LOW_BITS = 32
_BLOCK_BITS = 15
"""A million rows are 30 blocks: that is even enough, and row groups any smaller cost more to write."""
_RUN_BITS = 20
"""After so many rows, and at each ingest, another bucket begins; or small ingests would all be in the first."""
_FEW = 64
"""Of more blocks than that each bucket has one, near enough."""
_LEAST_ROWS = 1 << 14
"""A part of a file with fewer is not worth leaving out: small ingests that are in one file have a block each."""


def sequence_numbers(ingest_number: int, partition: int, partitions: int, rows: int) -> npt.NDArray[np.int64]:
    """The numbers of the `rows` rows of one partition of one ingest."""
    row_bits = _LOW_BITS - (partitions - 1).bit_length()
    assert 0 <= partition < partitions, f"partition {partition} of {partitions}"
    assert 0 <= ingest_number < 1 << 31, f"ingest number {ingest_number} does not fit"
    if rows > 1 << row_bits:
        raise ValueError(f"{rows} rows in one of {partitions} partitions are more than {1 << row_bits}: ingest them in smaller batches")
    first = (ingest_number << _LOW_BITS) | (partition << row_bits)
    return np.arange(first, first + rows, dtype=np.int64)


def buckets_of(seq: Ints, buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each row, by nothing but its number."""
    return dealt(seq, _RUN_BITS, _BLOCK_BITS, buckets)


def block_starts(seq: Ints) -> list[int]:
    """Where rows of another block begin, after enough of the one before."""
    starts = np.flatnonzero(np.diff(seq >> _BLOCK_BITS)) + 1
    found: list[int] = []
    while (next_ := int(np.searchsorted(starts, (found[-1] if found else 0) + _LEAST_ROWS))) < len(starts):
        found.append(int(starts[next_]))
    return found


def may_have(bucket: int, buckets: int, least: int, greatest: int) -> bool:
    """Whether numbers between these may be of the bucket."""
    first, last = least >> _BLOCK_BITS, greatest >> _BLOCK_BITS
    return last - first >= _FEW or bool((buckets_of(np.arange(first, last + 1) << _BLOCK_BITS, buckets) == bucket).any())
