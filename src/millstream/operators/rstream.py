"""RSTREAM: the whole relation, again and again, at every instant at which something moves.

"Something" is a row entering or leaving one of the query's windows, whether or not the answer
changes by it.  The relation is kept as (row, copies); at each moment it is emitted in full, so a
step costs the size of its output, which is what RSTREAM asks for.

    changes of the relation ──► _relation (Arrow rows, compacted) ──┐
    moments (distinct instants) ────────────────────────────────────┴─► one copy of it per moment
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.instant import BEGINNING
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, concat
from millstream.operators.net import net_rows
from millstream.operators.to_stream import distinct_instants


class RStreamOp:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._relation = SignedBatch.empty(schema).rows

    def step(self, changes: SignedBatch, moments: list[SignedBatch]) -> SignedBatch:
        at = distinct_instants(moments)
        if len(at) == 0 and len(changes) == 0:
            return SignedBatch.empty(self.schema)
        history = concat([_as_changes(self._relation), changes])
        self._relation = net_rows(history.rows, history.sign)
        if len(at) == 0:
            return SignedBatch.empty(self.schema)
        return concat([self._at(instant, history) for instant in at.tolist()])

    def _at(self, instant: int, history: SignedBatch) -> SignedBatch:
        until = int(np.searchsorted(history.instant, instant, side="right"))
        rows = net_rows(history.rows.slice(0, until), history.sign[:until])
        return SignedBatch.arrivals(np.full(rows.num_rows, instant, np.int64), rows)


def _as_changes(rows: pa.RecordBatch) -> SignedBatch:
    beginning: Instants = np.full(rows.num_rows, BEGINNING, np.int64)
    return SignedBatch.arrivals(beginning, rows)
