"""Rounds: what is due of the standing queries is carried out by workers, and committed.

What is true is what the tick log says: a round's outputs exist once its record does.

There are two lanes, each with worker processes of its own.  In front are the queries that keep up with their streams: a round of theirs
holds the lock from its beginning to its commit, and is short.  Beside are those that would hold the others up: queries that have much of
the past to catch up with, and heavy ones.  A round of theirs lets go of the lock while its workers work, so that the queries in front
tick on; meanwhile its queries are busy, and whoever wants something of them waits.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa

from millstream.core.errors import ClusterFailed, StorageFailed
from millstream.core.instant import NEVER_BEFORE
from millstream.plan.physical import sources
from millstream.plan.shared_reading import SharedSources, spread_over
from millstream.plan.shared_subplans import CommonSubplans
from millstream.runtime.exchange import read_contents
from millstream.runtime.messages import CommonPart, Selections, StoreSize
from millstream.runtime.output_delay import releases
from millstream.runtime.replays import Replays, fail_all, logs_of_each
from millstream.runtime.runner import Runner
from millstream.runtime.running_query import LaneName, RunningQuery, SnapshotRef
from millstream.runtime.schedulers import SchedulerName
from millstream.runtime.sharing import SharedPart, shared_parts
from millstream.runtime.stage_clock import added
from millstream.runtime.standing import Standing
from millstream.runtime.store_use import StoreUse, used_stores
from millstream.runtime.switching import answer_in, with_difference
from millstream.runtime.tick import Outcome, Span, TickRun, failed, first_span, span_forward
from millstream.state.tick_record import TickLog, TickRecord

log = logging.getLogger(__name__)

SNAPSHOT_ROWS = 4_000_000
"""A query is snapshotted when replaying it would take in more rows than this, ..."""
SNAPSHOT_TICKS = 300
"""... or when it has been this many ticks."""
SNAPSHOT_STATES = 2
"""Where it holds more than half of so many rows, both are more: a snapshot writes all that it holds, for so many times as many rows."""
KEPT_TICKS = 20
"""Records of this many ticks stay readable behind the last, for people who look."""


@dataclass(frozen=True)
class TickReport:
    """What a committed tick did, for the profile and the screen."""

    tick: int
    seconds: float
    rows: int
    changes: int
    queries: int


@dataclass
class Lane:
    """Worker processes, and what the driver knows of them."""

    name: LaneName
    runner: Runner
    stores: dict[int, tuple[StoreSize, ...]] = field(default_factory=dict)  # by bucket, as its worker last said
    common: dict[int, tuple[CommonPart, ...]] = field(default_factory=dict)  # likewise: what runs once for several queries
    to_forget: bool = False  # workers may still keep caches of queries that are not here any more

    def note(self, run: TickRun) -> None:
        self.stores |= run.stores
        self.common |= run.common


class Rounds:
    def __init__(self, standing: Standing, runner: Runner, scheduler: SchedulerName, *, share_windows: bool, share_subplans: bool) -> None:
        self._standing = standing
        self._scheduler: SchedulerName = scheduler
        self._share_windows = share_windows
        self._common = CommonSubplans(on=share_subplans)
        self._lanes: dict[LaneName, Lane] = {"front": Lane("front", runner)}
        self._running_beside = threading.Lock()
        self.ticks = TickLog.open(standing.location)
        self._number = self.ticks.last.tick if self.ticks.last else 0
        # caches of an earlier run of this database in the same executors are not ours
        self._database = uuid.uuid4().hex
        self.reports: list[TickReport] = []
        self.done = 0

    # --- lanes

    def lane(self, name: LaneName) -> Lane:
        if name not in self._lanes:
            self._lanes[name] = Lane(name, self._lanes["front"].runner.beside())
        return self._lanes[name]

    def leave_lane(self, query: RunningQuery) -> None:
        """Its caches there are of no use any more."""
        if query.lane in self._lanes:
            self._lanes[query.lane].to_forget = True

    def move(self, query: RunningQuery, lane: LaneName) -> None:
        """Its caches are built again there, from its snapshot and the log."""
        if query.lane != lane:
            log.info("a query changes its lane", extra={"query": query.name, "lane": lane})
            self.leave_lane(query)
            query.lane, query.fed = lane, {}

    def forget_dead(self) -> None:
        """Workers hear with every task who still lives, but not every bucket has one in every tick."""
        for lane in self._lanes.values():
            if lane.to_forget and not self.is_busy(lane.name):
                self._forget_dead(lane, self._new_run(lane))

    def is_busy(self, lane: LaneName) -> bool:
        return any(query.is_busy and query.lane == lane for query in self._standing.queries.values())

    def stores(self) -> list[StoreUse]:
        """The rows of sources that workers keep, all buckets together, and the queries that read them."""
        queries = self._standing.queries.values()
        names = {query.incarnation: f"{len(query.members)} selections" if query.is_common else query.name for query in queries}
        return used_stores(chain.from_iterable(chain.from_iterable(lane.stores.values() for lane in self._lanes.values())), names)

    def sharing(self) -> list[SharedPart]:
        """What runs once for several queries, as of the last round."""
        names = {query.incarnation: query.name for query in self._standing.queries.values()}
        return shared_parts(chain.from_iterable(chain.from_iterable(lane.common.values() for lane in self._lanes.values())), names)

    # --- a round

    def run(self, due: Sequence[RunningQuery], *, snapshot: bool = False) -> TickReport:
        """A committed round of queries in front; whoever calls has the lock."""
        return self._run(self.lane("front"), due, snapshot=snapshot)

    def run_beside(self, due: Sequence[RunningQuery], *, snapshot: bool = False) -> TickReport | None:
        """The same for queries beside, with the lock let go of in between; whoever calls has it once.  None: another one is running."""
        if not self._running_beside.acquire(blocking=False):
            return None
        try:
            for query in due:
                query.is_busy = True
            return self._run(self.lane("beside"), due, snapshot=snapshot)
        finally:
            for query in due:
                query.is_busy = False
            self._standing.committed.notify_all()
            self._running_beside.release()

    def _run(self, lane: Lane, due: Sequence[RunningQuery], *, snapshot: bool) -> TickReport:
        started = time.perf_counter()
        run = self._new_run(lane)
        try:
            self._forget_dead(lane, run)
            outcomes = self._outcomes(lane, run, due, snapshot=snapshot)
            lane.note(run)
            before_commit = time.perf_counter()
            number = self._commit([outcome for outcome in outcomes if outcome.error is None])
            _count_driver(outcomes, before_commit - started - run.job_seconds, time.perf_counter() - before_commit)
        except (StorageFailed, ClusterFailed):
            run.delete_files()
            raise
        finally:
            shutil.rmtree(run.exchange_dir, ignore_errors=True)
        rows, changes = sum(outcome.rows_in for outcome in outcomes), sum(outcome.rows_out for outcome in outcomes)
        report = TickReport(number, time.perf_counter() - started, rows, changes, len(outcomes))
        self.reports = [*self.reports[-999:], report]
        self.done += 1
        if any(query.error is not None for query in due):
            self._standing.queries_changed()
        self._standing.committed.notify_all()
        return report

    def _outcomes(self, lane: Lane, run: TickRun, due: Sequence[RunningQuery], *, snapshot: bool) -> list[Outcome]:
        """Replays what has no caches, then steps everything; a query that fails, fails alone."""
        stands = self._standing
        replays = self._replays(lane, run)
        replays.replay([query for query in due if query.started and not query.fed])
        # streams may move meanwhile: what relations get up to here comes after
        frontiers = {query.name: stands.frontier_of(query) for query in due if query.error is None}
        logs = logs_of_each(stands, [query for query in due if query.error is None])
        most = {query.name: None if lane.name == "front" else query.step_rows for query in due}
        forward = [span_forward(query, logs, frontiers[query.name], most[query.name]) for query in due if query.error is None]
        spans = [self._with_snapshot(self._with_releases(span), snapshot) for span in forward]
        outcomes = replays.run_caught_up(spans)
        fail_all(outcome for outcome in outcomes if outcome.error is not None or outcome.missing)
        for outcome in outcomes:
            if _switches(outcome.span) and outcome.error is None and not outcome.missing:
                outcome.outputs = with_difference(outcome.span.query, outcome.outputs)
        return [outcome for outcome in outcomes if not outcome.missing]

    def _replays(self, lane: Lane, run: TickRun) -> Replays:
        def carried_out(spans: Sequence[Span]) -> list[Outcome]:
            with self._others_let_in(lane):
                return run.run(spans)

        return Replays(self._standing, carried_out, self._with_releases)

    @contextmanager
    def _others_let_in(self, lane: Lane) -> Iterator[None]:
        """While the workers of the lane beside work, the lock is anybody's."""
        if lane.name == "front":
            yield
            return
        self._standing.lock.release()
        try:
            yield
        finally:
            self._standing.lock.acquire()

    def _with_snapshot(self, span: Span, wanted: bool) -> Span:
        rows = span.query.rows_since_snapshot + sum(chunk.rows for chunks in span.chunks.values() for chunk in chunks)
        size = max(1.0, SNAPSHOT_STATES * span.query.stats.state_rows / SNAPSHOT_ROWS)
        due = (
            wanted
            or span.snapshot
            or span.query.wants_snapshot
            or _switches(span)
            or rows > SNAPSHOT_ROWS * size
            or span.query.ticks_since_snapshot >= SNAPSHOT_TICKS * size
        )
        return replace(span, snapshot=due)

    def _with_releases(self, span: Span) -> Span:
        """A query over relations alone follows the first of all streams, the others follow the last of theirs."""
        stands = self._standing
        names = stands.streams_below(span.query)
        moves = [stream.moves for stream in stands.streams.everything if stream.entry.name in names] or [
            each.moves for each in stands.streams
        ]
        since = NEVER_BEFORE if span.query.may_be_late else span.at
        known = releases(moves, since, span.frontier, span.query.added, stands.clock.seconds(), any_will_do=not names)
        return replace(span, releases=known)

    def _new_run(self, lane: Lane, new: Sequence[RunningQuery] = ()) -> TickRun:
        """Workers keep the caches of the queries of their lane that are not stopped: those of the others are not asked any more."""
        queries = (query for query in self._standing.queries.values() if query.common is None)
        known = [query for query in queries if not query.stopped and query.lane == lane.name]
        live = [*known, *new]
        read = (
            spread_over(source, query.buckets) for query in live for fragment in query.plan.fragments for source in sources(fragment.root)
        )
        return TickRun(
            lane.runner, self._standing.location, self._database, self._next_number(), frozenset(query.incarnation for query in live),
            self._scheduler, SharedSources(read, on=self._share_windows), self._common,
        )  # fmt: skip

    def _forget_dead(self, lane: Lane, run: TickRun) -> None:
        if lane.to_forget:
            queries = self._standing.queries.values()
            run.visit(max((query.buckets for query in queries if query.lane == lane.name), default=self._standing.location.buckets))
            lane.note(run)
            lane.to_forget = False

    def _next_number(self) -> int:
        """Of a run or a record: one that no record has is used again after a restart."""
        self._number += 1
        return self._number

    # --- its commit

    def _commit(self, outcomes: list[Outcome]) -> int:
        stands, last = self._standing, self.ticks.last
        known = {query.incarnation for query in stands.queries.values()}
        frontiers = {key: at for key, at in (last.frontiers if last else {}).items() if key in known}
        snapshots = {key: ref for key, ref in (last.snapshots if last else {}).items() if key in known}
        outputs = {}
        for outcome in outcomes:
            key = outcome.span.query.incarnation
            frontiers[key] = outcome.span.frontier
            if outcome.snapshot is not None:
                snapshots[key] = self._unlocated(_snapshot(outcome)).to_json()
            if outcome.outputs:
                outputs[key] = outcome.outputs
        versions = {stream.entry.name: stream.log.version for stream in stands.streams.everything}
        number = self._next_number()
        self.ticks.append(TickRecord(number, frontiers, versions, outputs, snapshots))
        committed = stands.clock.seconds()
        for outcome in outcomes:
            _apply(outcome, number, committed)
        self._forget_moves()
        return number

    def prune_records(self) -> None:
        records = self.ticks.records
        if len(records) > KEPT_TICKS:
            self.ticks.prune(records[-KEPT_TICKS].tick)

    def located(self, snapshot: SnapshotRef) -> SnapshotRef:
        """Records name it from the location on, which may have been moved or copied since."""
        return replace(snapshot, stem=str(self._standing.location.path / snapshot.stem))

    def _unlocated(self, snapshot: SnapshotRef) -> SnapshotRef:
        return replace(snapshot, stem=str(Path(snapshot.stem).relative_to(self._standing.location.path)))

    def _forget_moves(self) -> None:
        """Of frontiers that every running query has followed, and none can be late with."""
        stands = self._standing
        followed: dict[str, int] = {}
        for query in stands.running():
            for name in stands.streams_below(query) or {stream.entry.name for stream in stands.streams}:
                at = NEVER_BEFORE if query.may_be_late else query.at
                followed[name] = min(at, followed.get(name, at))
        for stream in stands.streams.everything:
            stream.moves.forget(followed.get(stream.entry.name, stream.frontier))

    def mark_published(self) -> None:
        if self.ticks.last is not None:
            self.ticks.mark_published(self.ticks.last.tick)

    # --- a question to the caches

    def first_answer(self, query: RunningQuery) -> pa.Table:
        """Of a query that nobody knows yet, where it begins; its caches are there afterwards, and no record is written."""
        lane = self.lane(query.lane)
        run = self._new_run(lane, [query])
        span = replace(first_span(query, self._standing.logs([query]), query.begins_at), snapshot=False)
        try:
            with self._others_let_in(lane):
                (outcome,) = run.run([span])
            if outcome.error is not None or outcome.missing:
                raise failed(outcome)
            query.fed = dict(span.fed)
            return answer_in(query.changelog, outcome.outputs)
        finally:
            run.delete_files()
            shutil.rmtree(run.exchange_dir, ignore_errors=True)

    def ask_contents(self, query: RunningQuery, fragment: int, selections: Selections | None = None) -> list[pa.RecordBatch]:
        """What the caches of a query hold that is not busy; no record is written."""
        lane = self.lane(query.lane)
        run = self._new_run(lane)
        replays = Replays(self._standing, run.run, self._with_releases)
        if not query.fed:
            replays.replay([query])
        if query.error is not None:
            raise query.error
        span = Span(query, query.at, query.at, query.fed, dict.fromkeys(query.inputs, ()), query.fed, wants_contents=fragment)
        span = replace(span, selections=selections)
        (outcome,) = replays.run_caught_up([span])
        if outcome.error is not None or outcome.missing:
            raise failed(outcome)
        batches = [read_contents(path) for path in outcome.contents]
        shutil.rmtree(run.exchange_dir, ignore_errors=True)
        return batches


def _apply(outcome: Outcome, tick: int, committed: float) -> None:
    query, span = outcome.span.query, outcome.span
    query.at, query.started, query.fed = span.frontier, True, dict(span.fed)
    for member in query.members.values():
        member.at, member.started = query.at, True
        member.stats.ticks += 1
    if _switches(span):
        query.is_switching, query.owes = False, None
    query.last_seconds = outcome.seconds / query.buckets
    if outcome.outputs:
        query.unpublished.append((tick, outcome.outputs))
    query.rows_since_snapshot += outcome.rows_in
    query.ticks_since_snapshot += 1
    if outcome.snapshot is not None:
        query.snapshot, query.looks_back, query.wants_snapshot = _snapshot(outcome), False, False
        query.rows_since_snapshot = query.ticks_since_snapshot = 0
    stats = query.stats
    stats.rows_in += outcome.rows_in
    stats.changes_out += outcome.rows_out
    stats.state_rows = outcome.state_rows
    stats.waiting_rows, stats.store_bytes = outcome.waiting_rows, outcome.store_bytes
    if span.releases is not None:
        for released in outcome.released:
            stats.delay.count(committed, span.releases.since, released)
    stats.worker_seconds += outcome.seconds
    stats.stages = added(stats.stages, outcome.stages)
    stats.ticks += 1
    stats.count(outcome.sources, outcome.operators)


def _count_driver(outcomes: Sequence[Outcome], prepared: float, commit: float) -> None:
    """What the driver does for a round, for each query its part."""
    for outcome in outcomes:
        stats = outcome.span.query.stats
        stats.stages = added(stats.stages, {"driver": prepared, "commit": commit}, 1 / len(outcomes))


def _switches(span: Span) -> bool:
    """Whether it is here that the query's other plan shows: with the first instant after it was altered."""
    return span.query.is_switching and span.frontier > span.at


def _snapshot(outcome: Outcome) -> SnapshotRef:
    assert outcome.snapshot is not None
    query = outcome.span.query
    return SnapshotRef(outcome.snapshot, outcome.span.frontier, query.buckets, query.plan_id)
