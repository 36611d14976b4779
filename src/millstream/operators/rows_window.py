"""Windows by count of each partition: its newest n rows, and with RANGE no older than that (newest_rows.py: of all).

Rows come in the order of their timestamps and, inside an instant, of arrival, which decides who is newer.  The rows of the window
are kept in that order; those that have left are swept when they are the greater part, so a step costs its changes.
The output is not netted: of many rows at one instant some come and go.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels import arrow_buffers, row_lists
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.row_lists import LIVE, PART, TS
from millstream.operators.operator import Arrays, Contents, Operator
from millstream.plan.window import RowsWindow

_WORTH_SWEEPING = 4096
_MOST_CHUNKS = 32


class RowsWindowOp(Operator):
    def __init__(self, schema: Schema, spec: RowsWindow) -> None:
        self.schema = schema
        self._spec = spec
        self._keys = KeyTable([schema[name].type for name in spec.partition_by])
        self._length = row_lists.NEVER if spec.range_us is None else spec.range_us + 1
        self._chunks: list[pa.RecordBatch] = []
        self._count = 0  # of rows that are kept, in the window or not
        self._live_rows = 0
        self._expired = 0
        self._rows: Ints = np.zeros((0, 4), np.int64)
        self._parts: Ints = np.zeros((1, 3), np.int64)

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        assert len(batch) == 0 or (batch.sign > 0).all(), "a window's input is a stream: rows only arrive"
        first = self._count
        self._append(batch.instant, batch.rows)
        most = 2 * len(batch) + (self._count - self._expired if self._spec.range_us is not None else 0)
        row, sign, instant = np.empty(most, np.int64), np.empty(most, np.int8), np.empty(most, np.int64)
        n, self._expired = row_lists.slide(
            first, len(batch), self._expired, self._spec.rows, self._length, frontier, self._rows, self._parts, row, sign, instant
        )  # fmt: skip
        changes = SignedBatch(instant[:n], sign[:n], self._take(row[:n]))
        self._live_rows += int(sign[:n].sum())
        self._keys.release(row_lists.emptied(row[:n], self._rows, self._parts))
        self._maybe_sweep()
        return changes

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        return self._take(self._live())

    def save(self) -> Arrays:
        live = self._live()
        return {"ts": self._rows[live, TS], "rows": arrow_buffers.to_bytes(self._take(live).columns)}

    def load(self, arrays: Arrays) -> None:
        columns = arrow_buffers.from_bytes(arrays["rows"])
        self._append(arrays["ts"], pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))
        row_lists.restore(self._count, self._rows, self._parts)
        self._live_rows = self._count

    def state_rows(self) -> int:
        return self._live_rows

    def _live(self) -> Ints:
        return np.flatnonzero(self._rows[: self._count, LIVE])

    def _append(self, ts: Ints, rows: pa.RecordBatch) -> None:
        stop = self._count + len(ts)
        if stop > len(self._rows):
            self._rows = _grown(self._rows, max(stop, 2 * len(self._rows)))
        self._rows[self._count : stop, PART] = self._partition(rows)
        self._rows[self._count : stop, TS] = ts
        self._rows[self._count : stop, LIVE] = 0
        self._count = stop
        if len(ts):
            self._chunks.append(rows)
        while len(self._chunks) > _MOST_CHUNKS:
            i = int(np.argmin([one.num_rows + other.num_rows for one, other in zip(self._chunks, self._chunks[1:], strict=False)]))
            self._chunks[i : i + 2] = [pa.concat_batches(self._chunks[i : i + 2])]

    def _partition(self, rows: pa.RecordBatch) -> Ints:
        codes = self._keys.encode([rows.column(name) for name in self._spec.partition_by])
        if self._keys.capacity > len(self._parts):
            self._parts = _grown(self._parts, self._keys.capacity)
        return codes

    def _take(self, places: Ints) -> pa.RecordBatch:
        if not len(places):
            return SignedBatch.empty(self.schema).rows
        # Arrow's own take over chunks copies all of them first
        starts = np.cumsum([0, *(chunk.num_rows for chunk in self._chunks)])
        chunk = np.searchsorted(starts, places, side="right") - 1
        order = np.argsort(chunk, kind="stable")
        touched, first = np.unique(chunk[order], return_index=True)
        parts = [
            self._chunks[i].take(pa.array(mine - starts[i])) for i, mine in zip(touched, np.split(places[order], first[1:]), strict=True)
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_batches(parts).take(pa.array(back))

    def _maybe_sweep(self) -> None:
        """Numbers the rows anew when most of them have left."""
        if self._count < max(_WORTH_SWEEPING, 2 * self._live_rows):
            return
        live = self._live()
        kept = self._take(live)
        ts, self._chunks, self._count = self._rows[live, TS].copy(), [], 0
        self._parts[:] = 0
        self._expired = 0
        self._append(ts, kept)
        row_lists.restore(self._count, self._rows, self._parts)


def _grown(places: Ints, length: int) -> Ints:
    larger = np.zeros((length, places.shape[1]), np.int64)
    larger[: len(places)] = places
    return larger
