"""The streams of a database on the driver: their logs, their frontiers, and rows on their way in."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.language.catalog import SYSTEM_STREAM, StreamEntry
from millstream.runtime.clock import Clock
from millstream.runtime.dead_letters import Part
from millstream.runtime.ingest import IngestPlan, PartitionReport, write_partition
from millstream.runtime.output_delay import FrontierMoves
from millstream.runtime.row_times import RowTimes
from millstream.runtime.rows import table_of
from millstream.runtime.sorting_out import sorted_out
from millstream.state.atomic import atomic_write
from millstream.state.location import Location
from millstream.state.sealed import read_sealed_json, sealed_json
from millstream.state.stream_log import StreamLog

log = logging.getLogger(__name__)


@dataclass(eq=False)
class OpenStream:
    entry: StreamEntry
    log: StreamLog
    last_arrival: float
    lock: threading.RLock = field(default_factory=threading.RLock)  # one ingest at a time: arrival order is commit order
    moves: FrontierMoves = field(default_factory=FrontierMoves)

    @property
    def frontier(self) -> Micros:
        return self.log.frontier.value


class Streams:
    def __init__(self, location: Location, clock: Clock | None = None) -> None:
        self._location = location
        self._clock = clock or Clock()
        self._open: dict[str, OpenStream] = {}
        self._dropped = _read_frontier(location.dropped_frontier_path)

    def open(self, entry: StreamEntry) -> OpenStream:
        log = StreamLog.open(
            self._location,
            entry.name,
            entry.schema,
            timestamp_by=entry.timestamp_by,
            partition_by=entry.partition_by,
            slack_us=entry.slack_us,
        )
        stream = self._open[entry.name] = OpenStream(entry, log, self._clock.seconds())
        self._note_move(stream)
        return stream

    def drop(self, name: str) -> None:
        """The stream goes, with all its rows."""
        stream = self._open.pop(name)
        stream.log.close()
        self._location.drop_stream(name)

    def remember(self, name: str) -> None:
        """Of a stream that is about to go: how far it had come.  Time does not go back."""
        frontier = self._open[name].frontier
        if frontier > self._dropped:
            atomic_write(self._location.dropped_frontier_path, sealed_json({"frontier": frontier}))
            self._dropped = frontier

    def __getitem__(self, name: str) -> OpenStream:
        return self._open[name]

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def __iter__(self) -> Iterator[OpenStream]:
        """Those that users have made: what happens to all streams does not happen to the system's own."""
        return iter([stream for stream in list(self._open.values()) if stream.entry is not SYSTEM_STREAM])

    @property
    def everything(self) -> list[OpenStream]:
        """With the system stream at the end, if it is open: that is, if somebody has asked for it."""
        system = self._open.get(SYSTEM_STREAM.name)
        return [*self, *([system] if system is not None else [])]

    @property
    def greatest_frontier(self) -> Micros | None:
        """Of all streams that there are or were; None before any has one.  The system's own time is not that of the data."""
        frontiers = [frontier for frontier in (self._dropped, *(stream.frontier for stream in self)) if frontier > NEVER_BEFORE]
        return max(frontiers, default=None)

    def insert(self, name: str, rows: object, *, strict: bool = False) -> int:
        """Rows from the driver itself, one batch, one partition; returns how many were taken.

        What does not fit is kept aside; with ON ERROR FAIL, or if the caller is `strict`, it is an error and nothing is inserted.
        """
        stream = self._open[name]
        part = self._part(stream.entry, rows, strict=strict or stream.entry.on_error == "fail")
        if part.rows.num_rows or part.rejected:
            with stream.lock:
                plan = self.begin(name, partitions=1)
                self.commit(plan, [write_partition(plan, 0, [part])])
        return int(part.rows.num_rows)

    def _part(self, entry: StreamEntry, rows: object, *, strict: bool) -> Part:
        times = self._times(entry)
        if not strict:
            return sorted_out(rows, entry.schema, times, lambda i: f"insert, row {i}")
        table = table_of(rows, entry.schema, entry.name)
        times.check(table)
        return Part(table)

    def _times(self, entry: StreamEntry) -> RowTimes:
        return RowTimes(entry.name, entry.timestamp_by, self._clock.now(), entry.max_ahead_us)

    def begin(self, name: str, partitions: int) -> IngestPlan:
        """The caller holds the stream's lock from here to `commit`."""
        stream = self._open[name]
        return IngestPlan(
            name, stream.entry.schema, stream.entry.timestamp_by, stream.entry.partition_by, self._location.buckets,
            str(self._location.stream_dir(name)), str(self._location.late_dir(name)), str(self._location.rejected_dir(name)),
            stream.log.begin().ingest_number, partitions, stream.log.frontier, self._times(stream.entry), stream.entry.on_error,
        )  # fmt: skip

    def commit(self, plan: IngestPlan, reports: Sequence[PartitionReport], batch: tuple[str, int] | None = None) -> None:
        stream = self._open[plan.stream]
        frontier = plan.frontier
        ordered = sorted(reports, key=lambda report: report.partition)
        for report in ordered:
            if report.max_ts is not None:
                frontier = frontier.after_rows(report.max_ts)
        chunks = [chunk for report in ordered for chunk in report.chunks]
        late = [chunk for report in ordered for chunk in report.late]
        rejected = [chunk for report in ordered for chunk in report.rejected]
        stream.log.commit(chunks, late, frontier, rejected, batch=batch)
        if rejected:
            reason = next(report.first_reason for report in ordered if report.rejected)
            log.warning('stream "%s" rejected %d rows, the first: %s', plan.stream, sum(chunk.rows for chunk in rejected), reason)
        stream.last_arrival = self._clock.seconds()
        self._note_move(stream)

    def advance(self, name: str, ts: Micros) -> None:
        stream = self._open[name]
        with stream.lock:
            stream.log.advance(stream.log.frontier.after_advance(ts))
            self._note_move(stream)

    def advance_idle(self) -> bool:
        """Streams that have been silent for their idle timeout follow the wall clock at that distance."""
        moved, now = False, self._clock.now()
        for stream in self:
            timeout_us = stream.entry.idle_timeout_us
            if timeout_us is None or (self._clock.seconds() - stream.last_arrival) * 1e6 < timeout_us:
                continue
            if now - timeout_us > stream.frontier:
                self.advance(stream.entry.name, now - timeout_us)
                moved = True
        return moved

    def _note_move(self, stream: OpenStream) -> None:
        if stream.frontier > NEVER_BEFORE:
            stream.moves.note(stream.frontier, self._clock.seconds())


def _read_frontier(path: Path) -> Micros:
    try:
        return read_sealed_json(path, lambda saved: int(saved["frontier"]))
    except FileNotFoundError:
        return NEVER_BEFORE
