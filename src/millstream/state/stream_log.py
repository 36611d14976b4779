"""A stream's log on disk, as the driver holds it: which chunks are committed, the frontier, what is late or rejected.

    executors   write_chunk ──► files that nobody names yet
    driver      begin ─► commit(chunks, late, frontier, rejected, batch) ─► one version of streams/<name>
                                       ├─ late chunks ride in that commit ─► then one version of streams/<name>.late
                                       └─ and so do dead letters ──────────► then one version of streams/<name>.rejected

The commit of the log decides.  It carries the frontier, the counters and the chunks that are kept aside; their tables follow,
at once or, after a crash, at the next open.  A batch of a source commits its number with it, so a replay finds it done.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.core.errors import DataDamaged, DuplicateColumn, StorageFailed
from millstream.core.instant import LAST, NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.state.aside_table import AsideTable
from millstream.state.atomic import atomic_write
from millstream.state.chunk import BUCKET, FRONTIER, SEQ, TS, ChunkInfo
from millstream.state.compaction import merge_chunks, plan_compaction
from millstream.state.fault import fault_point
from millstream.state.file_columns import DEAD_LETTER
from millstream.state.frontier import Frontier
from millstream.state.location import Location
from millstream.state.merge_plan import FAN_IN, SMALL_BYTES, TARGET_BYTES
from millstream.state.pace import AT_ONCE, Pace
from millstream.state.retired_files import GRACE_S
from millstream.state.sealed import RESTORE, read_sealed_json, sealed_json
from millstream.state.timed_table import TimedTable

_RESERVED = (TS, SEQ, BUCKET, FRONTIER)
_ADVANCED = "_advanced.json"

MOST_REJECTED = 1_000_000
"""Dead letters of a stream beyond this number go, the oldest first, a file at a time."""
_DEAD_LETTER_FILES = 16
"""Their files are so many times smaller than others: they are dropped whole, and few rows may mean many."""


@dataclass(frozen=True, slots=True)
class IngestTicket:
    """The right to write chunks under this number; unused ones cost nothing."""

    ingest_number: int


class StreamLog:
    """Driver-side; all methods may be called from any thread."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        table: TimedTable[ChunkInfo],
        late_directory: Path,
        rejected_directory: Path,
        *,
        timestamp_by: str,
        partition_by: tuple[str, ...],
        slack_us: Micros,
    ) -> None:
        self.name = name
        self.schema = schema
        self.timestamp_by = timestamp_by
        self.partition_by = partition_by
        self.directory = table.directory
        self.late_directory = late_directory
        self.rejected_directory = rejected_directory
        self._table = table
        self._lock = threading.RLock()
        state = table.log.state
        self._ingest: int = state.get("ingest", 0)
        self._rows_accepted: int = state.get("rows", 0)
        numbers = [pa.field(name, pa.int64()) for name in (TS, SEQ)]
        late_schema = pa.schema([*schema.to_arrow(), *numbers, pa.field(FRONTIER, pa.int64())])
        self._late = AsideTable(late_directory, late_schema, FRONTIER, state.get("late"), state.get("late_rows", 0))
        self._rejected = AsideTable(
            rejected_directory, pa.schema([*DEAD_LETTER, *numbers]), TS, state.get("rejected"), state.get("rejected_rows", 0)
        )
        self.whole_from: Micros = state.get("whole_from", NEVER_BEFORE)  # no row at or after this instant has been dropped
        self._has_advanced: bool = state.get("has_advanced", False)
        committed = Frontier.from_json(state.get("frontier", {}), slack_us)
        self.frontier: Frontier = committed.after_advance(self._read_advanced())
        self._publish_aside()
        self.sweep()

    @staticmethod
    def open(
        location: Location, name: str, schema: Schema, *, timestamp_by: str, partition_by: Sequence[str] = (), slack_us: Micros = 0
    ) -> StreamLog:
        """Opens the stream's log, creating it if there is none; what a crash left half done is finished or swept away."""
        for column in schema.names:
            if column.lower() in _RESERVED:
                raise DuplicateColumn(f'stream "{name}" cannot have a column "{column}"', hint="The log keeps its own column of that name.")
        directory = location.stream_dir(name)
        partitioned = [pa.field(BUCKET, pa.int32())] if partition_by else []
        fields = pa.schema([*schema.to_arrow(), pa.field(TS, pa.int64()), pa.field(SEQ, pa.int64()), *partitioned])
        table = TimedTable.open(directory, fields, kind=ChunkInfo, time_column=TS, partitioned=bool(partition_by))
        return StreamLog(
            name, schema, table, location.late_dir(name), location.rejected_dir(name), timestamp_by=timestamp_by,
            partition_by=tuple(partition_by), slack_us=slack_us,
        )  # fmt: skip

    # --- writing ------------------------------------------------------------------------------

    def begin(self) -> IngestTicket:
        with self._lock:
            self._ingest += 1
            return IngestTicket(self._ingest)

    def last_batch(self, source_id: str) -> int | None:
        """The number of the last batch of this source whose rows are in."""
        with self._lock:
            return self._table.log.transaction(_source(source_id))

    def is_committed(self, source_id: str, batch_id: int) -> bool:
        last = self.last_batch(source_id)
        return last is not None and batch_id <= last

    def commit(
        self, chunks: Sequence[ChunkInfo], late: Sequence[ChunkInfo], frontier: Frontier, rejected: Sequence[ChunkInfo] = (), *,
        batch: tuple[str, int] | None = None,
    ) -> bool:  # fmt: skip
        """The chunks' rows are in the stream from here on.  False, and nothing changes, if the batch was committed before."""
        with self._lock:
            if batch is not None and self.is_committed(*batch):
                self._table.delete_unnamed(chunks)
                self._late.delete_unnamed(late)
                self._rejected.delete_unnamed(rejected)
                return False
            try:
                self._publish_aside()
                return self._committed(chunks, late, frontier, batch, rejected)
            except StorageFailed:
                self._table.delete_unnamed(chunks)
                self._late.delete_unnamed(late)
                self._rejected.delete_unnamed(rejected)
                raise

    def _committed(
        self, chunks: Sequence[ChunkInfo], late: Sequence[ChunkInfo], frontier: Frontier, batch: tuple[str, int] | None,
        rejected: Sequence[ChunkInfo],
    ) -> bool:  # fmt: skip
        moved = self._merged(frontier)
        rows, late_rows, rejected_rows = (sum(chunk.rows for chunk in some) for some in (chunks, late, rejected))
        # late rows leave the table by the frontier that they found, which lies between these bounds
        behind = [replace(chunk, min_ts=NEVER_BEFORE, max_ts=moved.value) for chunk in late]
        late_next = AsideTable.pending(behind, self.version + 1)
        rejected_next = AsideTable.pending(rejected, self.version + 1)
        state = {
            "frontier": moved.to_json(), "ingest": self._ingest, "rows": self._rows_accepted + rows,
            "late_rows": self._late.rows + late_rows, "late": late_next, "rejected_rows": self._rejected.rows + rejected_rows,
            "rejected": rejected_next, "whole_from": self.whole_from, "has_advanced": self._has_advanced,
        }  # fmt: skip
        self._table.commit(state, chunks, {_source(batch[0]): batch[1]} if batch else None)
        self.frontier = moved
        self._rows_accepted += rows
        self._late.committed(late_next, late_rows)
        self._rejected.committed(rejected_next, rejected_rows)
        fault_point("stream.before_late")
        with suppress(StorageFailed):  # the rows are in: who asks for late ones, or the next commit, will try again
            self._publish_aside()
        return True

    def advance(self, frontier: Frontier) -> None:
        """Moves the frontier without rows, durably: a small file costs what an empty commit would, and does not grow."""
        with self._lock:
            moved = self._merged(frontier)
            if moved.value > self.frontier.value:
                atomic_write(self.directory / _ADVANCED, sealed_json({"advanced": moved.value}))
            self.frontier = moved
            if not self._has_advanced and moved.advanced is not None:
                # once: from then on a file that is missing has been taken away
                with suppress(StorageFailed):
                    self._publish_aside()
                    self._table.commit(self._state(has_advanced=True), [])
                    self._has_advanced = True

    # --- reading ------------------------------------------------------------------------------

    def chunks_after(self, ts: Micros, up_to: Micros = LAST) -> list[ChunkInfo]:
        """Committed chunks that may hold rows with ts < _ts <= up_to, in arrival order."""
        with self._lock:
            return sorted(self._table.index.after(ts, up_to), key=lambda chunk: chunk.min_seq)

    def late_chunks(self) -> list[ChunkInfo]:
        """Of the late table, whose directory is `late_directory`.  Their min_ts and max_ts bound _frontier, not _ts."""
        with self._lock:
            self._publish_aside()
            return self._late.chunks()

    def rejected_chunks(self) -> list[ChunkInfo]:
        """Of the dead letters, whose directory is `rejected_directory`.  Their _ts is the wall clock's."""
        with self._lock:
            self._publish_aside()
            return self._rejected.chunks()

    @property
    def version(self) -> int:
        return self._table.log.version

    @property
    def rows_total(self) -> int:
        """In the log now."""
        return self._table.index.rows

    @property
    def rows_accepted(self) -> int:
        """Ever."""
        return self._rows_accepted

    @property
    def late_total(self) -> int:
        """Ever."""
        return self._late.rows

    @property
    def rejected_total(self) -> int:
        """Ever."""
        return self._rejected.rows

    @property
    def bytes_total(self) -> int:
        return self._table.index.bytes

    # --- keeping it small ---------------------------------------------------------------------

    def retain(self, horizon_ts: Micros, rejected_before: Micros = NEVER_BEFORE) -> int:
        """Drops chunks all of whose rows have _ts < horizon, and late rows that came when the frontier was below it; returns how many.

        Dead letters go by the wall clock, and by their number.
        """
        with self._lock:
            self._publish_aside()
            old = self._table.before(horizon_ts)
            if old:
                whole_from, self.whole_from = self.whole_from, max(self.whole_from, horizon_ts)
                try:
                    self._table.drop(self._state(), old)
                except BaseException:
                    self.whole_from = whole_from
                    raise
            return len(old) + self._late.retain(horizon_ts) + self._rejected.retain(rejected_before, MOST_REJECTED)

    def compact(
        self,
        *,
        upto_seq: int | None = None,
        span_us: Micros | None = None,
        small_bytes: int = SMALL_BYTES,
        target_bytes: int = TARGET_BYTES,
        fan_in: int = FAN_IN,
        pace: Pace = AT_ONCE,
    ) -> int:
        """Merges small chunks; returns how many files went.  Rows, _ts and _seq stay; replaced files last for the grace period.

        Chunks that end in different spans of time stay apart: retention drops whole chunks, so a span of an eighth of the
        retention time keeps at most an eighth too much.  Chunks with rows beyond `upto_seq` stay as they are: readers that
        take in chunk after chunk are not there yet.
        """
        apart = (lambda chunk: (chunk.bucket, chunk.max_ts // span_us)) if span_us else (lambda chunk: chunk.bucket)
        gone = 0
        for table in self._tables():
            share = _DEAD_LETTER_FILES if table is self._rejected.table else 1
            with self._lock:
                settled = [chunk for chunk in table.index if upto_seq is None or chunk.max_seq <= upto_seq]
                groups = plan_compaction(
                    settled, apart=apart, small_bytes=small_bytes // share, target_bytes=target_bytes // share, fan_in=fan_in
                )
            gone += sum(self._replaced(table, group, merge_chunks(table.directory, group, pace=pace)) for group in groups)
        return gone

    def _replaced(self, table: TimedTable[ChunkInfo], old: Sequence[ChunkInfo], new: ChunkInfo) -> int:
        fault_point("stream.merged")
        with self._lock:
            self._publish_aside()
            if not table.still_holds(old):  # retention was faster
                table.delete_unnamed([new])
                return 0
            table.rearrange(self._state() if table is self._table else {}, old, [new])
            return len(old) - 1

    def vacuum(self, *, grace_s: float = GRACE_S, now_s: float | None = None) -> int:
        """Deletes files that left the log longer than the grace period ago; returns how many."""
        with self._lock:
            return sum(table.vacuum(grace_s=grace_s, now_s=now_s) for table in self._tables())

    def sweep(self) -> int:
        """Deletes files that no commit names, left by a crash.  `open` calls it; nobody may be writing chunks meanwhile."""
        with self._lock:
            return sum(table.sweep() for table in self._tables())

    def close(self) -> None:
        """Waits for what still runs; the location must stay open until then."""
        for table in self._tables():
            table.close()

    # --- inside -------------------------------------------------------------------------------

    def _state(self, *, has_advanced: bool = False) -> dict[str, Any]:
        assert self._late.is_published
        assert self._rejected.is_published
        return {
            "frontier": self.frontier.to_json(), "ingest": self._ingest, "rows": self._rows_accepted,
            "late_rows": self._late.rows, "late": None, "rejected_rows": self._rejected.rows, "rejected": None,
            "whole_from": self.whole_from, "has_advanced": has_advanced or self._has_advanced,
        }  # fmt: skip

    def _tables(self) -> list[TimedTable[ChunkInfo]]:
        return [self._table, *(aside.table for aside in (self._late, self._rejected) if aside.table is not None)]

    def _merged(self, frontier: Frontier) -> Frontier:
        """The caller's frontier may be older than an advance that came meanwhile."""
        moved = replace(self.frontier, slack_us=frontier.slack_us)
        moved = moved if frontier.max_ts is None else moved.after_rows(frontier.max_ts)
        return moved if frontier.advanced is None else moved.after_advance(frontier.advanced)

    def _publish_aside(self) -> None:
        self._late.publish()
        self._rejected.publish()

    def _read_advanced(self) -> Micros:
        path = self.directory / _ADVANCED
        try:
            return read_sealed_json(path, lambda saved: int(saved["advanced"]))
        except FileNotFoundError:
            if self._has_advanced:
                raise DataDamaged(f'the file "{path}" is missing', hint=RESTORE) from None
            return NEVER_BEFORE


def _source(source_id: str) -> str:
    return f"source {source_id}"
