"""ISTREAM and DSTREAM: the insertions, or the deletions, of a relation as a stream.

Contract: the input is netted, so a row that leaves and comes back at the same instant is in neither.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.operator import Contents, Operator


class ToStreamOp(Operator):
    def __init__(self, schema: Schema, kind: Literal["istream", "dstream"]) -> None:
        self.schema = schema
        self._wanted_sign = 1 if kind == "istream" else -1

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        wanted = batch.sign == self._wanted_sign
        if wanted.all():
            rows, instant = batch.rows, batch.instant
        else:
            rows, instant = batch.rows.filter(pa.array(wanted)), batch.instant[wanted]
        return SignedBatch.arrivals(instant, rows)

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        raise AssertionError("a stream has elements, not contents")
