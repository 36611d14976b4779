"""Negation: what enters leaves, what leaves enters.  Keeps no state."""

from __future__ import annotations

import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.operator import Contents, Operator


class NegateOp(Operator):
    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        return SignedBatch(batch.instant, -batch.sign, batch.rows)

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        raise InternalError("rows that are taken away are no relation")
