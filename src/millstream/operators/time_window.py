"""Time-based windows: a stream becomes a changing relation.

Every such window is two nondecreasing functions of a row's timestamp (plan/window.py): the
instant at which it enters and the instant at which it is gone.  Both are known the moment the
row arrives, so a step costs O(rows that enter + rows that go), whatever the window holds.

     arrivals ──► waiting (only if rows enter later than they arrive) ──► +  ──┐
                              └────────────► live ──────────────────────► -  ──┴─► merged by instant

Both queues are in timestamp order, so what enters and what goes is always a prefix.
Inside one instant, rows leave before others enter.

With `says_until` rows carry the instant at which they are gone instead, and only enter: whoever reads them takes them out.

The live rows are a cache of the stream's log: snapshots do not hold them.  After a restart the
circuit gives them back through `prime`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, merge_by_instant
from millstream.operators.operator import Contents, Operator
from millstream.plan.window import TimeWindow


class HeldRows(Protocol):
    """Rows in timestamp order, appended at the end and taken from the front: the window's own, or a view of rows kept elsewhere."""

    rows: int

    def append(self, ts: Instants, rows: pa.RecordBatch) -> None: ...

    def pop_before(self, bound: Micros) -> list[tuple[Instants, pa.RecordBatch]]: ...

    def to_batch(self, schema: Schema) -> pa.RecordBatch: ...


class RowQueue:
    """Rows in timestamp order, appended at the end and taken from the front, without copying them."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[Instants, pa.RecordBatch]] = deque()
        self.rows = 0
        self.nbytes = 0  # counted as rows come and go: there may be as many chunks as rows

    def append(self, ts: Instants, rows: pa.RecordBatch) -> None:
        if len(ts):
            self._chunks.append((ts, rows))
            self.rows += len(ts)
            self.nbytes += ts.nbytes + rows.nbytes

    def pop_before(self, bound: Micros) -> list[tuple[Instants, pa.RecordBatch]]:
        """All rows with ts < bound, oldest first: whole chunks, then one slice."""
        taken = []
        while self._chunks and self._chunks[0][0][0] < bound:
            ts = self._chunks[0][0]
            taken.append(self._pop_of_first_chunk(len(ts) if ts[-1] < bound else int(np.searchsorted(ts, bound, side="left"))))
        return taken

    def pop_first(self, count: int) -> list[tuple[Instants, pa.RecordBatch]]:
        """So many rows, oldest first."""
        taken = []
        while count:
            taken.append(self._pop_of_first_chunk(min(count, len(self._chunks[0][0]))))
            count -= len(taken[-1][0])
        return taken

    def chunks(self) -> list[tuple[Instants, pa.RecordBatch]]:
        return list(self._chunks)

    def to_batch(self, schema: Schema) -> pa.RecordBatch:
        chunks = [rows for _, rows in self._chunks]
        return pa.concat_batches(chunks) if chunks else SignedBatch.empty(schema).rows

    def _pop_of_first_chunk(self, n: int) -> tuple[Instants, pa.RecordBatch]:
        ts, rows = self._chunks.popleft()
        self.nbytes -= ts.nbytes + rows.nbytes
        if n < len(ts):
            self._chunks.appendleft((ts[n:], rows.slice(n)))
            self.nbytes += ts[n:].nbytes + rows.slice(n).nbytes
        self.rows -= n
        return ts[:n], rows.slice(0, n)


class TimeWindowOp(Operator):
    def __init__(self, schema: Schema, spec: TimeWindow, hold: Callable[[], HeldRows] = RowQueue, *, says_until: bool = False) -> None:
        self.schema = schema
        self.spec = spec
        self._says_until = says_until
        self._forgets = spec.grows_only or says_until
        self._waiting = hold()
        self._live = hold()

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        assert len(batch) == 0 or (batch.sign > 0).all(), "a window's input is a stream: rows only arrive"
        ts, rows = self._admitted(batch.instant, batch.rows)
        if self.spec.enters_on_arrival:
            entering = [(ts, rows)] if len(ts) else []
        else:
            self._waiting.append(ts, rows)
            entering = self._waiting.pop_before(self.spec.first_entering_after(frontier))
        if not self._forgets:
            for entered_ts, entered_rows in entering:
                self._live.append(entered_ts, entered_rows)
        leaving = [] if self._forgets else self._live.pop_before(self.spec.first_gone_after(frontier))
        changes = [_signed(self.spec.gone(old), -1, rows) for old, rows in leaving]
        changes += [_signed(self.spec.enters(new), +1, rows, self.spec.gone(new) if self._says_until else None) for new, rows in entering]
        return merge_by_instant(changes) if changes else SignedBatch.empty(self.schema)

    def prime(self, ts: Instants, rows: pa.RecordBatch, frontier: Micros) -> None:
        """Take back the rows with ts <= frontier that a past run had received: what they changed has been emitted already."""
        ts, rows = self._admitted(ts, rows)
        entered = int(np.searchsorted(ts, self.spec.first_entering_after(frontier), side="left"))
        self._waiting.append(ts[entered:], rows.slice(entered))
        if not self._forgets:
            gone = min(entered, int(np.searchsorted(ts, self.spec.first_gone_after(frontier), side="left")))
            self._live.append(ts[gone:entered], rows.slice(gone, entered - gone))

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        if self._forgets:
            raise NotSupported("this window does not keep its rows: the log does, or whoever reads it")
        return self._live.to_batch(self.schema)

    def state_rows(self) -> int:
        return self._live.rows + self._waiting.rows

    def _admitted(self, ts: Instants, rows: pa.RecordBatch) -> tuple[Instants, pa.RecordBatch]:
        kept = self.spec.admits(ts)
        if kept is None or kept.all():
            return ts, rows
        return ts[kept], rows.filter(pa.array(kept))


def _signed(instant: Instants, sign: int, rows: pa.RecordBatch, until: Instants | None = None) -> SignedBatch:
    return SignedBatch(instant, np.full(len(instant), sign, np.int8), rows, until)
