"""Filter and projection: each row on its own, no state.  Works on changes and on raw rows of the log alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.instant import Micros
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.evaluator import Evaluator
from millstream.operators.operator import Contents, Operator
from millstream.plan.physical import ComputedColumn, FunctionCall


class FilterOp(Operator):
    def __init__(self, schema: Schema, predicate_sql: str, evaluator: Evaluator, calls: Sequence[FunctionCall] = ()) -> None:
        self.schema = schema
        self._predicate_sql = predicate_sql
        self._calls = calls
        self._evaluator = evaluator

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        if len(batch) == 0:
            return batch
        return batch.filter(self._evaluator.mask(batch.rows, self._predicate_sql, self._calls))

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        rows = input_contents()
        return rows.filter(pa.array(self._evaluator.mask(rows, self._predicate_sql, self._calls))) if rows.num_rows else rows


class ProjectOp(Operator):
    def __init__(
        self, schema: Schema, columns: Sequence[ComputedColumn], evaluator: Evaluator, calls: Sequence[FunctionCall] = (),
        *, may_be_idle: bool = False,
    ) -> None:  # fmt: skip
        self.schema = schema
        self._may_be_idle = may_be_idle and all(map(_can_be_compared, schema))
        self._columns = [(column.name, column.sql, column.type) for column in columns]
        self._calls = calls
        self._evaluator = evaluator

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        projected = batch.with_rows(self.contents(lambda: batch.rows))
        return without_idle_changes(projected) if self._may_be_idle and batch.until is None else projected

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        return self._evaluator.project(input_contents(), self._columns, self._calls)


def without_idle_changes(batch: SignedBatch) -> SignedBatch:
    """Without neighbours that take a row away and bring the same one, at the same instant.  A row with NULL or NaN may stay."""
    before, after = slice(None, -1), slice(1, None)
    idle = (batch.sign[before] < 0) & (batch.sign[after] > 0) & (batch.instant[before] == batch.instant[after])
    for column in batch.rows.columns:
        if idle.any():
            idle &= _same(column.slice(0, len(column) - 1), column.slice(1))
    if not idle.any():
        return batch
    kept = np.ones(len(batch), np.bool_)
    kept[before] &= ~idle
    kept[after] &= ~idle
    return batch.filter(kept)


def _can_be_compared(field: Field) -> bool:
    """Whether Arrow compares values of the type, and equal ones are the same: 0.0 and -0.0 are not."""
    return not any(is_such(field.type) for is_such in (pa.types.is_nested, pa.types.is_floating, pa.types.is_null, pa.types.is_interval))


def _same(one: pa.Array, other: pa.Array) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
    return same
