"""The driver's engine: standing queries come, change and go, and are asked; rounds carry streams to them (rounds.py).

Everything that changes what the database is goes through one lock; ingest only holds its stream's own.
The Delta tables of the results follow the records of ticks, at the latest when someone looks.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from millstream.core.errors import ClusterFailed, InstantPassed, MillstreamError, NotSupported, StorageFailed
from millstream.core.instant import BEGINNING, NEVER_BEFORE, Micros, format_instant
from millstream.plan.logical import BoundQuery
from millstream.plan.physical import Exec, PhysicalPlan, SourceExec, contents_fragment, functions, keeps_nothing
from millstream.plan.shared_subplans import found_in
from millstream.runtime.adding_up import added_up
from millstream.runtime.beside import Beside
from millstream.runtime.clock import Clock
from millstream.runtime.completeness import complete_from
from millstream.runtime.families import Families
from millstream.runtime.pulls.pulls import Pulls
from millstream.runtime.replays import fail
from millstream.runtime.results import own_columns, undone
from millstream.runtime.rounds import Rounds, TickReport
from millstream.runtime.runner import Runner
from millstream.runtime.running_query import RunningQuery, SnapshotRef, State, Switch, Terms, answer_fields, inputs_of, moved_by
from millstream.runtime.schedulers import SchedulerName
from millstream.runtime.sharing import SharedPart, shared_rows
from millstream.runtime.standing import Standing
from millstream.runtime.store_use import StoreUse
from millstream.runtime.switching import after_switch, difference
from millstream.runtime.tick import backlog
from millstream.runtime.upkeep import Upkeep
from millstream.runtime.upkeep_thread import UpkeepThread
from millstream.state.changelog import Beginning, Changelog
from millstream.state.location import Location
from millstream.state.pace import AT_ONCE, Pace

log = logging.getLogger(__name__)

MANY_ROWS = 500_000
"""A query that has more rows than this to catch up with does so beside the others."""
HEAVY_S = 1.0
"""A query whose rounds keep a worker busy for so long, ..."""
HEAVY_SHARE = 4
"""... so many times longer than all the others together, ..."""
HEAVY_ROUNDS = 3
"""... so many times in a row, goes on beside them."""


class Engine:
    def __init__(
        self, location: Location, runner: Runner, scheduler: SchedulerName = "fifo", clock: Clock | None = None,
        sys_interval: float | None = 0.0, *, share_windows: bool = True, share_selections: bool = True, share_subplans: bool = True,
    ) -> None:  # fmt: skip
        self.location = location
        self.runner = runner
        self.stands = Standing(location, clock or Clock(), sys_interval)
        self.streams, self.system, self.relations = self.stands.streams, self.stands.system, self.stands.relations
        self.queries, self.lock, self.committed = self.stands.queries, self.stands.lock, self.stands.committed
        self.pulls = Pulls(self.relations, self.lock, self.stands.clock, self.stands.first_told)
        self.shares_subplans = share_subplans
        self.rounds = Rounds(self.stands, runner, scheduler, share_windows=share_windows, share_subplans=share_subplans)
        self._upkeep = Upkeep(self.stands)
        self._upkeep_thread = UpkeepThread(self._upkeep.is_due, self.maintain)
        self._beside = Beside(self.stands, self.rounds)
        self.families = Families(self, self.stands, self.rounds, on=share_selections)
        self._unused: list[weakref.finalize[[str], RunningQuery]] = []

    # --- queries come

    def create_query(
        self, name: str, incarnation: str, bound: BoundQuery, plan: PhysicalPlan, terms: Terms | None = None
    ) -> RunningQuery:  # fmt: skip
        """A new standing query.  Over streams that have come somewhere already it answers at once, from what they retain."""
        with self.lock:
            try:
                query = self.add_query(name, incarnation, bound, plan, terms)
                if query.created_at > NEVER_BEFORE:
                    self._choose_lane(query)
                    self.ensure_started(query)
            except MillstreamError:
                self._undo_create(name)
                raise
            if query.error is not None:
                self.drop_query(query)
                raise query.error
            self._join_others(query)
            return query

    def _join_others(self, query: RunningQuery) -> None:
        """The selections that it could run together with, as soon as it is created."""
        common = self.families.common_of(query)
        if common is not None:
            self._bring_up(common)
            self.families.dissolve_failed()
        self.families.gather()

    def _undo_create(self, name: str) -> None:
        if name in self.queries:
            self.drop_query(self.queries[name])
        else:
            self.location.drop_query(name)

    def add_query(
        self, name: str, incarnation: str, bound: BoundQuery, plan: PhysicalPlan, terms: Terms | None = None
    ) -> RunningQuery:  # fmt: skip
        """A standing query; one that has run before goes on where its last committed tick left it, others begin where their inputs are,
        or where they are told to.

        One that stands in the catalog but has not begun was being created when a process died: it begins now.
        """
        terms = terms or Terms()
        with self.lock:
            last = self.rounds.ticks.last
            # not the last number: one that no record has is used again after a restart
            after_tick = -1 if last is None else last.tick
            began = partial(self._beginning, name, bound, plan, terms)
            changelog = Changelog.open(self.location, name, answer_fields(bound, plan), after_tick=after_tick, began=began)
            query = RunningQuery(
                name, incarnation, bound, plan, changelog, self.location.buckets, self.stands.clock.seconds(), changelog.began.at, terms,
                changelog.began.complete_from,
            )  # fmt: skip
            self.system.open_for(query.inputs)
            query.waits_for, query.paused = _absent_functions(plan), terms.is_paused
            self._go_on(query)
            changelog.sweep()
            self._upkeep.prune_snapshots(query)
            self.queries[name] = query
            self.families.welcome(query)
            self.stands.queries_changed()
            return query

    def _beginning(self, name: str, bound: BoundQuery, plan: PhysicalPlan, terms: Terms) -> Beginning:
        """Of a query that is created now."""
        inputs = inputs_of(plan)
        frontier = self.stands.frontier_over(inputs)
        at = terms.start if isinstance(terms.start, int) else frontier
        if at > frontier:
            upto = "nowhere yet" if frontier == NEVER_BEFORE else f"only at {format_instant(frontier)}"
            raise NotSupported(
                f'query "{name}" cannot start at {format_instant(at)}: what it reads is {upto}', hint="Leave START away, or START NOW."
            )
        if isinstance(terms.start, int):
            self._check_known_then(name, inputs, at)
        return Beginning(at, NEVER_BEFORE if terms.start == "now" else self._complete_from(bound, plan, at))

    def _check_known_then(self, name: str, inputs: Mapping[str, SourceExec], at: Micros) -> None:
        """What relations and answers were at an instant of the past is known as long as their changes are."""
        for source in inputs.values():
            if source.kind == "relation":
                known = self.relations.log(source.name).base_instant
            else:
                known = self.queries[source.name].changelog.folded_to if source.kind == "query" else NEVER_BEFORE
            if at < known:
                kept = format_instant(known)
                message = f'query "{name}" cannot start at {format_instant(at)}: "{source.name}" keeps its past from {kept}'
                raise InstantPassed(message, hint=f"Start at {kept} or later.")

    def _complete_from(self, bound: BoundQuery, plan: PhysicalPlan, at: Micros) -> Micros:
        if bound.is_stream and keeps_nothing(plan):
            return NEVER_BEFORE
        logs = self.stands.logs_of(inputs_of(plan))
        return complete_from(plan, logs, {name: self.queries[name].complete_from for name in logs if name in self.queries}, at)

    def _go_on(self, query: RunningQuery) -> None:
        """From its last committed tick."""
        last, key = self.rounds.ticks.last, query.incarnation
        if last is not None and key in last.frontiers:
            query.at, query.started = last.frontiers[key], True
            if key in last.snapshots:
                query.snapshot = self.rounds.located(SnapshotRef.from_json(last.snapshots[key]))
            # a crash may have come between a tick's commit and its place in the Delta table; publishing twice does nothing
            records = self.rounds.ticks.records
            query.unpublished = [(record.tick, record.outputs[key]) for record in records if key in record.outputs]
            query.publish()
        joined_at = query.changelog.copied_to
        if joined_at > NEVER_BEFORE:  # it has run together with others, or still does: what it saved before is too old
            query.at, query.started = max(query.at, joined_at), True
            if query.snapshot is None or query.snapshot.at < joined_at:
                query.snapshot, query.looks_back = None, True
        altered = query.terms.altered
        if altered is not None:
            query.complete_from = altered.complete_from
            has_shown = (last is not None and key in last.frontiers) or query.changelog.follows is not None or joined_at > altered.at
            if not has_shown:  # it has another plan, and its answer is still that of the old one
                query.at, query.started, query.looks_back, query.is_switching = altered.at, True, True, True

    def complete_query(self, query: RunningQuery, bound: BoundQuery, plan: PhysicalPlan) -> None:
        """Functions that it waited for are there: from now on it takes part in ticks, if none is missing still."""
        with self.lock:
            query.bound, query.plan, query.waits_for = bound, plan, _absent_functions(plan)
            self.stands.queries_changed()

    def ensure_started(self, query: RunningQuery) -> None:
        """A new query's first tick, if it has not been yet, after those of the queries that it reads."""
        with self.lock:
            if not query.started:
                self.families.leave(query)  # nobody else is to notice that it was asked before there was any time
            for inner in self.stands.inner(query):
                self.ensure_started(inner)
            if not query.started and query.state == "running":
                if query.lane == "front":
                    self.rounds.run([query])
                else:
                    self._beside.run_until(lambda: query.started or query.state != "running")

    def _choose_lane(self, query: RunningQuery) -> None:
        """Whoever has much of the past to catch up with does it beside those that are at work."""
        others = [other for other in self.stands.running() if other is not query and other.lane == "front"]
        if others and query.lane == "front" and backlog(query, self.stands.logs([query])) > MANY_ROWS:
            self.rounds.move(query, "beside")

    # --- they change

    def pause_query(self, query: RunningQuery) -> None:
        """It takes part in no round until it is resumed; what it has not seen yet is kept for it."""
        with self.lock:
            self._beside.await_idle(query)
            self.families.leave(query)
            query.paused = True
            self.stands.queries_changed()
            self.committed.notify_all()

    def resume_query(self, query: RunningQuery) -> None:
        """It goes on where it was, with every instant that it has missed."""
        with self.lock:
            query.paused = False
            self.stands.queries_changed()
            if query.started:
                self._choose_lane(query)
            self.committed.notify_all()

    def alter_query(
        self, query: RunningQuery, incarnation: str, bound: BoundQuery, plan: PhysicalPlan, save: Callable[[Beginning | None], None]
    ) -> None:
        """Another plan for it, with an answer of the same columns; `save` makes it so on disk.  If anything fails, nothing has changed."""
        with self.lock:
            self._beside.await_idle(query)
            self.families.leave(query)
            self._bring_up(query)
            if query.error is not None:
                raise query.error
            query.publish()
            altered = Beginning(query.at, self._complete_from(bound, plan, query.at)) if query.started else None
            other = self._with_other_plan(query, incarnation, bound, plan, altered)
            owed = self._difference(query, other) if query.started else None
            save(altered)
            self.rounds.leave_lane(query)
            query.adopt(other, owed)
            self.families.welcome(query)
            self.stands.queries_changed()
            self.committed.notify_all()

    def _bring_up(self, query: RunningQuery) -> None:
        """To where its inputs are, with all that it reads: what happens to it then does not depend on when ticks were."""
        for inner in self.stands.inner(query):
            self._bring_up(inner)
        while query.state == "running" and query.lane == "front" and self.stands.is_due(query):
            self._settle(query)  # which may move it beside, or stop it
            if query.state == "running" and query.lane == "front":
                self.rounds.run([query])

    def _with_other_plan(
        self, query: RunningQuery, incarnation: str, bound: BoundQuery, plan: PhysicalPlan, altered: Beginning | None
    ) -> RunningQuery:
        """Not yet known to anybody: it has to show that it works."""
        terms = replace(query.terms, altered=altered)
        other = RunningQuery(
            query.name, incarnation, bound, plan, query.changelog, self.location.buckets, query.added, query.created_at, terms
        )
        other.at, other.lane, other.waits_for = query.at, query.lane, _absent_functions(plan)
        other.complete_from = query.complete_from if altered is None else altered.complete_from
        return other

    def _difference(self, query: RunningQuery, other: RunningQuery) -> Switch:
        """Between the answers of both plans where they meet; afterwards the caches of the other are there."""
        self._choose_lane(other)
        query.is_busy = True
        try:
            in_front = other.lane == "front"
            after = self.rounds.first_answer(other) if in_front else self._beside.call(lambda: self.rounds.first_answer(other))
        finally:
            query.is_busy = False
        before = after.slice(0, 0) if query.is_stream else self._told(query)
        return difference(query.at, before, after)

    def _settle(self, query: RunningQuery) -> None:
        """After a restart, what a query owes since it was altered is not known yet.  If it cannot be computed any more, it fails alone."""
        if query.is_switching and query.owes is None and query.error is None and not query.is_busy:
            other = self._with_other_plan(query, query.incarnation, query.bound, query.plan, query.terms.altered)
            try:
                query.adopt(other, self._difference(query, other))
            except (StorageFailed, ClusterFailed):
                raise
            except MillstreamError as error:
                fail(query, error)
                self.stands.queries_changed()

    # --- they go

    def stop_query(self, query: RunningQuery) -> None:
        """It takes part in no further tick; its files stay.

        A saved query stays known: it goes on when the database is opened again, so its place in the tick log, its streams
        and the rows that it has not seen yet must all be there then.
        """
        with self.lock:
            if query.stopped:
                return
            self._beside.await_idle(query)
            if not query.dropped:
                self.families.leave(query)
            self.families.forget(query)
            query.stopped = True
            self.stands.queries_changed()
            query.stats.let_go()
            self.rounds.leave_lane(query)
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
            self._beside.await_idle(query)
            query.dropped = True
            self.stop_query(query)
            self._forget(query)
            self.location.drop_query(query.name)

    def _forget(self, query: RunningQuery) -> None:
        if self.queries.get(query.name) is query:
            del self.queries[query.name]

    def close(self) -> None:
        """Snapshots, so that the next run starts where this one ends; then the results' tables."""
        self._beside.stop()
        self._upkeep_thread.stop()
        with self.lock:
            running = [query for query in self.stands.running() if query.started and query.fed and not query.is_switching]
            stale = [query for query in running if query.snapshot is None or query.snapshot.at != query.at]
            try:
                in_front = [query for query in stale if query.lane == "front"]
                if in_front:
                    self.rounds.run(in_front, snapshot=True)
                for query in stale:
                    if query.lane == "beside":
                        self.rounds.run_beside([query], snapshot=True)
                self.publish()
                self.families.bring_over(all_=True)
            except (StorageFailed, ClusterFailed) as error:
                # what is committed is there; the next run has more to replay and to publish
                log.warning("the database is closed without snapshots", extra={"reason": error.message})
            self._maintain_after_a_short_run()
            for unused in self._unused:
                unused.detach()  # from now on the directory may be another's
            for query in list(self.queries.values()):
                query.stopped = True
                query.changelog.close()
            self.committed.notify_all()
            for stream in self.streams.everything:
                stream.log.close()

    def _maintain_after_a_short_run(self) -> None:
        """One run after the other may be too short for it ever to be due, and what they leave would pile up."""
        if self._upkeep.has_run:
            return
        try:
            self.maintain()
        except StorageFailed as error:
            log.warning("the database is closed without upkeep", extra={"reason": error.message})

    # --- time

    def flush(self) -> None:
        """Ticks until every query has reached its frontier; results are in their Delta tables afterwards."""
        self.streams.advance_idle()
        while True:
            while self.tick() is not None or self.pulls.await_answers():
                pass
            if not self._beside.is_due():
                break
            self._beside.run_until(lambda: False)
        self.publish()

    def tick(self) -> TickReport | None:
        """One committed tick of the queries in front, or None if nothing is due."""
        with self.lock:
            for query in [query for query in self.stands.running() if query.is_switching]:
                self._settle(query)  # before anybody looks at what is due: it may let others in
            self.families.dissolve_failed()  # nor may anybody wait for a common query that failed between two ticks
            due = self.pulls.ready(self._due() if not self.system.is_wanted(self.stands.running()) else self._due_with_report())
            if not due:
                return None
            report = self.rounds.run(due)
            self.families.dissolve_failed()
            self.families.gather()
            self._find_heavy(due)
            return report

    def let_others_go_on(self) -> None:
        """The queries beside, in a thread of theirs; raises what has stopped them."""
        self._beside.kick()

    def _due(self) -> list[RunningQuery]:
        return [query for query in self.stands.running() if query.lane == "front" and not query.is_busy and self.stands.is_due(query)]

    def _due_with_report(self) -> list[RunningQuery]:
        """What is due, after a report on SYS if it is time for one: its readers are, then."""
        news = self.system.news(self.stands.visible())  # before anybody looks at what is due: what comes meanwhile is news again
        due = self._due()
        if not self.system.is_due(news, caught_up=not due):
            return due
        reports = self.rounds.reports
        last = reports[-1].seconds if reports else 0.0
        held = sum(query.stats.state_bytes for query in self.queries.values())
        account = {"ticks": self.rounds.done, "tick_seconds": last, "queries": len(self.stands.visible()), "state_bytes": held}
        self.system.report(self.stands.visible(), account, news, caught_up=not due)
        return self._due()

    def _find_heavy(self, done: Sequence[RunningQuery]) -> None:
        """A query that holds all the others up again and again goes on beside them, as soon as it has a snapshot to begin with there."""
        total = sum(query.last_seconds for query in done)
        others = any(query.lane == "front" for query in self.stands.running() if query not in done) or len(done) > 1
        for query in done:
            is_heavy = others and not query.is_common and query.last_seconds > max(HEAVY_S, HEAVY_SHARE * (total - query.last_seconds))
            query.heavy_rounds = query.heavy_rounds + 1 if is_heavy else 0
            if query.heavy_rounds > HEAVY_ROUNDS and query.snapshot is not None and query.snapshot.at == query.at:
                self.rounds.move(query, "beside")
            elif query.heavy_rounds >= HEAVY_ROUNDS:
                query.wants_snapshot = True

    def await_progress(self, query: RunningQuery, seen: Micros) -> tuple[bool, Micros]:
        """Wait until the query has got beyond `seen` or stopped: (does it still run, its frontier)."""
        with self.committed:
            self.committed.wait_for(lambda: query.at > seen or query.stopped or query.error is not None)
            return not query.stopped and query.error is None, query.at

    def maintain_if_due(self) -> None:
        """The same as `maintain`, now and then."""
        if self._upkeep.is_due():
            self.maintain()

    def let_upkeep_go_on(self) -> None:
        """The same, in a thread of its own; raises what went wrong there the last time."""
        self._upkeep_thread.kick()

    def maintain(self, pace: Pace = AT_ONCE) -> None:
        """Keep the logs and the results in shape: old chunks go, small files are merged, replaced ones are deleted."""
        with self.lock:
            self.rounds.forget_dead()
            self.rounds.prune_records()
        self.families.bring_over()
        self._upkeep.run(pace)

    # --- results

    def earliest_change(self, relation: str) -> Micros:
        return self.stands.earliest_change(relation)

    def standing(self, query: RunningQuery) -> tuple[State, str]:
        """Whether it goes on, and why not."""
        with self.lock:
            return self.stands.state_of(query)

    def stores(self) -> list[StoreUse]:
        with self.lock:
            return self.rounds.stores()

    def sharing(self) -> list[SharedPart]:
        """Operators that run once for several queries, then rows that are kept once for several."""
        with self.lock:
            return [*self.families.sharing(), *self.rounds.sharing(), *shared_rows(self.rounds.stores())]

    def found_in(self, plan: PhysicalPlan) -> list[dict[Exec, tuple[str, ...]]]:
        """Of each fragment of a plan: the parts that a query with it would have in common with those that run, and their names."""
        with self.lock:
            alike = [
                query for query in self.stands.running() if self.shares_subplans and not query.is_common
                if query.lane == "front" and not query.is_partial and query.ignores_before == NEVER_BEFORE
                if moved_by(query.inputs) == moved_by(inputs_of(plan)) and query.buckets == self.location.buckets
            ]  # fmt: skip
            return found_in(plan, {query.name: query.plan for query in alike})

    def publish(self) -> None:
        """Bring the results' Delta tables up to the last committed tick."""
        with self.lock:
            for query in self.queries.values():
                if query.common is None:  # the others follow when somebody looks
                    query.publish()
            self.rounds.mark_published()

    def changes(self, query: RunningQuery, since: Micros | None = None) -> pa.Table:
        """Every committed change, in instant order: instant, diff, then the query's columns."""
        with self.lock:
            query.publish()
            if since is not None and since > NEVER_BEFORE:
                _check_kept(query, since)
        return query.changelog.read(since=since)

    def contents(self, query: RunningQuery, at: Micros | None = None) -> pa.Table:
        """The relation at the query's frontier, or at an earlier instant; of a stream, its elements up to there."""
        while (found := self._contents(query, at)) is None:
            log.debug("the past of a query was folded while somebody looked at it", extra={"query": query.name})
        return found

    def _contents(self, query: RunningQuery, at: Micros | None) -> pa.Table | None:
        """None if the changelog was folded beyond that instant meanwhile: what takes long is done without the lock."""
        with self.lock:
            self._beside.await_idle(query)
            if at is not None:
                _check_answered(query, at)
            now = max(query.at, BEGINNING)  # what stands there before any event
            is_now = at is None or at >= query.at
            if is_now and query.state == "running" and not query.is_stream:
                self._settle(query)
            kept = self._kept(query)
            owes = query.owes if is_now else None
            query.publish()
        upto = now if at is None or is_now else at
        if query.is_stream:
            return own_columns(query.changelog.read(until=upto))
        if kept is None:
            found = self._added_up(query, upto)
        elif is_now:
            found = kept
        else:
            before = undone(kept, query.changelog.read(since=upto, until=now))
            found = before if query.changelog.folded_to <= upto else None
        return found if owes is None or found is None else after_switch(found, owes)

    def _told(self, query: RunningQuery) -> pa.Table:
        """The relation that its changes so far add up to, while the lock is held."""
        if (kept := self._kept(query)) is not None:
            return kept
        query.publish()
        found = self._added_up(query, max(query.at, BEGINNING))
        assert found is not None, "nothing is folded beyond the frontier"
        return found

    def _kept(self, query: RunningQuery) -> pa.Table | None:
        """The relation at the frontier, as the operators have it; None if they do not, or not the one that its changes so far add up to."""
        if query.is_stream or query.is_switching or not self._can_ask(query):
            return None
        if query.common is not None:
            rows = self.families.contents(query)
            return None if rows is None else self._named(query, [rows])
        fragment = contents_fragment(query.plan)
        return None if fragment is None else self._named(query, self.rounds.ask_contents(query, fragment))

    def _added_up(self, query: RunningQuery, upto: Micros) -> pa.Table | None:
        if (found := added_up(query.changelog, upto, query.so_far)) is None:
            return None
        if query.so_far is None or query.so_far.at < found.at:
            query.so_far = found
        return found.rows

    def _named(self, query: RunningQuery, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, query.plan.schema.to_arrow()).rename_columns(list(query.bound.names))

    def _can_ask(self, query: RunningQuery) -> bool:
        """What a stopped query's caches would be rebuilt from may have left the log; its changes stay."""
        return query.started and query.state in ("running", "paused")


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
