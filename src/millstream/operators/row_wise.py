"""Filter and projection: each row on its own, no state.  Works on changes and on raw rows of the log alike."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.schema import Schema
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
    def __init__(self, schema: Schema, columns: Sequence[ComputedColumn], evaluator: Evaluator, calls: Sequence[FunctionCall] = ()) -> None:
        self.schema = schema
        self._columns = [(column.name, column.sql, column.type) for column in columns]
        self._calls = calls
        self._evaluator = evaluator

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        return batch.with_rows(self.contents(lambda: batch.rows))

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        return self._evaluator.project(input_contents(), self._columns, self._calls)
