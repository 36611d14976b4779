"""How lost caches come back: from snapshots and the log, before the query goes on as if nothing had happened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from millstream.core.errors import ClusterFailed, DataDamaged, MillstreamError, PlanChanged, StorageFailed
from millstream.runtime.running_query import RunningQuery
from millstream.runtime.standing import Standing
from millstream.runtime.tick import InputLog, Logs, Outcome, Span, can_look_back, failed, span_forward, span_replay

log = logging.getLogger(__name__)

MOST_REPLAYS = 5
"""How often a tick tries to bring lost caches back before it gives a query up."""

_LONG_AGO = 1 << 60

Run = Callable[[Sequence[Span]], list[Outcome]]


class Replays:
    """For one round; `run` carries spans out, `completed` says when the changes of a span could be known."""

    def __init__(self, standing: Standing, run: Run, completed: Callable[[Span], Span]) -> None:
        self._standing = standing
        self._run = run
        self._completed = completed

    def run_caught_up(self, spans: list[Span]) -> list[Outcome]:
        """Runs the spans; queries that have lost their caches are replayed first, and again if tasks keep moving between processes."""
        outcomes = self._run(spans)
        for _ in range(MOST_REPLAYS):
            missing = [outcome for outcome in outcomes if outcome.missing and outcome.span.query.error is None]
            if not missing:
                break
            log.info("caches are gone, replaying", extra={"queries": [outcome.span.query.name for outcome in missing]})
            self.replay([outcome.span.query for outcome in missing])
            again = [self._after_replay(outcome.span) for outcome in missing if outcome.span.query.error is None]
            outcomes = [outcome for outcome in outcomes if outcome not in missing] + self._run(again)
        return outcomes

    def replay(self, queries: Sequence[RunningQuery]) -> None:
        """Their caches as of their frontiers."""
        logs = logs_of_each(self._standing, queries)
        for query in [query for query in queries if query.error is None]:
            self._fit_snapshot(query, {name: logs[name] for name in query.inputs})
        outcomes = self._run([span_replay(query, logs) for query in queries if query.error is None])
        again = [query for outcome in outcomes if self._lost_snapshot(query := outcome.span.query, outcome, logs)]
        outcomes = [outcome for outcome in outcomes if outcome.span.query not in again]
        outcomes += self._run([span_replay(query, logs) for query in again])
        fail_all(outcome for outcome in outcomes if outcome.error is not None or outcome.missing)
        for outcome in outcomes:
            if outcome.span.query.error is None:
                outcome.span.query.fed = dict(outcome.span.fed)

    def _after_replay(self, span: Span) -> Span:
        """The same span for caches that have taken in all that the log held when they were replayed."""
        if span.wants_contents is not None:
            return replace(span, fed=span.query.fed, after=span.query.fed)
        again = span_forward(span.query, self._standing.logs([span.query]), span.frontier)
        return self._completed(replace(again, snapshot=span.snapshot))

    def _lost_snapshot(self, query: RunningQuery, outcome: Outcome, logs: Logs) -> bool:
        """Its snapshot is damaged, but the logs still hold all that it was made of; then it gets another at the next tick."""
        if query.snapshot is None or not isinstance(outcome.error, DataDamaged):
            return False
        if not can_look_back(query, {name: logs[name] for name in query.inputs}):
            return False
        log.warning("a snapshot cannot be read, replaying the log", extra={"query": query.name, "reason": outcome.error.message})
        query.snapshot, query.looks_back, query.ticks_since_snapshot = None, True, _LONG_AGO
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
            fail(
                query,
                PlanChanged("its plan is another one than that of its saved state, and the log is too short to do without", hint=hint),
            )


def logs_of_each(standing: Standing, queries: Sequence[RunningQuery]) -> Logs:
    """What these queries read; one stops alone if something that it reads is damaged."""
    logs: dict[str, InputLog] = {}
    for query in queries:
        try:
            logs.update(standing.logs([query]))
        except DataDamaged as error:
            fail(query, error)
    return logs


def fail_all(outcomes: Iterable[Outcome]) -> None:
    """A query that fails, fails alone.

    What the file system does not take, and workers that are lost as often as replaced, are nobody's fault: then there is no tick.
    """
    errors = [(outcome.span.query, failed(outcome)) for outcome in outcomes]
    for _, error in errors:
        if isinstance(error, StorageFailed | ClusterFailed):
            raise error
    for query, error in errors:
        fail(query, error)


def fail(query: RunningQuery, error: MillstreamError) -> None:
    query.error = error
    log.error("query stopped", extra={"query": query.name, "reason": str(error)})
