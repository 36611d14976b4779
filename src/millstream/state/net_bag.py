"""What is left of rows that came and went.  Two NULLs are equal here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.state.disk_types import disk_type

Counts = npt.NDArray[np.int64]


def netted(rows: pa.Table, counts: Counts) -> tuple[pa.Table, Counts]:
    """The same bag with each row that is there or owed (a count below zero) once, in the order of first arrival.

    Rows are left as they are while none was ever taken away.
    """
    if (counts > 0).all():
        return rows if rows.column(0).num_chunks < 64 else rows.combine_chunks(), counts
    keys = [_comparable(column) for column in rows.columns]
    names = [f"key{i}" for i in range(len(keys))]
    signed = pa.table([*keys, pa.array(counts), pa.array(np.arange(len(counts)))], names=[*names, "count", "row"])
    groups = signed.group_by(names, use_threads=False).aggregate([("count", "sum"), ("row", "min")])
    total, first = groups.column("count_sum").to_numpy(), groups.column("row_min").to_numpy()
    order = np.argsort(first, kind="stable")
    order = order[total[order] != 0]
    return rows.take(pa.array(first[order])), total[order]


def expanded(rows: pa.Table, counts: Counts) -> pa.Table:
    """Each row as often as it is there.  A count below zero (deleted at two instants) is none: a bag owes nothing."""
    if (counts == 1).all():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(counts)), np.maximum(counts, 0))))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Arrow groups flat values only; nested ones are compared by their text."""
    if pa.types.is_nested(column.type):
        return pa.chunked_array([pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())])
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), pa.bool_())])
    return column.cast(disk_type(column.type))
