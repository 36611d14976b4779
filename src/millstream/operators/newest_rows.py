"""Windows by count over all rows: the newest n, and with RANGE no older than that.

Rows come in the order of their timestamps and, inside an instant, of arrival, which decides who is newer.  So rows leave in the order
in which they came: row i when row i + n enters or when its time is over, whichever is earlier.  What leaves is always a prefix of
what is held, and a step costs its changes.
The output is not netted: of many rows at one instant some come and go.

The rows may be held elsewhere (`hold`).  Snapshots have them, since the log need not keep what is old; after a restart those of the
snapshot are the window's own until they have left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from millstream.core.instant import GONE_NEVER, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, merge_by_instant
from millstream.kernels import arrow_buffers
from millstream.operators.operator import Arrays, Contents, Operator
from millstream.operators.time_window import HeldRows, RowQueue
from millstream.plan.window import RowsWindow


class CountedRows(HeldRows, Protocol):
    """Rows that are also taken by their number."""

    def pop_first(self, count: int) -> list[tuple[Instants, pa.RecordBatch]]: ...

    def chunks(self) -> list[tuple[Instants, pa.RecordBatch]]: ...


class NewestRowsOp(Operator):
    def __init__(self, schema: Schema, spec: RowsWindow, hold: Callable[[], CountedRows] = RowQueue) -> None:
        assert not spec.partition_by
        self.schema = schema
        self._most = spec.rows
        self._length = None if spec.range_us is None else spec.range_us + 1
        self._restored = RowQueue()  # all older than those that are held
        self._held = hold()

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        assert len(batch) == 0 or (batch.sign > 0).all(), "a window's input is a stream: rows only arrive"
        before = self.state_rows()
        self._held.append(batch.instant, batch.rows)
        leaving = [] if self._length is None else self._pop_before(frontier - self._length + 1)
        leaving += self._pop_first(self.state_rows() - self._most)
        changes = [batch]  # first, so that what enters and leaves at one instant does so in this order
        if leaving:
            ts = np.concatenate([ts for ts, _ in leaving])
            rows = pa.concat_batches([rows for _, rows in leaving])
            changes.append(SignedBatch(self._gone(ts, batch.instant[self._most - before :]), np.full(len(ts), -1, np.int8), rows))
        return merge_by_instant(changes)

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        return self._all()[1]

    def save(self) -> Arrays:
        ts, rows = self._all()
        return {"ts": ts, "rows": arrow_buffers.to_bytes(rows.columns)}

    def load(self, arrays: Arrays) -> None:
        columns = arrow_buffers.from_bytes(arrays["rows"])
        self._restored.append(arrays["ts"], pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))

    def state_rows(self) -> int:
        return self._restored.rows + self._held.rows

    def _gone(self, ts: Instants, displacing: Instants) -> Instants:
        """When each of the rows that leave does; `displacing` are the timestamps of rows that enter beyond the n-th, one for each of
        the first that leave."""
        gone = np.full(len(ts), GONE_NEVER, np.int64) if self._length is None else ts + self._length
        displaced = min(len(ts), len(displacing))
        gone[:displaced] = np.minimum(gone[:displaced], displacing[:displaced])
        return gone

    def _pop_before(self, bound: Micros) -> list[tuple[Instants, pa.RecordBatch]]:
        return [*self._restored.pop_before(bound), *self._held.pop_before(bound)]

    def _pop_first(self, count: int) -> list[tuple[Instants, pa.RecordBatch]]:
        restored = min(count, self._restored.rows)
        return [*self._restored.pop_first(restored), *self._held.pop_first(count - restored)] if count > 0 else []

    def _all(self) -> tuple[Instants, pa.RecordBatch]:
        chunks = [*self._restored.chunks(), *self._held.chunks()]
        nothing = SignedBatch.empty(self.schema)
        ts, rows = zip(*(chunks or [(nothing.instant, nothing.rows)]), strict=True)
        return np.concatenate(ts), pa.concat_batches(rows)
