"""The driver's engine: streams, standing queries, and the tick that carries the one to the other.

Everything that changes what the database is goes through one lock; ingest only holds its stream's own.
What is true is what the tick log says: a tick's outputs exist once its record does.  The Delta tables
of the results follow the records, at the latest when someone looks.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa

from millstream.core.errors import ClusterFailed, DataDamaged, InstantPassed, MillstreamError, NotSupported, PlanChanged, StorageFailed
from millstream.core.instant import BEGINNING, NEVER_BEFORE, UNITS, Micros, format_instant
from millstream.plan.logical import BoundQuery
from millstream.plan.physical import PhysicalPlan, SourceExec, contents_fragment, functions, sources
from millstream.plan.shared_reading import SharedSources, spread_over
from millstream.runtime.clock import Clock
from millstream.runtime.exchange import read_contents
from millstream.runtime.messages import StoreSize
from millstream.runtime.output_delay import releases
from millstream.runtime.relations import Relations
from millstream.runtime.results import elements, folded, undone
from millstream.runtime.runner import Runner
from millstream.runtime.running_query import RunningQuery, SnapshotRef, State, answer_fields, inputs_of
from millstream.runtime.schedulers import SchedulerName
from millstream.runtime.store_use import StoreUse, used_stores
from millstream.runtime.streams import OpenStream, Streams
from millstream.runtime.system_stream import SystemStream
from millstream.runtime.tick import InputLog, Logs, Outcome, Span, TickRun, can_look_back, failed, span_forward, span_replay
from millstream.state.changelog import Changelog
from millstream.state.location import Location
from millstream.state.snapshot import prune_snapshots
from millstream.state.tick_record import TickLog, TickRecord

log = logging.getLogger(__name__)

SNAPSHOT_ROWS = 4_000_000
"""A query is snapshotted when replaying it would take in more rows than this, ..."""
SNAPSHOT_TICKS = 300
"""... or when it has been this many ticks."""
DEFAULT_RETENTION_US = UNITS["DAY"]
"""A stream without RETAIN keeps this much event time, and always what live windows need."""
MOST_REPLAYS = 5
"""How often a tick tries to bring lost caches back before it gives a query up."""
MAINTAIN_S = 10.0
"""How often small files are merged and old ones go, at the most."""
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


class Engine:
    def __init__(
        self, location: Location, runner: Runner, scheduler: SchedulerName = "fifo", clock: Clock | None = None,
        sys_interval: float | None = 0.0, *, share_windows: bool = True,
    ) -> None:  # fmt: skip
        self.location = location
        self.runner = runner
        self._scheduler: SchedulerName = scheduler
        self._share_windows = share_windows
        self._stores: dict[int, tuple[StoreSize, ...]] = {}  # by bucket, as its worker last said
        self._clock = clock or Clock()
        self._maintained = self._clock.seconds()
        self.streams = Streams(location, self._clock)
        self.system = SystemStream(self.streams, self._clock, sys_interval)
        self.relations = Relations(location)
        self.queries: dict[str, RunningQuery] = {}
        self.lock = threading.RLock()
        self.committed = threading.Condition(self.lock)
        self.reports: list[TickReport] = []
        self._ticks_done = 0
        self._unused: list[weakref.finalize[[str], RunningQuery]] = []
        self._to_forget = False  # workers may still keep caches of queries that have stopped
        self._ticks = TickLog.open(location)
        self._tick = self._ticks.last.tick if self._ticks.last else 0
        # caches of an earlier run of this database in the same executors are not ours
        self._database = uuid.uuid4().hex

    # --- queries

    def create_query(
        self, name: str, incarnation: str, bound: BoundQuery, plan: PhysicalPlan, retain_us: Micros | None = None
    ) -> RunningQuery:
        """A new standing query.  Over streams that have come somewhere already it answers at once, from what they retain."""
        with self.lock:
            try:
                query = self.add_query(name, incarnation, bound, plan, retain_us)
                if query.created_at > NEVER_BEFORE:
                    self.ensure_started(query)
            except MillstreamError:
                self._undo_create(name)
                raise
            if query.error is not None:
                self.drop_query(query)
                raise query.error
            return query

    def _undo_create(self, name: str) -> None:
        if name in self.queries:
            self.drop_query(self.queries[name])
        else:
            self.location.drop_query(name)

    def add_query(
        self, name: str, incarnation: str, bound: BoundQuery, plan: PhysicalPlan, retain_us: Micros | None = None
    ) -> RunningQuery:
        """A standing query; one that has run before goes on where its last committed tick left it, others begin where their inputs are.

        One that stands in the catalog but has not begun was being created when a process died: it begins now.
        """
        with self.lock:
            last = self._ticks.last
            # not self._tick: a number that no record has is used again after a restart
            after_tick = -1 if last is None else last.tick
            began = partial(self._frontier_over, inputs_of(plan))
            changelog = Changelog.open(self.location, name, answer_fields(bound, plan), after_tick=after_tick, began=began)
            query = RunningQuery(
                name, incarnation, bound, plan, changelog, self.location.buckets, self._clock.seconds(), changelog.began, retain_us
            )  # fmt: skip
            self.system.open_for(query.inputs)
            query.waits_for = _absent_functions(plan)
            if last is not None and incarnation in last.frontiers:
                query.at, query.started = last.frontiers[incarnation], True
                if incarnation in last.snapshots:
                    query.snapshot = self._located(SnapshotRef.from_json(last.snapshots[incarnation]))
                # a crash may have come between a tick's commit and its place in the Delta table; publishing twice does nothing
                query.unpublished = [
                    (record.tick, record.outputs[incarnation]) for record in self._ticks.records if incarnation in record.outputs
                ]
                query.publish()
            changelog.sweep()
            self._prune_snapshots(query)
            self.queries[name] = query
            return query

    def complete_query(self, query: RunningQuery, bound: BoundQuery, plan: PhysicalPlan) -> None:
        """Functions that it waited for are there: from now on it takes part in ticks, if none is missing still."""
        with self.lock:
            query.bound, query.plan, query.waits_for = bound, plan, _absent_functions(plan)

    def stop_query(self, query: RunningQuery) -> None:
        """It takes part in no further tick; its files stay.

        A saved query stays known: it goes on when the database is opened again, so its place in the tick log, its streams
        and the rows that it has not seen yet must all be there then.
        """
        with self.lock:
            if query.stopped:
                return
            query.stopped = True
            query.stats.let_go()
            self._to_forget = True
            if not query.dropped:
                query.publish()
            if not query.is_saved:
                self._forget(query)
                self._drop_when_unused(query)
            self.committed.notify_all()

    def _drop_when_unused(self, query: RunningQuery) -> None:
        """Its answer can be read as long as somebody has a handle."""
        self._unused = [each for each in self._unused if each.alive]
        self._unused.append(weakref.finalize(query, self.location.drop_query, query.name))
        self._unused[-1].atexit = False

    def drop_query(self, query: RunningQuery) -> None:
        with self.lock:
            query.dropped = True
            self.stop_query(query)
            self._forget(query)
            self.location.drop_query(query.name)

    def _forget(self, query: RunningQuery) -> None:
        if self.queries.get(query.name) is query:
            del self.queries[query.name]

    def ensure_started(self, query: RunningQuery) -> None:
        """A new query's first tick, if it has not been yet, after those of the queries that it reads."""
        with self.lock:
            for inner in self._inner(query):
                self.ensure_started(inner)
            if not query.started and query.state == "running":
                self._run_tick([query], snapshot=False)

    def await_progress(self, query: RunningQuery, seen: Micros) -> tuple[bool, Micros]:
        """Wait until the query has got beyond `seen` or stopped: (does it still run, its frontier)."""
        with self.committed:
            self.committed.wait_for(lambda: query.at > seen or query.stopped or query.error is not None)
            return not query.stopped and query.error is None, query.at

    def close(self) -> None:
        """Snapshots, so that the next run starts where this one ends; then the results' tables."""
        with self.lock:
            running = [query for query in self._running() if query.started and query.fed]
            stale = [query for query in running if query.snapshot is None or query.snapshot.at != query.at]
            try:
                if stale:
                    self._run_tick(stale, snapshot=True)
                self.publish()
            except (StorageFailed, ClusterFailed) as error:
                # what is committed is there; the next run has more to replay and to publish
                log.warning("the database is closed without snapshots", extra={"reason": error.message})
            for unused in self._unused:
                unused.detach()  # from now on the directory may be another's
            for query in list(self.queries.values()):
                query.stopped = True
                query.changelog.close()
            self.committed.notify_all()
            for stream in self.streams.everything:
                stream.log.close()

    def maintain_if_due(self) -> None:
        """The same as `maintain`, now and then."""
        if self._clock.seconds() - self._maintained >= MAINTAIN_S:
            self._maintained = self._clock.seconds()
            self.maintain()

    def maintain(self) -> None:
        """Keep the logs and the results in shape: old chunks go, small files are merged, replaced ones are deleted."""
        with self.lock:
            streams = [
                (stream, self._taken_in(stream.entry.name), self._horizon(stream, self._readers(stream.entry.name)))
                for stream in self.streams.everything
            ]
            for stream, _, horizon in streams:
                stream.log.retain(horizon, rejected_before=self._clock.now() - _retention_us(stream))
            results = [(query, self._taken_in(query.name), self._kept_from(query)) for query in self.queries.values()]
            self._let_workers_forget(self._new_run())
            self._ticks.prune(self._tick - KEPT_TICKS)
            for query in self.queries.values():
                if query.snapshot is not None:
                    self._prune_snapshots(query)
            for name in self.relations:
                settled = self._settled(name)
                with _damage_told(f'relation "{name}"'):
                    self.relations.bring_to(name, self.earliest_change(name))
                    self.relations.maintain(name, settled, self._taken_in(name))
        # merging reads and writes files: nobody has to wait for it
        for stream, bound, horizon in streams:
            with _damage_told(f'stream "{stream.entry.name}"', partial(self._is_dropped, stream)):
                stream.log.compact(upto_seq=bound, span_us=_about_an_eighth(stream.frontier - horizon))
                stream.log.vacuum()
        for query, bound, kept_from in results:
            with _damage_told(f'query "{query.name}"', partial(getattr, query, "dropped")):
                query.changelog.fold(kept_from, query.followed_to, is_stream=query.is_stream)
                span_us = None if query.retain_us is None else _about_an_eighth(query.retain_us)
                query.changelog.compact(upto_seq=bound, horizon=kept_from, span_us=span_us)
                query.changelog.vacuum()

    def _let_workers_forget(self, run: TickRun) -> None:
        """Workers hear with every task who still lives, but not every bucket has one in every tick."""
        if self._to_forget:
            run.visit(max((query.buckets for query in self.queries.values()), default=self.location.buckets))
            self._stores |= run.stores
            self._to_forget = False

    def _is_dropped(self, stream: OpenStream) -> bool:
        return stream not in self.streams.everything

    def _readers(self, name: str) -> list[RunningQuery]:
        return [query for query in self.queries.values() if name in query.inputs]

    def _taken_in(self, name: str) -> int | None:
        """The sequence number up to which every query over this input has its rows; None if there is no such query."""
        return min((query.fed.get(name, -1) for query in self._readers(name)), default=None)

    def _settled(self, relation: str) -> Micros:
        """The instant up to which nobody needs to know the relation's changes one by one: neither to go on nor to begin."""
        known = [stream.frontier for stream in self.streams.everything if stream.frontier > NEVER_BEFORE]
        known += [query.snapshot.at if query.snapshot else query.at for query in self._readers(relation)]
        return min(known, default=NEVER_BEFORE)

    def _located(self, snapshot: SnapshotRef) -> SnapshotRef:
        """Records name it from the location on, which may have been moved or copied since."""
        return replace(snapshot, stem=str(self.location.path / snapshot.stem))

    def _unlocated(self, snapshot: SnapshotRef) -> SnapshotRef:
        return replace(snapshot, stem=str(Path(snapshot.stem).relative_to(self.location.path)))

    def _prune_snapshots(self, query: RunningQuery) -> None:
        """Only the last snapshot of a query is ever read."""
        stem = Path(query.snapshot.stem) if query.snapshot is not None else None
        files = [file.name for file in stem.parent.glob(f"{stem.name}-*")] if stem is not None else []
        prune_snapshots(self.location.snapshot_dir(query.name), keep=files)

    def _horizon(self, stream: OpenStream, readers: list[RunningQuery]) -> Micros:
        """Rows before this instant are needed by nobody: not by retention, not by a window, not for a replay."""
        return min([stream.frontier - _retention_us(stream), *map(_replayed_from, readers)])

    def _kept_from(self, query: RunningQuery) -> Micros:
        """Changes of its answer up to this instant need not be known one by one: not by retention, not by sinks, not for a replay of
        who reads it.
        """
        if query.retain_us is None:
            return NEVER_BEFORE
        needed = [query.at - query.retain_us, query.followed_to()]
        return min([*needed, *(_replayed_from(reader) - 1 for reader in self._readers(query.name))])

    # --- the tick

    def flush(self) -> None:
        """Ticks until every query has reached its frontier; results are in their Delta tables afterwards."""
        self.streams.advance_idle()
        while self.tick() is not None:
            pass
        self.publish()

    def tick(self) -> TickReport | None:
        """One committed tick, or None if nothing is due."""
        with self.lock:
            due = self._due() if not self.system.is_wanted(self._running()) else self._due_with_report()
            return self._run_tick(due, snapshot=False) if due else None

    def _due(self) -> list[RunningQuery]:
        return [query for query in self._running() if self._is_due(query)]

    def _due_with_report(self) -> list[RunningQuery]:
        """What is due, after a report on SYS if it is time for one: its readers are, then."""
        news = self.system.news(self.queries.values())  # before anybody looks at what is due: what comes meanwhile is news again
        due = self._due()
        if not self.system.is_due(news, caught_up=not due):
            return due
        last = self.reports[-1].seconds if self.reports else 0.0
        held = sum(query.stats.state_bytes for query in self.queries.values())
        account = {"ticks": self._ticks_done, "tick_seconds": last, "queries": len(self.queries), "state_bytes": held}
        self.system.report(self.queries.values(), account, news, caught_up=not due)
        return self._due()

    def _running(self) -> list[RunningQuery]:
        return [query for query in self.queries.values() if query.state == "running"]

    def _is_due(self, query: RunningQuery) -> bool:
        """Before there is any time, nothing is: what a relation gets until then, it has had since ever."""
        return self.frontier_of(query) > query.at

    def frontier_of(self, query: RunningQuery) -> Micros:
        """The least frontier of the streams and queries that it reads; relations hold nothing back."""
        return self._frontier_over(query.inputs)

    def _frontier_over(self, inputs: Mapping[str, SourceExec]) -> Micros:
        self.system.open_for(inputs)
        frontiers = [self._frontier(source) for source in inputs.values() if source.kind != "relation"]
        if frontiers:
            return min(frontiers)
        greatest = self.streams.greatest_frontier
        return NEVER_BEFORE if greatest is None else greatest

    def earliest_change(self, relation: str) -> Micros:
        """The instant at which a change of the relation takes effect if nobody asks for a later one."""
        greatest = self.streams.greatest_frontier
        told = [query.at for query in self._readers(relation)]  # before there is any time: only by who has been asked already
        done = self.relations.log(relation).last_instant  # changes come in order, also when whoever was told is not there any more
        return max(BEGINNING if greatest is None else greatest + 1, max(told, default=NEVER_BEFORE) + 1, done)

    def _frontier(self, source: SourceExec) -> Micros:
        return self.streams[source.name].frontier if source.kind == "stream" else self.queries[source.name].at

    def _inner(self, query: RunningQuery) -> list[RunningQuery]:
        """The queries that it reads."""
        return [self.queries[source.name] for source in query.inputs.values() if source.kind == "query"]

    def standing(self, query: RunningQuery) -> tuple[State, str]:
        """Whether it goes on, and why not: it does not either if a query that it reads does not."""
        with self.lock:
            if query.state != "running":
                return query.state, query.reason
            idle = [(inner.name, state) for inner in self._inner(query) if (state := self.standing(inner)[0]) != "running"]
            if not idle:
                return "running", ""
            return "waiting", "waits for query " + ", ".join(f'"{name}" ({state})' for name, state in idle)

    def _logs(self, queries: Sequence[RunningQuery]) -> Logs:
        """What these queries read, up to what is committed."""
        logs: dict[str, InputLog] = {}
        for source in (source for query in queries for source in query.inputs.values()):
            match source.kind:
                case "stream":
                    logs[source.name] = self.streams[source.name].log
                case "relation":
                    self.relations.bring_to(source.name, self.earliest_change(source.name))
                    logs[source.name] = self.relations.log(source.name)
                case "query":
                    self.queries[source.name].publish()
                    logs[source.name] = self.queries[source.name].changelog
        return logs

    def _logs_of_each(self, queries: Sequence[RunningQuery]) -> Logs:
        """The same; a query stops alone if something that it reads is damaged."""
        logs: dict[str, InputLog] = {}
        for query in queries:
            try:
                logs.update(self._logs([query]))
            except DataDamaged as error:
                self._fail(query, error)
        return logs

    def _run_tick(self, due: list[RunningQuery], *, snapshot: bool) -> TickReport:
        started = time.perf_counter()
        self._tick += 1
        run = self._new_run()
        try:
            self._let_workers_forget(run)
            outcomes = self._outcomes(run, due, snapshot=snapshot)
            self._stores |= run.stores
            self._commit([outcome for outcome in outcomes if outcome.error is None])
        except (StorageFailed, ClusterFailed):
            run.delete_files()
            raise
        finally:
            shutil.rmtree(self.location.exchange_dir / str(self._tick), ignore_errors=True)
        report = TickReport(
            self._tick, time.perf_counter() - started, sum(o.rows_in for o in outcomes), sum(o.rows_out for o in outcomes), len(outcomes)
        )
        self.reports = [*self.reports[-999:], report]
        self._ticks_done += 1
        self.committed.notify_all()
        return report

    def _outcomes(self, run: TickRun, due: list[RunningQuery], *, snapshot: bool) -> list[Outcome]:
        """Replays what has no caches, then steps everything; a query that fails, fails alone."""
        cold = [query for query in due if query.started and not query.fed]
        self._replay(run, cold)
        # streams may move meanwhile: what relations get up to here comes after
        frontiers = {query.name: self.frontier_of(query) for query in due if query.error is None}
        logs = self._logs_of_each([query for query in due if query.error is None])
        forward = [span_forward(query, logs, frontiers[query.name]) for query in due if query.error is None]
        spans = [self._with_snapshot(self._with_releases(span), snapshot) for span in forward]
        outcomes = self._run_caught_up(run, spans)
        self._fail_all(outcome for outcome in outcomes if outcome.error is not None or outcome.missing)
        return [outcome for outcome in outcomes if not outcome.missing]

    def _fail_all(self, outcomes: Iterable[Outcome]) -> None:
        """A query that fails, fails alone.

        What the file system does not take, and workers that are lost as often as replaced, are nobody's fault: then there is no tick.
        """
        errors = [(outcome.span.query, failed(outcome)) for outcome in outcomes]
        for _, error in errors:
            if isinstance(error, StorageFailed | ClusterFailed):
                raise error
        for query, error in errors:
            self._fail(query, error)

    def _run_caught_up(self, run: TickRun, spans: list[Span]) -> list[Outcome]:
        """Runs the spans; queries that have lost their caches are replayed first, and again if tasks keep moving between processes."""
        outcomes = run.run(spans)
        for _ in range(MOST_REPLAYS):
            missing = [outcome for outcome in outcomes if outcome.missing and outcome.span.query.error is None]
            if not missing:
                break
            log.info("caches are gone, replaying", extra={"queries": [outcome.span.query.name for outcome in missing]})
            self._replay(run, [outcome.span.query for outcome in missing])
            again = [self._after_replay(outcome.span) for outcome in missing if outcome.span.query.error is None]
            outcomes = [outcome for outcome in outcomes if outcome not in missing] + run.run(again)
        return outcomes

    def _after_replay(self, span: Span) -> Span:
        """The same span for caches that have taken in all that the log held when they were replayed."""
        if span.wants_contents is not None:
            return replace(span, fed=span.query.fed, after=span.query.fed)
        again = span_forward(span.query, self._logs([span.query]), span.frontier)
        return self._with_releases(replace(again, snapshot=span.snapshot))

    def _replay(self, run: TickRun, queries: list[RunningQuery]) -> None:
        """Their caches as of their frontiers, from snapshots and the log."""
        logs = self._logs_of_each(queries)
        for query in [query for query in queries if query.error is None]:
            self._fit_snapshot(query, {name: logs[name] for name in query.inputs})
        outcomes = run.run([span_replay(query, logs) for query in queries if query.error is None])
        again = [query for outcome in outcomes if self._lost_snapshot(query := outcome.span.query, outcome, logs)]
        outcomes = [outcome for outcome in outcomes if outcome.span.query not in again]
        outcomes += run.run([span_replay(query, logs) for query in again])
        self._fail_all(outcome for outcome in outcomes if outcome.error is not None or outcome.missing)
        for outcome in outcomes:
            if outcome.span.query.error is None:
                outcome.span.query.fed = dict(outcome.span.fed)

    def _lost_snapshot(self, query: RunningQuery, outcome: Outcome, logs: Logs) -> bool:
        """Its snapshot is damaged, but the logs still hold all that it was made of; then it gets another at the next tick."""
        if query.snapshot is None or not isinstance(outcome.error, DataDamaged):
            return False
        if not can_look_back(query, {name: logs[name] for name in query.inputs}):
            return False
        log.warning("a snapshot cannot be read, replaying the log", extra={"query": query.name, "reason": outcome.error.message})
        query.snapshot, query.looks_back, query.ticks_since_snapshot = None, True, SNAPSHOT_TICKS
        return True

    def _fit_snapshot(self, query: RunningQuery, logs: Logs) -> None:
        """A snapshot of other operators or another number of buckets is of no use.

        Then the caches come from the logs, if these still reach back as far as the windows do.  If not, the query keeps its old number of
        buckets; with other operators, its state is lost to it.
        """
        snapshot, in_one = query.snapshot, all(fragment.single for fragment in query.plan.fragments)
        if snapshot is None or (snapshot.plan == query.plan_id and (snapshot.buckets == query.buckets or in_one)):
            return
        if can_look_back(query, logs):
            log.info("rebuilding a query from the log", extra={"query": query.name, "buckets": query.buckets})
            query.snapshot, query.looks_back = None, True
        elif snapshot.plan == query.plan_id:
            log.warning(
                "a query keeps its number of buckets: the log no longer has all that its state is made of",
                extra={"query": query.name, "buckets": snapshot.buckets},
            )
            query.buckets = snapshot.buckets
        else:
            hint = "Open the database with the same version and the same rules_off as before, or drop the query and create it again."
            self._fail(
                query,
                PlanChanged("its plan is another one than that of its saved state, and the log is too short to do without", hint=hint),
            )

    def _with_snapshot(self, span: Span, wanted: bool) -> Span:
        rows = span.query.rows_since_snapshot + sum(chunk.rows for chunks in span.chunks.values() for chunk in chunks)
        due = wanted or span.snapshot or rows > SNAPSHOT_ROWS or span.query.ticks_since_snapshot >= SNAPSHOT_TICKS
        return replace(span, snapshot=due)

    def _with_releases(self, span: Span) -> Span:
        """A query over relations alone follows the first of all streams, the others follow the last of theirs."""
        names = self._streams_below(span.query)
        moves = [stream.moves for stream in self.streams.everything if stream.entry.name in names] or [each.moves for each in self.streams]
        since = NEVER_BEFORE if span.query.may_be_late else span.at
        known = releases(moves, since, span.frontier, span.query.added, self._clock.seconds(), any_will_do=not names)
        return replace(span, releases=known)

    def _streams_below(self, query: RunningQuery) -> set[str]:
        """The streams that it reads, itself or through other queries."""
        own = {source.name for source in query.inputs.values() if source.kind == "stream"}
        return own.union(*(self._streams_below(inner) for inner in self._inner(query)))

    def _forget_moves(self) -> None:
        """Of frontiers that every running query has followed, and none can be late with."""
        followed: dict[str, Micros] = {}
        for query in self._running():
            for name in self._streams_below(query) or {stream.entry.name for stream in self.streams}:
                at = NEVER_BEFORE if query.may_be_late else query.at
                followed[name] = min(at, followed.get(name, at))
        for stream in self.streams.everything:
            stream.moves.forget(followed.get(stream.entry.name, stream.frontier))

    def _new_run(self) -> TickRun:
        """Workers keep the caches of queries that are not stopped: those of the others are not asked any more."""
        live = [query for query in self.queries.values() if not query.stopped]
        read = (
            spread_over(source, query.buckets) for query in live for fragment in query.plan.fragments for source in sources(fragment.root)
        )
        return TickRun(
            self.runner, self.location, self._database, self._tick, frozenset(query.incarnation for query in live), self._scheduler,
            SharedSources(read, on=self._share_windows),
        )  # fmt: skip

    def _commit(self, outcomes: list[Outcome]) -> None:
        last = self._ticks.last
        known = {query.incarnation for query in self.queries.values()}
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
        versions = {stream.entry.name: stream.log.version for stream in self.streams.everything}
        self._ticks.append(TickRecord(self._tick, frontiers, versions, outputs, snapshots))
        committed = self._clock.seconds()
        for outcome in outcomes:
            self._apply(outcome, committed)
        self._forget_moves()

    def _apply(self, outcome: Outcome, committed: float) -> None:
        query, span = outcome.span.query, outcome.span
        query.at, query.started, query.fed = span.frontier, True, dict(span.fed)
        if outcome.outputs:
            query.unpublished.append((self._tick, outcome.outputs))
        query.rows_since_snapshot += outcome.rows_in
        query.ticks_since_snapshot += 1
        if outcome.snapshot is not None:
            query.snapshot, query.looks_back = _snapshot(outcome), False
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
        stats.ticks += 1
        stats.count(outcome.sources, outcome.operators)

    def _fail(self, query: RunningQuery, error: MillstreamError) -> None:
        query.error = error
        log.error("query stopped", extra={"query": query.name, "reason": str(error)})

    def stores(self) -> list[StoreUse]:
        """The rows of sources that workers keep, all buckets together, and the queries that read them."""
        with self.lock:
            return used_stores(
                chain.from_iterable(self._stores.values()), {query.incarnation: query.name for query in self.queries.values()}
            )

    # --- results

    def publish(self) -> None:
        """Bring the results' Delta tables up to the last committed tick."""
        with self.lock:
            for query in self.queries.values():
                query.publish()
            self._ticks.mark_published(self._tick)

    def changes(self, query: RunningQuery, since: Micros | None = None) -> pa.Table:
        """Every committed change, in instant order: instant, diff, then the query's columns."""
        with self.lock:
            query.publish()
            if since is not None and since > NEVER_BEFORE:
                _check_kept(query, since)
        return query.changelog.read(since=since)

    def contents(self, query: RunningQuery, at: Micros | None = None) -> pa.Table:
        """The relation at the query's frontier, or at an earlier instant: then with the changes since undone."""
        with self.lock:
            if at is not None:
                _check_answered(query, at)
            if query.is_stream:
                return elements(self.changes(query), at)
            fragment = contents_fragment(query.plan)
            # what a stopped query's caches would be rebuilt from may have left the log; its changes stay
            if fragment is None or not query.started or query.state != "running":
                return folded(self.changes(query), at)
            batches = self._ask_contents(query, fragment)
            now = pa.Table.from_batches(batches, query.plan.schema.to_arrow()).rename_columns(list(query.bound.names))
            return now if at is None or at >= query.at else undone(now, self.changes(query, since=at))

    def _ask_contents(self, query: RunningQuery, fragment: int) -> list[pa.RecordBatch]:
        self._tick += 1  # exchange files of their own; no record is written, the number is simply not used by a tick
        run = self._new_run()
        if not query.fed:
            self._replay(run, [query])
        if query.error is not None:
            raise query.error
        span = Span(query, query.at, query.at, query.fed, dict.fromkeys(query.inputs, ()), query.fed, wants_contents=fragment)
        (outcome,) = self._run_caught_up(run, [span])
        if outcome.error is not None or outcome.missing:
            raise failed(outcome)
        batches = [read_contents(path) for path in outcome.contents]
        shutil.rmtree(self.location.exchange_dir / str(self._tick), ignore_errors=True)
        return batches


def _replayed_from(query: RunningQuery) -> Micros:
    """The instant from which on it needs the rows that it reads, should its caches get lost."""
    return query.snapshot.at - query.held_us if query.snapshot else NEVER_BEFORE


def _snapshot(outcome: Outcome) -> SnapshotRef:
    assert outcome.snapshot is not None
    query = outcome.span.query
    return SnapshotRef(outcome.snapshot, outcome.span.frontier, query.buckets, query.plan_id)


def _absent_functions(plan: PhysicalPlan) -> tuple[str, ...]:
    used = {function for fragment in plan.fragments for function in functions(fragment.root)}
    return tuple(sorted(function.name for function in used if function.pickled is None))


def _check_answered(query: RunningQuery, at: Micros) -> None:
    """An answer is known from where the query began up to its frontier."""
    if at > query.at:
        upto = f"only up to {format_instant(query.at)}" if query.started else "nowhere yet"
        raise NotSupported(
            f'the answer of query "{query.name}" is final {upto}, not at {format_instant(at)}',
            hint="Ask for an earlier instant." if query.stopped else "Advance its streams and flush, or ask for an earlier instant.",
        )
    _check_kept(query, at)
    if at < query.created_at:
        began = format_instant(query.created_at)
        raise InstantPassed(
            f'query "{query.name}" began at {began} and has no answer for {format_instant(at)}', hint=f"Ask for {began} or later."
        )


def _check_kept(query: RunningQuery, at: Micros) -> None:
    if at < query.changelog.folded_to:
        kept = format_instant(query.changelog.folded_to)
        raise InstantPassed(
            f'query "{query.name}" keeps its past from {kept}: {format_instant(at)} is gone', hint=f"Ask for {kept} or later."
        )


@contextmanager
def _damage_told(what: str, is_gone: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Files that cannot be read stay as they are; the others are looked after all the same.  What has been dropped meanwhile has none."""
    try:
        yield
    except (DataDamaged, StorageFailed) as error:
        if is_gone():
            return
        if isinstance(error, StorageFailed):
            raise
        log.error("damaged files are left alone: %s: %s", what, error.message)


def _about_an_eighth(kept_us: Micros) -> Micros:
    """A power of two: what is kept may vary a little, and spans of time must not."""
    return 1 << max(0, (kept_us // 8).bit_length() - 1)


def _retention_us(stream: OpenStream) -> Micros:
    return DEFAULT_RETENTION_US if stream.entry.retain_us is None else stream.entry.retain_us
