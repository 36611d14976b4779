"""Who reads from a store (source_store.py): readers, which know how far they have come, and the stubs of their windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, concat
from millstream.plan.shared_reading import Picked
from millstream.plan.window import TimeWindow, WindowSpec
from millstream.runtime.messages import SourceFeed
from millstream.runtime.nodes import Profile
from millstream.runtime.source_store import Read, SourceStore

Owner = tuple[str, int]
"""Of a reader: incarnation, fragment."""


class WindowHold:
    """How a window gets its stubs: one for rows that have yet to enter it, one for those that are in it."""

    def __init__(self, reader: StoreReader, spec: WindowSpec) -> None:
        self._reader, self._spec = reader, spec
        self.stubs: list[WindowStub] = []

    def __call__(self) -> WindowStub:
        self.stubs.append(WindowStub(self._reader, self._spec))
        return self.stubs[-1]


class StoreReader:
    """One source of a fragment, or of several in one circuit: how far it has come, which columns it picks, and the stubs of its windows."""

    def __init__(self, store: SourceStore, picked: Picked, schema: Schema, at: Micros, taken: int, owner: Owner) -> None:
        self._reported = {owner: Profile()}  # at first: all that was read before it came
        self.taken = taken
        self._store = store
        self._at = at
        self._columns = picked
        self._picked = [column for column, _ in picked]
        self._schema = schema
        self._arrow = schema.to_arrow()
        self._holds: list[WindowHold] = []
        store.readers.add(self)

    def take_in(self, feed: SourceFeed, read: Read) -> None:
        if feed.upto > self.taken:  # a rebuilt cache has them already
            self._store.take_in(feed, read)
            self.taken = feed.upto

    def release(self, frontier: Micros) -> SignedBatch:
        """The rows that it has not seen yet up to the frontier, by (ts, arrival)."""
        self._store.advance(frontier)
        found = self.between(self._at + 1, frontier)
        self._at = max(self._at, frontier)
        return concat(found) if found else SignedBatch.empty(self._schema)

    def between(self, low: Micros, high: Micros) -> list[SignedBatch]:
        return [self._own(batch) for batch in self._store.between(low, high)]

    def first(self, low: Micros, skipped: int, count: int) -> list[SignedBatch]:
        return [self._own(batch) for batch in self._store.first(low, skipped, count)]

    def window(self, spec: WindowSpec) -> WindowHold:
        self._holds.append(WindowHold(self, spec))
        return self._holds[-1]

    def let_go(self, hold: WindowHold) -> None:
        """Of a window that is no more."""
        self._holds.remove(hold)

    def leave(self) -> None:
        self._store.readers.discard(self)

    # --- fragments that read as one

    @property
    def owners(self) -> tuple[Owner, ...]:
        return tuple(self._reported)

    def beside(self, owner: Owner) -> StoreReader:
        """Another one, for one of its owners alone, where this one is; it has no windows yet."""
        new = StoreReader(self._store, self._columns, self._schema, self._at, self.taken, owner)
        new._reported[owner] = replace(self._reported[owner])
        return new

    def reads_with(self, other: StoreReader) -> bool:
        return self._store is other._store

    def admit(self, other: StoreReader, owner: Owner) -> None:
        """From now on it reads for an owner of the other as well, which has come as far."""
        self.taken = max(self.taken, other.taken)
        self._reported[owner] = replace(other._reported[owner] if self.reads_with(other) else self._store.did)

    def dismiss(self, owner: Owner) -> None:
        del self._reported[owner]

    # --- what it has

    def news(self, owner: Owner) -> Profile:
        """What the store has read since the owner asked last."""
        found, self._reported[owner] = self._store.did.since(self._reported[owner]), replace(self._store.did)
        return found

    @property
    def windows(self) -> int:
        return len(self._holds)

    @property
    def waiting(self) -> int:
        return self._store.waiting

    @property
    def bytes(self) -> int:
        """An owner's part of what the store keeps: those who read share it equally."""
        return self._store.bytes // sum(len(reader.owners) for reader in self._store.readers)

    @property
    def needs_from(self) -> Micros:
        return min([self._at + 1, *(stub.oldest for hold in self._holds for stub in hold.stubs if stub.rows)])

    def _own(self, batch: SignedBatch) -> SignedBatch:
        columns = [batch.rows.column(name) for name in self._picked]
        return batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._arrow))


class WindowStub:
    """A queue of a window's rows (operators/time_window.py, newest_rows.py) that holds none: a range of rows in a store.

    Timestamps tell which rows are meant, whatever the store does with its segments.  Time windows take and give whole instants; a window
    by count may have lost the first rows of its oldest instant, which stay in the store until the others have gone as well.
    """

    def __init__(self, reader: StoreReader, spec: WindowSpec) -> None:
        self._reader = reader
        self._spec = spec
        self.oldest: Micros = NEVER_BEFORE  # no row that it has lies before
        self._gone = 0  # rows of that instant that it has no more
        self._newest: Micros = NEVER_BEFORE
        self.rows = 0

    def append(self, ts: Instants, rows: pa.RecordBatch) -> None:
        if len(ts):
            if not self.rows:
                self.oldest, self._gone = int(ts[0]), 0
            self._newest = int(ts[-1])
            self.rows += len(ts)

    def pop_before(self, bound: Micros) -> list[tuple[Instants, pa.RecordBatch]]:
        if not self.rows or bound <= self.oldest:
            return []
        taken = self._between(self.oldest, min(bound - 1, self._newest))
        self.oldest, self._gone = bound, 0
        self.rows -= sum(len(ts) for ts, _ in taken)
        assert (self.rows == 0) == (bound > self._newest), "a store has other rows than its stub was given"
        return taken

    def pop_first(self, count: int) -> list[tuple[Instants, pa.RecordBatch]]:
        """So many rows, oldest first: for windows that admit all rows."""
        if not count:
            return []
        taken = self._reader.first(self.oldest, self._gone, count)
        self.rows -= count
        if self.rows:
            [following] = self._reader.first(self.oldest, self._gone + count, 1)
            oldest = int(following.instant[0])
            along = sum(len(batch) - int(np.searchsorted(batch.instant, oldest)) for batch in taken)  # of the same instant
            self.oldest, self._gone = oldest, along + (self._gone if oldest == self.oldest else 0)
        return [(batch.instant, batch.rows) for batch in taken]

    def to_batch(self, schema: Schema) -> pa.RecordBatch:
        found = [rows for _, rows in self.chunks()]
        return pa.concat_batches(found) if found else SignedBatch.empty(schema).rows

    def chunks(self) -> list[tuple[Instants, pa.RecordBatch]]:
        return self._between(self.oldest, self._newest) if self.rows else []

    def _between(self, low: Micros, high: Micros) -> list[tuple[Instants, pa.RecordBatch]]:
        found, gone = [], self._gone
        for batch in self._reader.between(low, high):
            kept = self._spec.admits(batch.instant) if isinstance(self._spec, TimeWindow) else None
            batch = batch if kept is None or kept.all() else batch.filter(kept)
            skipped = min(gone, len(batch))
            gone -= skipped
            found.append((batch.instant[skipped:], batch.rows.slice(skipped)))
        return [(ts, rows) for ts, rows in found if len(ts)]
