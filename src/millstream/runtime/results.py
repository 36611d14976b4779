"""From changes to relations: what a changelog adds up to, and what a relation was before its last changes.

Tables of changes have the columns instant, diff, then the query's own, which may share names: all goes by position.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch, Signs
from millstream.operators.net import NetOp


def net_rows(rows: pa.RecordBatch, sign: Signs) -> pa.RecordBatch:
    """The bag that the signed rows add up to."""
    changes = SignedBatch(np.zeros(len(sign), np.int64), sign, rows)
    left = NetOp(Schema.from_arrow(rows.schema)).step(changes, 0)
    assert (left.sign > 0).all(), "a row was retracted that had never been inserted"
    return left.rows


def own_columns(changes: pa.Table) -> pa.Table:
    """What changed: of a stream, its elements in order."""
    return changes.select(list(range(2, changes.num_columns)))


def undone(now: pa.Table, later: pa.Table) -> pa.Table:
    """The relation before the changes `later` made it what it is `now`."""
    back = by_position(own_columns(later))
    rows = pa.concat_tables([by_position(now), back])
    sign = np.concatenate([np.ones(now.num_rows, np.int8), -later.column(1).to_numpy()])
    return _renamed(net_rows(one_batch(rows), sign), now.column_names)


def by_position(table: pa.Table) -> pa.Table:
    """With names that do not repeat."""
    return table.rename_columns([f"c{i}" for i in range(table.num_columns)])


def _renamed(rows: pa.RecordBatch, names: list[str]) -> pa.Table:
    return pa.Table.from_batches([rows]).rename_columns(names)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    schema = Schema(tuple(Field(field.name, field.type) for field in table.schema))
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else SignedBatch.empty(schema).rows
