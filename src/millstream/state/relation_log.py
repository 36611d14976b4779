"""A relation on disk: its signed changes, each with the instant from which it holds, on top of a folded base.

    base: the bag at instant h   │   changes after h, one chunk per statement
    ─────────────────────────────┴──────────────────────────────────────────►  instant

Changes come in the order of their instants (those that still wait for theirs are elsewhere, in `scheduled`): what a change was
computed from (the rows that a DELETE found) then never changes behind its back.  `contents(at)` nets both.  `fold(h)` moves
the base forward once the changes outweigh it, so that reading costs what the relation holds and not what ever happened to it;
instants before the base are then gone, and for a query that comes later the base has been there since ever.
Which rows a DELETE or an upsert means is the caller's business: it comes here as changes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import DuplicateColumn, InstantPassed, StorageFailed
from millstream.core.instant import BEGINNING, LAST, NEVER_BEFORE, Micros, format_instant
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.state.chunk import SEQ, ChunkInfo, read_chunk, write_chunk
from millstream.state.compaction import merge_chunks, plan_compaction
from millstream.state.fault import fault_point
from millstream.state.file_columns import DIFF, INSTANT
from millstream.state.location import Location
from millstream.state.merge_plan import FAN_IN
from millstream.state.net_bag import expanded, netted
from millstream.state.retired_files import GRACE_S
from millstream.state.scheduled import Place
from millstream.state.sequence import sequence_numbers
from millstream.state.timed_table import TimedTable

_RESERVED = (INSTANT, DIFF, SEQ)
_FEWEST_TO_FOLD = 64  # chunks; below that, reading is cheap anyway
_MOST_BEFORE_FOLD = 1000


@dataclass(frozen=True, slots=True)
class _Bag:
    """What the chunks at these paths add up to: rows and how many there are of each."""

    paths: tuple[str, ...]
    rows: pa.Table
    counts: npt.NDArray[np.int64]


class RelationLog:
    """Driver-side; all methods may be called from any thread."""

    whole_from: Micros = NEVER_BEFORE
    """Nothing is dropped: changes are folded into the base."""

    def __init__(self, name: str, schema: Schema, table: TimedTable[ChunkInfo]) -> None:
        self.name = name
        self.schema = schema
        self.directory = table.directory
        self._table = table
        self._lock = threading.RLock()
        self._ingest: int = table.log.state.get("ingest", 0)
        self._base_instant: Micros = table.log.state.get("base_instant", NEVER_BEFORE)
        self._base_rows: int = table.log.state.get("base_rows", 0)
        self._scheduled: Place | None = _place(table.log.state.get("scheduled"))
        self._last_instant: Micros = max((chunk.max_ts for chunk in table.index), default=NEVER_BEFORE)
        self._read_so_far = _Bag((), schema.to_arrow().empty_table(), np.empty(0, np.int64))
        table.sweep()

    @staticmethod
    def open(location: Location, name: str, schema: Schema) -> RelationLog:
        """Opens the relation, creating it if there is none."""
        for column in schema.names:
            if column.lower() in _RESERVED:
                raise DuplicateColumn(f'relation "{name}" cannot have a column "{column}"', hint="Its table keeps a column of that name.")
        extra = [pa.field(INSTANT, pa.int64()), pa.field(DIFF, pa.int8()), pa.field(SEQ, pa.int64())]
        fields = pa.schema([*schema.to_arrow(), *extra])
        return RelationLog(name, schema, TimedTable.open(location.relation_dir(name), fields, kind=ChunkInfo, time_column=INSTANT))

    @property
    def version(self) -> int:
        return self._table.log.version

    @property
    def base_instant(self) -> Micros:
        """The earliest instant whose contents are still known."""
        return self._base_instant

    @property
    def last_instant(self) -> Micros:
        """Of its last change."""
        return self._last_instant

    @property
    def last_scheduled(self) -> Place | None:
        """The place of the last change here that had waited for its instant."""
        return self._scheduled

    def append(
        self, rows: pa.RecordBatch | pa.Table, diff: int | npt.NDArray[np.int8], instant: Micros, *, scheduled: Place | None = None
    ) -> None:
        """One statement's changes, all of them or none: +1 the row is there from `instant` on, -1 one copy of it no longer is.

        `scheduled` is its place among the statements that waited for their instants, if it did.
        """
        if not rows.num_rows:
            return
        with self._lock:
            self.require_in_order(instant)
            self._ingest += 1
            signs = np.broadcast_to(np.asarray(diff, np.int8), (rows.num_rows,))
            chunk = self._written(rows, signs, instant)
            try:
                self._table.commit(self._state(scheduled or self._scheduled), [chunk])
            except StorageFailed:
                self._table.delete_unnamed([chunk])
                raise
            self._last_instant, self._scheduled = instant, scheduled or self._scheduled

    def require_in_order(self, instant: Micros) -> None:
        """Refuses an instant before that of a change which is there already; changes of one instant see each other in turn."""
        if instant <= self._base_instant:
            raise InstantPassed(
                f'relation "{self.name}" cannot change at {format_instant(instant)}',
                hint=f"It is settled up to {format_instant(self._base_instant)}.",
            )
        if instant < self._last_instant:
            last = format_instant(self._last_instant)
            raise InstantPassed(
                f'relation "{self.name}" cannot change at {format_instant(instant)}: a change at {last} is there already',
                hint="The changes of a relation come in the order of their instants: give that one or a later one, with AT or at=.",
            )

    def contents(self, at: Micros | None = None) -> pa.Table:
        """The bag at an instant, or after all changes that are known; rows in the order they came."""
        with self._lock:
            self._require_known(at)
            self._read_so_far = self._bag(self._chunks(NEVER_BEFORE, LAST if at is None else at))
            return expanded(self._read_so_far.rows, self._read_so_far.counts)

    def changes(self, since: Micros, until: Micros) -> SignedBatch:
        """Changes with since < instant <= until, in order; `since` must not lie before the base."""
        with self._lock:
            self._require_known(since)
            chunks = self._chunks(since, until)
        if not chunks:
            return SignedBatch.empty(self.schema)
        rows = self._read(chunks)
        batch = SignedBatch(rows.column(INSTANT).to_numpy(), rows.column(DIFF).to_numpy(), _one_batch(rows.select(list(self.schema.names))))
        return batch.take(np.argsort(batch.instant, kind="stable"))

    def chunks_after(self, instant: Micros) -> list[ChunkInfo]:
        """Committed chunks that may hold changes after the instant, in the order they came."""
        with self._lock:
            return self._chunks(instant, LAST)

    def fold(self, horizon: Micros, *, even_if_small: bool = False) -> bool:
        """Makes the contents at `horizon` the new base, if the changes up to there outweigh the old one.

        Nobody may need an earlier instant any more: the least frontier of the queries over this relation.
        """
        with self._lock:
            old = self._table.before(horizon + 1)
            changed = sum(chunk.rows for chunk in old) - self._base_rows
            worth = len(old) >= _FEWEST_TO_FOLD and (changed >= self._base_rows // 4 or len(old) >= _MOST_BEFORE_FOLD)
            if horizon <= self._base_instant or not old or not (worth or even_if_small):
                return False
            bag = self._bag(sorted(old, key=lambda chunk: chunk.min_seq))
            base = expanded(bag.rows, bag.counts)
            # rows of the base come before all later changes, so they take numbers that are older than any of those
            new = [self._written(base, np.ones(base.num_rows, np.int8), BEGINNING, ingest=0)] if base.num_rows else []
            fault_point("relation.folded")
            self._base_instant, self._base_rows, before = horizon, base.num_rows, (self._base_instant, self._base_rows)
            try:
                self._table.replace(self._state(self._scheduled), old, new)
            except BaseException:
                self._base_instant, self._base_rows = before
                raise
            return True

    def compact(self, *, upto_seq: int | None = None, fan_in: int = FAN_IN) -> int:
        """Merges small chunks of one instant (many statements while no stream moves); returns how many files went.

        Chunks with changes beyond `upto_seq` stay as they are: readers that take in chunk after chunk are not there yet.
        """
        with self._lock:
            settled = [chunk for chunk in self._chunks(NEVER_BEFORE, LAST) if upto_seq is None or chunk.max_seq <= upto_seq]
            groups = plan_compaction(settled, apart=lambda chunk: (chunk.min_ts, chunk.max_ts), fan_in=fan_in)
            for old in groups:
                merged = merge_chunks(self.directory, old, time_column=INSTANT)
                fault_point("relation.merged")
                self._table.rearrange(self._state(self._scheduled), old, [merged])
            return sum(len(old) - 1 for old in groups)

    def vacuum(self, *, grace_s: float = GRACE_S, now_s: float | None = None) -> int:
        with self._lock:
            return self._table.vacuum(grace_s=grace_s, now_s=now_s)

    def close(self) -> None:
        self._table.close()

    def _state(self, scheduled: Place | None) -> dict[str, Any]:
        return {"ingest": self._ingest, "base_instant": self._base_instant, "base_rows": self._base_rows, "scheduled": scheduled}

    def _chunks(self, since: Micros, until: Micros) -> list[ChunkInfo]:
        return sorted(self._table.index.after(since, until), key=lambda chunk: chunk.min_seq)

    def _require_known(self, at: Micros | None) -> None:
        if at is not None and at < self._base_instant:
            raise InstantPassed(
                f'the contents of relation "{self.name}" at {format_instant(at)} are no longer known',
                hint=f"The earliest instant that is kept is {format_instant(self._base_instant)}.",
            )

    def _written(
        self, rows: pa.RecordBatch | pa.Table, signs: npt.NDArray[np.int8], instant: Micros, *, ingest: int | None = None
    ) -> ChunkInfo:
        count = rows.num_rows
        number = self._ingest if ingest is None else ingest
        extra = [pa.array(np.full(count, instant)), pa.array(signs), pa.array(sequence_numbers(number, 0, 1, count))]
        stamped = pa.table([*rows.columns, *extra], names=[*self.schema.names, INSTANT, DIFF, SEQ])
        return write_chunk(self.directory, stamped, time_column=INSTANT)

    def _bag(self, chunks: Sequence[ChunkInfo]) -> _Bag:
        """Netted; what the last call has read already is not read again."""
        paths, known = tuple(chunk.path for chunk in chunks), self._read_so_far
        if paths[: len(known.paths)] != known.paths:
            known = _Bag((), self.schema.to_arrow().empty_table(), np.empty(0, np.int64))
        fresh = chunks[len(known.paths) :]
        if not fresh:
            return known
        rows = self._read(fresh)
        counts = np.concatenate([known.counts, rows.column(DIFF).to_numpy()])
        return _Bag(paths, *netted(pa.concat_tables([known.rows, rows.select(list(self.schema.names))]), counts))

    def _read(self, chunks: Sequence[ChunkInfo]) -> pa.Table:
        return pa.concat_tables([read_chunk(self.directory, chunk, schema=self.schema) for chunk in chunks])


def _place(saved: Sequence[int] | None) -> Place | None:
    return None if saved is None else (saved[0], saved[1])


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return rows.combine_chunks().to_batches()[0]
