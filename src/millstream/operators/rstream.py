"""RSTREAM: the whole relation, again and again, at every instant at which something moves.

"Something" is a row entering or leaving one of the query's windows, whether or not the answer changes by
it.  A step costs the size of the relation and of its output, which is what RSTREAM asks for.

For each distinct row the changes are a staircase of copies over time; at every moment under a stair
the row is emitted that many times:

    copies   2       ┌────┐
             1  ┌────┘    └──────┐          moments  x    x  x x    x
             0 ─┘                └──        emits    1    2  1 1    0
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.instant import BEGINNING
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, concat
from millstream.kernels.key_table import KeyTable
from millstream.operators.operator import Arrays


class RStreamOp:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._relation = SignedBatch.empty(schema).rows

    def step(self, changes: SignedBatch, moments: list[SignedBatch]) -> SignedBatch:
        at = np.unique(np.concatenate([moment.instant for moment in moments]))
        if len(at) == 0 and len(changes) == 0:
            return SignedBatch.empty(self.schema)
        held: Instants = np.full(self._relation.num_rows, BEGINNING - 1, np.int64)
        history = concat([SignedBatch.arrivals(held, self._relation), changes])
        if len(history) == 0:
            return SignedBatch.empty(self.schema)
        row, start, end, copies = self._stairs(history)
        still = end == _OPEN
        self._relation = _repeated(history.rows, row[still], copies[still])
        return _emitted(history.rows, at, row, start, end, copies)

    def _stairs(self, history: SignedBatch) -> tuple[Instants, Instants, Instants, Instants]:
        """For each row and each stretch of time in which its number of copies is constant: (row, start, end, copies)."""
        code = KeyTable([field.type for field in self.schema]).encode(history.rows.columns)
        order = np.lexsort((history.instant, code))
        code, instant = code[order], history.instant[order]
        total = np.cumsum(history.sign[order].astype(np.int64))
        last = np.append((code[1:] != code[:-1]) | (instant[1:] != instant[:-1]), True)  # of its row and instant
        code, instant, total, row = code[last], instant[last], total[last], order[last]
        first = np.append(True, code[1:] != code[:-1])
        begin = np.maximum.accumulate(np.where(first, np.arange(len(code)), 0))
        copies = total - np.append(0, total[:-1])[begin]  # the running total counts from the first staircase on
        end = np.append(np.where(first[1:], _OPEN, instant[1:]), _OPEN)
        kept = copies > 0
        return row[kept], instant[kept], end[kept], copies[kept]

    def state_rows(self) -> int:
        return int(self._relation.num_rows)

    def save(self) -> Arrays:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._relation.schema) as writer:
            writer.write_batch(self._relation)
        return {"relation": np.frombuffer(sink.getvalue(), np.uint8)}

    def load(self, arrays: Arrays) -> None:
        self._relation = pa.ipc.open_stream(pa.py_buffer(arrays["relation"].tobytes())).read_next_batch()


_OPEN = 2**62
"""The end of a stretch that has not ended."""


def _repeated(rows: pa.RecordBatch, row: Instants, copies: Instants) -> pa.RecordBatch:
    return rows.take(pa.array(np.repeat(row, copies)))


def _emitted(rows: pa.RecordBatch, at: Instants, row: Instants, start: Instants, end: Instants, copies: Instants) -> SignedBatch:
    low, high = np.searchsorted(at, start), np.searchsorted(at, end)
    span = high - low
    stair = np.repeat(np.arange(len(row)), span)
    moment = np.arange(len(stair)) - np.repeat(np.cumsum(span) - span, span) + low[stair]
    each = copies[stair]
    stair, moment = np.repeat(stair, each), np.repeat(moment, each)
    order = np.argsort(moment, kind="stable")
    return SignedBatch.arrivals(at[moment[order]], rows.take(pa.array(row[stair[order]])))
