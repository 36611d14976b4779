"""Windows by count of each partition: its newest n rows, and with RANGE no older than that (newest_rows.py: of all).

Rows come in the order of their timestamps and, inside an instant, of arrival, which decides who is newer.  Of those that come in a
step the ones that are still in the window at its end are kept, in that order:

          batch ──┬──► slide ──► changes: rows of the batch, and rows that were kept
                  └──► settle ──► _chunks, oldest first; what has left is swept when it is a third of them

So a step costs its changes, and memory is that of the window and half of it more.
Of many rows at one instant some come and go and do not show.  Apart from these the output is not netted.
"""

from __future__ import annotations

from itertools import pairwise

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
_LARGEST_CHUNK = 1 << 28
"""Bytes of a chunk that is made of others: one array of strings cannot be larger than eight times that."""


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
        first, entering = self._count, len(batch)
        self._number(batch.instant, batch.rows)
        most = 2 * entering + (first + entering - self._expired if self._spec.range_us is not None else 0)
        before, row = np.empty(entering, np.int64), np.empty(most, np.int64)
        sign, instant = np.empty(most, np.int8), np.empty(most, np.int64)
        n, expired = row_lists.slide(
            first, entering, self._expired, self._spec.rows, self._length, frontier, self._rows, self._parts, before, row, sign, instant
        )  # fmt: skip
        changes = SignedBatch(instant[:n], sign[:n], self._changed(row[:n], batch.rows))
        self._live_rows += int(sign[:n].sum())
        self._keys.release(row_lists.emptied(row[:n], self._rows, self._parts))
        self._keep(batch.rows, row_lists.settle(first, entering, self._rows, self._parts, before))
        self._expired = min(expired, first)  # those that came and have expired are not kept
        if self._count >= max(_WORTH_SWEEPING, 1.5 * self._live_rows):
            self._sweep()
        return changes

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        self._sweep()
        return pa.concat_batches(self._chunks) if self._chunks else SignedBatch.empty(self.schema).rows

    def save(self) -> Arrays:
        """Each chunk by itself: all of them as one array may be too large, and would be in memory a second time."""
        self._sweep()
        chunks = {f"rows.{i}": arrow_buffers.to_bytes(chunk.columns) for i, chunk in enumerate(self._chunks)}
        return {"ts": self._rows[: self._count, TS].copy(), **chunks}

    def load(self, arrays: Arrays) -> None:
        """Older snapshots have all rows as one chunk."""
        saved = [arrays["rows"]] if "rows" in arrays else [arrays[f"rows.{i}"] for i in range(len(arrays) - 1)]
        chunks = [pa.RecordBatch.from_arrays(arrow_buffers.from_bytes(each), schema=self.schema.to_arrow()) for each in saved]
        for chunk in chunks:
            self._number(arrays["ts"][self._count : self._count + len(chunk)], chunk)
            self._keep(chunk, np.arange(len(chunk)))
        row_lists.restore(self._count, self._rows, self._parts)
        self._live_rows = self._count

    def state_rows(self) -> int:
        return self._live_rows

    def _number(self, ts: Ints, rows: pa.RecordBatch) -> None:
        """The rows get the numbers after those that are kept."""
        codes = self._keys.encode([rows.column(name) for name in self._spec.partition_by])
        if self._keys.capacity > len(self._parts):
            self._parts = _grown(self._parts, self._keys.capacity)
        stop = self._count + len(ts)
        if stop > len(self._rows):
            self._rows = _grown(self._rows, max(stop, 2 * len(self._rows)))
        self._rows[self._count : stop, PART] = codes
        self._rows[self._count : stop, TS] = ts
        self._rows[self._count : stop, LIVE] = 0

    def _keep(self, rows: pa.RecordBatch, kept: Ints) -> None:
        """These of the rows are kept, and have their numbers."""
        if not len(kept):
            return
        self._count += len(kept)
        # a slice would keep all that it is a slice of
        whole = len(kept) == len(rows) and rows.get_total_buffer_size() <= 1.25 * rows.nbytes
        self._chunks.append(rows if whole else rows.take(pa.array(kept)))
        while len(self._chunks) > _MOST_CHUNKS:
            i = int(np.argmin([one.num_rows + other.num_rows for one, other in pairwise(self._chunks)]))
            if self._chunks[i].nbytes + self._chunks[i + 1].nbytes > _LARGEST_CHUNK:
                break
            self._chunks[i : i + 2] = [pa.concat_batches(self._chunks[i : i + 2])]

    def _changed(self, row: Ints, arriving: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with these numbers, of which those from _count on are arriving."""
        place, kept = row - self._count, np.flatnonzero(row < self._count)
        if not len(kept):
            return arriving if np.array_equal(place, np.arange(len(arriving))) else arriving.take(pa.array(place))
        ascending = kept[np.argsort(row[kept])]  # as they lie in memory
        place[ascending] = len(arriving) + np.arange(len(kept))
        return pa.concat_batches([arriving, *self._taken(row[ascending])]).take(pa.array(place))

    def _taken(self, numbers: Ints) -> list[pa.RecordBatch]:
        """The kept rows with these numbers, ascending.  Arrow's own take over chunks copies all of them first."""
        starts = np.cumsum([0, *(chunk.num_rows for chunk in self._chunks)])
        parts = zip(self._chunks, starts[:-1], np.split(numbers, np.searchsorted(numbers, starts[1:-1])), strict=True)
        return [chunk.take(pa.array(mine - start)) for chunk, start, mine in parts if len(mine)]

    def _sweep(self) -> None:
        """Forgets the rows that have left, chunk by chunk, so that there are never two of all, and numbers the others anew."""
        if self._count == self._live_rows:
            return
        live = self._rows[: self._count, LIVE] == 1
        chunks, self._chunks, start = self._chunks[::-1], [], 0
        while chunks:
            chunk = chunks.pop()
            mine = live[start : start + chunk.num_rows]
            start += chunk.num_rows
            if mine.any():
                self._chunks.append(chunk if mine.all() else chunk.filter(pa.array(mine)))
        self._rows = self._rows[: self._count][live]
        self._count = len(self._rows)
        self._expired = 0
        self._parts[:] = 0
        row_lists.restore(self._count, self._rows, self._parts)


def _grown(places: Ints, length: int) -> Ints:
    larger = np.zeros((length, places.shape[1]), np.int64)
    larger[: len(places)] = places
    return larger
