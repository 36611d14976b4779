"""A query's result on disk: the changes of its answer, as a Delta table that anybody can read.

    executors   write_output ──► files that nobody names yet
    driver      the tick's record names them (tick_record.py)  ─►  publish ─► one version of queries/<name>

Publishing a tick twice does nothing, so after a crash the driver publishes whatever the records name.  Ticks have
disjoint instants, so the files of a tick form a segment of the line of time; merging never crosses a segment's edge,
and the order of changes that a reader once saw stays.

What lies further back than anybody wants to look is folded: the changes of a relation up to there become its rows at that instant (the
base), the elements of a stream go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.instant import BEGINNING, LAST, NEVER_BEFORE, Micros
from millstream.core.schema import TIMESTAMP, Field
from millstream.core.signed_batch import SignedBatch
from millstream.state.chunk import ChunkInfo
from millstream.state.disk_types import cast_columns
from millstream.state.fault import fault_point
from millstream.state.location import Location
from millstream.state.merge_plan import FAN_IN, SMALL_BYTES, TARGET_BYTES, plan_merges
from millstream.state.net_bag import expanded, netted
from millstream.state.output_file import DIFF, INSTANT, OutputFile, in_order, merge_outputs, output_columns, read_output, write_output
from millstream.state.pace import AT_ONCE, Pace
from millstream.state.retired_files import GRACE_S
from millstream.state.timed_table import TimedTable

__all__ = ["Beginning", "Changelog", "OutputFile", "output_columns", "write_output"]

_PUBLISHED = "tick"
_BEGAN, _COMPLETE_FROM = "began", "complete_from"
_FOLLOWS, _COPIED_TO = "follows", "copied_to"
_FEWEST_TO_FOLD = 10_000


@dataclass(frozen=True)
class Beginning:
    """Where a query began: at which instant, and from which on its windows hold all that they should."""

    at: Micros = NEVER_BEFORE
    complete_from: Micros = NEVER_BEFORE


class Changelog:
    """Driver-side; all methods may be called from any thread."""

    def __init__(self, table: TimedTable[OutputFile], fields: Sequence[Field], after_tick: int, began: Callable[[], Beginning]) -> None:
        self.directory = table.directory
        self.columns = output_columns([field.name for field in fields])
        self._fields = tuple(fields)
        self._table = table
        self._lock = threading.RLock()
        state = table.log.state
        self.whole_from: Micros = state.get("whole_from", NEVER_BEFORE)  # no change at or after this instant has been dropped
        self.folded_to: Micros = state.get("folded_to", NEVER_BEFORE)  # changes before this instant are no longer known one by one
        self._base_rows: int = state.get("base_rows", 0)
        self.follows: str | None = state.get(_FOLLOWS)  # the query whose changes hold those of this one
        self.copied_to: Micros = state.get(_COPIED_TO, NEVER_BEFORE)  # ... up to here they are here as well
        told = Beginning(state.get(_BEGAN, NEVER_BEFORE), state.get(_COMPLETE_FROM, NEVER_BEFORE))
        self.began = told if table.log.version else began()
        if table.log.version == 0:
            # a query of this name may have been dropped; its ticks are not ours to publish
            table.commit(self._state(), [], {_PUBLISHED: after_tick})
        published = table.log.transaction(_PUBLISHED)
        self._published = -1 if published is None else published

    @staticmethod
    def open(
        location: Location,
        query_name: str,
        fields: Sequence[Field],
        *,
        after_tick: int = -1,
        began: Callable[[], Beginning] = Beginning,
    ) -> Changelog:
        """Opens the changelog, creating it if there is none.

        `fields` carry the names that the user sees, which may repeat.  A new changelog begins after `after_tick`, the last
        tick at the time, and remembers for the query where it `began`: that is asked only then.

        Call `sweep` once the outputs of all recorded ticks are published.
        """
        columns = output_columns([field.name for field in fields])
        named = [pa.field(name, field.type) for name, field in zip(columns, fields, strict=True)]
        schema = pa.schema([pa.field(INSTANT, TIMESTAMP), pa.field(DIFF, pa.int8()), *named])
        table = TimedTable.open(location.query_dir(query_name), schema, kind=OutputFile, time_column=INSTANT)
        return Changelog(table, fields, after_tick, began)

    @property
    def published_tick(self) -> int:
        return self._published

    @property
    def version(self) -> int:
        return self._table.log.version

    @property
    def rows_total(self) -> int:
        return self._table.index.rows

    @property
    def bytes_total(self) -> int:
        return self._table.index.bytes

    def publish(self, tick: int, files: Sequence[OutputFile]) -> bool:
        """The tick's changes become rows of the table; False if they are already."""
        return self.publish_ticks([(tick, files)])

    def publish_ticks(self, ticks: Sequence[tuple[int, Sequence[OutputFile]]]) -> bool:
        """The same for several ticks, oldest first, in one commit."""
        with self._lock:
            fresh = [(tick, files) for tick, files in ticks if tick > self._published]
            if not fresh:
                return False
            files = list(chain.from_iterable(files for _, files in fresh))
            if files:
                fault_point("changelog.before_publish")
                self._table.commit(self._state(), files, {_PUBLISHED: fresh[-1][0]})
                fault_point("changelog.published")
            self._published = fresh[-1][0]
            return True

    def follow(self, common: str | None, at: Micros) -> None:
        """From this instant on its changes are part of those of another query, until it is told otherwise (None)."""
        with self._lock:
            before = self.follows, self.copied_to
            self.follows, self.copied_to = common, at
            try:
                fault_point("changelog.before_following")
                self._table.commit(self._state(), [])
                fault_point("changelog.following")
            except BaseException:
                self.follows, self.copied_to = before
                raise

    def take_over(self, changes: SignedBatch, since: Micros, upto: Micros) -> bool:
        """All changes in (since, upto], from the query that it follows.  Does nothing, and says so, if somebody else was faster.

        Where there are none, nothing is written: to look for them again does no harm.
        """
        if self.copied_to != since:
            return False
        files = [write_output(self.directory, [changes], self.columns)] if len(changes) else []
        with self._lock:
            if self.copied_to != since or self.follows is None:
                self._table.delete_unnamed(files)
                return False
            self.copied_to = upto
            if files:
                try:
                    fault_point("changelog.before_taking_over")
                    self._table.commit(self._state(), files)
                    fault_point("changelog.taken_over")
                except BaseException:
                    self.copied_to = since
                    raise
            return True

    def read(self, since: Micros | None = None, until: Micros | None = None, files: Sequence[OutputFile] | None = None) -> pa.Table:
        """Changes with since < instant <= until, in (instant, diff) order, from everything published or from these files only."""
        after, up_to = NEVER_BEFORE if since is None else since, LAST if until is None else until
        with self._lock:
            found = self._table.index.after(after, up_to)
        found = found if files is None else [file for file in files if file.max_ts > after and file.min_ts <= up_to]
        span = (after, up_to)
        parts = [read_output(self.directory, file, between=span) for file in sorted(found, key=_reading_order)]
        rows = pa.concat_tables(parts or [self._nothing()])
        return self._as_declared(in_order(_between(rows, after, up_to)))

    def read_some(self, since: Micros, until: Micros, most: int) -> tuple[pa.Table, Micros]:
        """The first changes in (since, until], at most so many unless one instant has more, and up to where they are all there are.

        Memory is that of the changes read, and a row group of each file that holds some.
        """
        with self._lock:
            found = sorted(self._table.index.after(since, until), key=_reading_order)
        taken: list[OutputFile] = []
        upto, rows = until, 0
        for segment in _segments(found):
            size = sum(file.rows for file in segment)
            if taken and rows + size > most:
                upto = min(until, max(file.max_ts for file in taken))
                break
            taken, rows = [*taken, *segment], rows + size
        if rows > most:
            upto = _cut(self._instants(taken, since, upto), most, upto)
        return self.read(since, upto, taken), upto

    def _instants(self, files: Sequence[OutputFile], after: Micros, up_to: Micros) -> npt.NDArray[np.int64]:
        """Of the changes in (after, up_to], in order."""
        parts = [read_output(self.directory, file, [INSTANT], (after, up_to)).column(0).cast(pa.int64()).to_numpy() for file in files]
        instants = np.sort(np.concatenate(parts))
        return instants[np.searchsorted(instants, after, "right") : np.searchsorted(instants, up_to, "right")]

    def chunks_after(self, instant: Micros) -> list[ChunkInfo]:
        """Published files that may hold changes after the instant, for queries over this one.

        Ticks have disjoint instants, so instants tell what has been taken in: counted from the beginning, they are the sequence numbers.
        """
        with self._lock:
            files = sorted(self._table.index.after(instant), key=_reading_order)
        return [
            ChunkInfo(
                file.path,
                file.bucket,
                file.rows,
                file.bytes,
                file.min_ts,
                file.max_ts,
                min_seq=file.min_ts - BEGINNING,
                max_seq=file.max_ts - BEGINNING,
            )
            for file in files
        ]

    def fold(
        self, horizon: Micros, followed_to: Callable[[], Micros] = lambda: LAST, *, is_stream: bool, fewest: int = _FEWEST_TO_FOLD
    ) -> bool:
        """Changes up to the horizon, as far as whole files hold them, are no longer known one by one.

        `followed_to` is asked last of all: somebody may have come meanwhile who has not got there yet.

        Of a relation, its rows at that instant stay.  To add these up costs as much as there are, so it is done when as many changes came.
        """
        with self._lock:
            files = sorted(self._table.index.before(horizon + 1), key=_reading_order)
            old = list(chain.from_iterable(_ended(_segments(files), self._table)))
            changed = sum(file.rows for file in old) - self._base_rows
        if not old or (not is_stream and changed < max(self._base_rows, fewest)):
            return False
        instant = max(file.max_ts for file in old)
        base = [] if is_stream else self._netted(old, instant)
        fault_point("changelog.folded")
        with self._lock:
            if not self._table.still_holds(old) or followed_to() < instant:
                self._table.delete_unnamed(base)
                return False
            before = self.whole_from, self.folded_to, self._base_rows
            self.folded_to, self._base_rows = instant, sum(file.rows for file in base)
            self.whole_from = instant + 1 if is_stream else self.whole_from
            try:
                self._table.replace(self._state(), old, base)
            except BaseException:
                self.whole_from, self.folded_to, self._base_rows = before
                raise
            return True

    def compact(
        self,
        *,
        upto_seq: int | None = None,
        horizon: Micros = NEVER_BEFORE,
        span_us: Micros | None = None,
        small_bytes: int = SMALL_BYTES,
        target_bytes: int = TARGET_BYTES,
        fan_in: int = FAN_IN,
        pace: Pace = AT_ONCE,
    ) -> int:
        """Merges small files of neighbouring ticks; returns how many files went.

        Beyond the horizon only those that end in the same span of time: a file can be folded when all of it lies before.  Files with
        changes beyond `upto_seq` stay as they are: queries over this one are not there yet.
        """
        with self._lock:
            settled = [file for file in self._table.index if upto_seq is None or file.max_ts - BEGINNING <= upto_seq]
            segments = _segments(sorted(settled, key=_reading_order))
        gone = 0
        for _, span in groupby(segments, key=lambda segment: _span(max(file.max_ts for file in segment), horizon, span_us)):
            neighbours = list(span)
            sizes = [sum(file.bytes for file in segment) for segment in neighbours]
            for start, stop in plan_merges(sizes, small_bytes=small_bytes, target_bytes=target_bytes, fan_in=fan_in):
                gone += self._merged(neighbours[start:stop], pace)
        return gone

    def _merged(self, segments: Sequence[Sequence[OutputFile]], pace: Pace) -> int:
        old, new = list(chain.from_iterable(segments)), merge_outputs(self.directory, segments, pace)
        fault_point("changelog.merged")
        with self._lock:
            if not self._table.still_holds(old):
                self._table.delete_unnamed([new])
                return 0
            self._table.rearrange(self._state(), old, [new])
            return len(old) - 1

    def vacuum(self, *, grace_s: float = GRACE_S, now_s: float | None = None) -> int:
        with self._lock:
            return self._table.vacuum(grace_s=grace_s, now_s=now_s)

    def sweep(self) -> int:
        """Deletes files that no commit names, left by a crash: after the recorded ticks are published, before the next tick starts."""
        with self._lock:
            return self._table.sweep()

    def close(self) -> None:
        self._table.close()

    def _netted(self, files: Sequence[OutputFile], instant: Micros) -> list[OutputFile]:
        """The rows that these changes add up to, as arrivals at the instant."""
        rows = pa.concat_tables([read_output(self.directory, file) for file in files])
        left = expanded(*netted(rows.drop_columns([INSTANT, DIFF]), rows.column(DIFF).to_numpy().astype(np.int64)))
        if not left.num_rows:
            return []
        batch = SignedBatch.arrivals(np.full(left.num_rows, instant, np.int64), _one_batch(left))
        return [write_output(self.directory, [batch], self.columns)]

    def _state(self) -> dict[str, int | str | None]:
        began = {_BEGAN: self.began.at, _COMPLETE_FROM: self.began.complete_from}
        follows = {} if self.follows is None and self.copied_to == NEVER_BEFORE else {_FOLLOWS: self.follows, _COPIED_TO: self.copied_to}
        return {"whole_from": self.whole_from, "folded_to": self.folded_to, "base_rows": self._base_rows, **began, **follows}

    def _nothing(self) -> pa.Table:
        return self._table.log.schema.empty_table()

    def _as_declared(self, rows: pa.Table) -> pa.Table:
        declared = [pa.field(field.name, field.type) for field in self._fields]
        return cast_columns(rows, pa.schema([*list(rows.schema)[:2], *declared]))


def _span(last: Micros, horizon: Micros, span_us: Micros | None) -> Micros | None:
    return None if span_us is None or last <= horizon else last // span_us


def _reading_order(file: OutputFile) -> tuple[Micros, str]:
    return file.min_ts, file.path


def _cut(instants: npt.NDArray[np.int64], most: int, upto: Micros) -> Micros:
    """The last instant that ends within the first `most` changes; the first one if none does."""
    if len(instants) <= most:
        return upto
    whole = int(np.searchsorted(instants, instants[most], "left"))  # changes before the instant that is cut
    return int(instants[max(whole - 1, 0)])


def _segments(files: Sequence[OutputFile]) -> list[list[OutputFile]]:
    """Files in reading order, cut wherever no file reaches across."""
    segments: list[list[OutputFile]] = []
    reach = NEVER_BEFORE
    for file in files:
        if file.min_ts > reach:
            segments.append([])
        segments[-1].append(file)
        reach = max(reach, file.max_ts)
    return segments


def _ended(segments: list[list[OutputFile]], table: TimedTable[OutputFile]) -> list[list[OutputFile]]:
    """Those that no other file of the table reaches into."""
    if not segments:
        return []
    inside = {file.path for segment in segments for file in segment}
    others = min((file.min_ts for file in table.index if file.path not in inside), default=LAST)
    return [segment for segment in segments if max(file.max_ts for file in segment) < others]


def _between(rows: pa.Table, after: Micros, up_to: Micros) -> pa.Table:
    instant = rows.column(INSTANT).cast(pa.int64())
    if not rows.num_rows or (pc.min(instant).as_py() > after and pc.max(instant).as_py() <= up_to):
        return rows
    return rows.filter(pc.and_(pc.greater(instant, after), pc.less_equal(instant, up_to)))


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    if not rows.num_columns:
        return pa.RecordBatch.from_arrays([], names=[])
    return rows.combine_chunks().to_batches()[0]
