"""Arrival order across partitions that are written at the same time: the numbers in `_seq`.

    63          32 31                    0
    ┌─────────────┬───────────┬──────────┐
    │ ingest      │ partition │ row      │      as many partition bits as this ingest's partitions need
    └─────────────┴───────────┴──────────┘

Ingests come one after the other, partitions of one ingest in their order, rows as they stand in the partition.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_LOW_BITS = 32


def sequence_numbers(ingest_number: int, partition: int, partitions: int, rows: int) -> npt.NDArray[np.int64]:
    """The numbers of the `rows` rows of one partition of one ingest."""
    row_bits = _LOW_BITS - (partitions - 1).bit_length()
    assert 0 <= partition < partitions, f"partition {partition} of {partitions}"
    assert 0 <= ingest_number < 1 << 31, f"ingest number {ingest_number} does not fit"
    if rows > 1 << row_bits:
        raise ValueError(f"{rows} rows in one of {partitions} partitions are more than {1 << row_bits}: ingest them in smaller batches")
    first = (ingest_number << _LOW_BITS) | (partition << row_bits)
    return np.arange(first, first + rows, dtype=np.int64)
