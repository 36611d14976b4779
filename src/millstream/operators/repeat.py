"""Rows that stand for several copies of themselves.  Keeps no state; the output is not netted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.operator import Contents, Operator


class RepeatOp(Operator):
    def __init__(self, schema: Schema, copies: str) -> None:
        self.schema = schema
        self._copies = copies

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        copies = batch.rows.column(self._copies).to_numpy(zero_copy_only=False)
        rows = batch.rows.select(list(self.schema.names))
        return batch.with_rows(rows).take(np.repeat(np.arange(len(batch)), copies))

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        raise InternalError("copies are not kept")
