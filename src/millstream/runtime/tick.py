"""One tick: everything new, up to the frontier, through all stages of all due queries.

    due queries ─► feeds (chunks since last time) ─► map stage, if there is much to split
                ─► stage 1, 2, ... (one task per bucket) ─► outcomes

A tick decides nothing about durability: its outcomes become true when the engine commits them.
A query whose caches are gone is replayed from its snapshot first, without showing anything, and then
takes part like the others.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol

from millstream.core.errors import ClusterFailed, MillstreamError
from millstream.core.instant import BEGINNING, GONE_NEVER, NEVER_BEFORE, Micros
from millstream.plan.physical import PhysicalPlan, Single, SourceExec, receives, sources
from millstream.plan.shared_reading import SharedSources, spread_over
from millstream.plan.shared_subplans import CommonSubplans
from millstream.runtime.messages import (
    CommonPart,
    FragmentResult,
    FragmentTask,
    MapResult,
    MapTask,
    Rebuild,
    Selections,
    SourceFeed,
    StageResult,
    StageTask,
    StoreSize,
)
from millstream.runtime.nodes import OperatorProfile, Profile
from millstream.runtime.output_delay import Releases
from millstream.runtime.runner import Runner
from millstream.runtime.running_query import RunningQuery, moved_by
from millstream.runtime.schedulers import SchedulerName
from millstream.runtime.stage_clock import Seconds, added
from millstream.state.atomic import remove_file
from millstream.state.changelog import OutputFile
from millstream.state.chunk import ChunkInfo
from millstream.state.location import Location

log = logging.getLogger(__name__)

MAP_STAGE_ROWS = 1_000_000
"""A map stage must save this many decodings of a row per process to be worth its Spark job (measured: 40 ms against 40 ns);
otherwise every bucket reads the chunks itself and keeps its own rows."""
_EXPRESSIONS_WEIGH = 3
"""A source that filters or computes costs about this much more per row than one that only decodes."""

MOST_ROWS = 2_000_000
"""A tick takes in about this many rows at the most: a backlog is worked off in bounded steps."""


@dataclass(frozen=True)
class Span:
    """What one query does in this tick: from `at` to `frontier`, fed with these rows."""

    query: RunningQuery
    at: Micros
    frontier: Micros
    fed: dict[str, int]  # where the feeds end, per input
    chunks: dict[str, tuple[ChunkInfo, ...]]
    after: dict[str, int]
    since: dict[str, Micros] = field(default_factory=dict)  # of a rebuild: no row at or after this instant is missing, per input
    whole_from: dict[str, Micros] = field(default_factory=dict)  # of a rebuild: before this instant the log may have dropped rows
    rebuild: Rebuild | None = None
    emit: Literal["changes", "net", "nothing"] = "changes"
    snapshot: bool = False
    wants_contents: int | None = None  # the fragment that is asked
    releases: Releases | None = None  # when its changes could be known
    whole_to: Micros = GONE_NEVER  # of a rebuild: some rows after this instant come later
    selections: Selections | None = None  # where others than usual are asked for


@dataclass
class Outcome:
    """What came of a span."""

    span: Span
    outputs: list[OutputFile] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    snapshot: str | None = None
    missing: bool = False
    error: MillstreamError | None = None
    rows_in: int = 0
    rows_out: int = 0
    state_rows: int = 0
    waiting_rows: int = 0
    store_bytes: int = 0
    released: list[tuple[int, ...]] = field(default_factory=list)  # of each bucket with changes
    seconds: float = 0.0
    stages: Seconds = field(default_factory=dict)
    operators: dict[tuple[int, int], list[OperatorProfile]] = field(default_factory=dict)  # by fragment and place, one for each bucket
    sources: dict[tuple[int, int], list[Profile]] = field(default_factory=dict)  # likewise
    _sent: dict[int, list[str]] = field(default_factory=dict)  # fragment -> exchange files

    def take(self, result: FragmentResult) -> None:
        self.missing |= result.missing
        self.error = self.error or result.error
        if result.output is not None:
            self.outputs.append(result.output)
        if result.exchange is not None:
            self._sent.setdefault(result.number, []).append(result.exchange)
        if result.contents is not None:
            self.contents.append(result.contents)
        self.snapshot = result.snapshot or self.snapshot
        self.rows_in += result.rows_in if self.span.query.plan.fragments[result.number].stage == 1 else 0
        self.rows_out += result.rows_out if result.number == len(self.span.query.plan.fragments) - 1 else 0
        self.state_rows += result.state_rows
        self.waiting_rows += result.waiting_rows
        self.store_bytes += result.store_bytes
        self.released += [result.released] if result.released else []
        self.seconds += result.seconds
        self.stages = added(self.stages, result.stages)
        for place, profile in enumerate(result.operators):
            self.operators.setdefault((result.number, place), []).append(profile)
        for place, read in enumerate(result.sources):
            self.sources.setdefault((result.number, place), []).append(read)


# --- which rows -------------------------------------------------------------------------------


class InputLog(Protocol):
    """What a query reads: the log of a stream, of a relation, or of another query."""

    def chunks_after(self, ts: Micros) -> Sequence[ChunkInfo]:
        """Committed chunks that may hold rows after `ts`, in arrival order."""
        ...

    @property
    def whole_from(self) -> Micros:
        """No row at or after this instant has been dropped."""
        ...


Logs = Mapping[str, InputLog]


def span_forward(query: RunningQuery, logs: Logs, frontier: Micros, most_rows: int | None = None) -> Span:
    """From where the query is to `frontier`, or as far as a bounded number of rows carries it."""
    if not query.started:
        return first_span(query, logs, frontier, most_rows)
    frontier = max(frontier, query.at)  # it may have answered for the beginning of time before there was any frontier
    frontier = min(frontier, query.at + 1) if query.is_switching else frontier
    after = {name: query.fed[name] for name in query.inputs}
    # a row that is accepted lies beyond the frontier, so every chunk that came since has rows beyond `at`
    new = {name: [chunk for chunk in logs[name].chunks_after(query.at) if chunk.min_seq > after[name]] for name in query.inputs}
    chunks, bound = _bounded_in_all(new, query.at, most_rows or MOST_ROWS)
    return Span(query, query.at, min(frontier, bound), _fed(chunks, after), chunks, after)


def span_replay(query: RunningQuery, logs: Logs) -> Span:
    """From the last snapshot to where the query is, with nothing shown: afterwards all caches are there again."""
    start = query.snapshot.at if query.snapshot else NEVER_BEFORE
    if query.looks_back:
        since = _since(query, query.at, query.history_us, whole_relations=True)
    else:
        since = _since(query, start, query.held_us if query.snapshot else None)
    chunks, fed = _all_after(logs, since)
    rebuild = Rebuild(query.snapshot.stem if query.snapshot else None)
    return Span(query, start, query.at, fed, chunks, dict.fromkeys(chunks, -1), since, _whole_from(logs, since), rebuild, emit="nothing")


def can_look_back(query: RunningQuery, logs: Logs) -> bool:
    """Whether its caches can be had from what the logs hold now, without any snapshot."""
    since = _since(query, query.at, query.history_us)
    return all(log.whole_from <= since[name] for name, log in logs.items())


def first_span(query: RunningQuery, logs: Logs, frontier: Micros, most_rows: int | None = None) -> Span:
    """A query created before any event tells everything from the beginning, in bounded steps; one created later looks back as far as its
    windows reach, and begins with its answer at the frontier of that moment."""
    if query.begins_at == NEVER_BEFORE:
        since = _since(query, NEVER_BEFORE, None)
        chunks, bound = _bounded_in_all(_all_after(logs, since)[0], BEGINNING, most_rows or MOST_ROWS)
        after = dict.fromkeys(chunks, -1)
        return Span(
            query, NEVER_BEFORE, min(max(frontier, BEGINNING), bound), _fed(chunks, after), chunks, after, since, _whole_from(logs, since),
            Rebuild(None),
        )  # fmt: skip
    since = _since(query, query.begins_at, query.history_us, whole_relations=True)
    chunks, fed = _all_after(logs, since, query.begins_at)
    emit: Literal["net", "nothing"] = "nothing" if query.is_stream else "net"
    # snapshotted at once: what a later replay would start from may have left the log by then
    return Span(
        query, NEVER_BEFORE, query.begins_at, fed, chunks, dict.fromkeys(chunks, -1), since, _whole_from(logs, since), Rebuild(None), emit,
        snapshot=True, whole_to=query.begins_at,
    )  # fmt: skip


def _since(query: RunningQuery, at: Micros, reach: Micros | None, *, whole_relations: bool = False) -> dict[str, Micros]:
    """From where on it needs rows, per input: from `reach` before `at`, or all (None).

    What a relation holds adds up from all of its changes.
    """
    bound = max(NEVER_BEFORE if reach is None else at - reach, query.ignores_before)
    return {name: NEVER_BEFORE if whole_relations and source.retracts else bound for name, source in query.inputs.items()}


def _all_after(
    logs: Logs, since: Mapping[str, Micros], upto: Micros = GONE_NEVER
) -> tuple[dict[str, tuple[ChunkInfo, ...]], dict[str, int]]:
    """All chunks with rows at or after these instants, and the last sequence number among them; without those at the end that have only
    rows after `upto`."""
    chunks = {name: tuple(_reaching(logs[name].chunks_after(instant - 1), upto)) for name, instant in since.items()}
    return chunks, {name: max((chunk.max_seq for chunk in found), default=-1) for name, found in chunks.items()}


def _reaching(chunks: Sequence[ChunkInfo], upto: Micros) -> Sequence[ChunkInfo]:
    """As `_bounded`, the chunks of one ingest stay together."""
    end = max((place for place, chunk in enumerate(chunks, 1) if chunk.min_ts <= upto), default=0)
    last_seq = max((chunk.max_seq for chunk in chunks[:end]), default=-1)
    while end < len(chunks) and chunks[end].min_seq <= last_seq:
        last_seq, end = max(last_seq, chunks[end].max_seq), end + 1
    return chunks[:end]


def _whole_from(logs: Logs, names: Iterable[str]) -> dict[str, Micros]:
    return {name: logs[name].whole_from for name in names}


def backlog(query: RunningQuery, logs: Logs) -> int:
    """How many rows lie between what it has seen and the end of what it reads."""
    since = _since(query, query.begins_at, query.history_us, whole_relations=True)
    if query.started:
        since = dict.fromkeys(query.inputs, query.at + 1)
    return sum(chunk.rows for name, instant in since.items() for chunk in logs[name].chunks_after(instant - 1))


def _bounded_in_all(
    new: Mapping[str, Sequence[ChunkInfo]], at: Micros, most_rows: int
) -> tuple[dict[str, tuple[ChunkInfo, ...]], Micros]:  # fmt: skip
    """Of each input its part of so many rows, and the greatest frontier for which they are all there."""
    found = {name: _bounded(chunks, at, most_rows // max(1, len(new))) for name, chunks in new.items()}
    return {name: tuple(taken) for name, (taken, _) in found.items()}, min((bound for _, bound in found.values()), default=GONE_NEVER)


def _fed(chunks: Mapping[str, Sequence[ChunkInfo]], after: Mapping[str, int]) -> dict[str, int]:
    return {name: max((chunk.max_seq for chunk in taken), default=after[name]) for name, taken in chunks.items()}


def _bounded(chunks: Sequence[ChunkInfo], at: Micros, most_rows: int) -> tuple[Sequence[ChunkInfo], Micros]:
    """A prefix of about so many rows, and the greatest frontier for which it holds every row.

    The chunks of one ingest stay together: sequence numbers tell what has been fed, and theirs interleave.
    """
    if sum(chunk.rows for chunk in chunks) <= most_rows:
        return chunks, GONE_NEVER
    rows, last_seq = 0, -1
    for i, chunk in enumerate(chunks[:-1]):
        rows, last_seq = rows + chunk.rows, max(last_seq, chunk.max_seq)
        bound = min(later.min_ts for later in chunks[i + 1 :]) - 1 if rows >= most_rows else at
        if bound > at and chunks[i + 1].min_seq > last_seq:
            return chunks[: i + 1], bound
    return chunks, GONE_NEVER


# --- running them -----------------------------------------------------------------------------


class TickRun:
    """Runs spans through the stages; one object per tick."""

    def __init__(
        self, runner: Runner, location: Location, database: str, tick: int, live: frozenset[str], scheduler: SchedulerName,
        shared: SharedSources, common: CommonSubplans,
    ) -> None:  # fmt: skip
        self._runner = runner
        self._location = location
        self._database = database
        self._tick = tick
        self._live = live
        self._scheduler = scheduler
        self._shared = shared
        self._common = common
        self._together: dict[tuple[str, int], int] = {}  # which fragments of these spans may run in one circuit
        self.common: dict[int, tuple[CommonPart, ...]] = {}  # what runs once in each bucket, after its last task
        self.stores: dict[int, tuple[StoreSize, ...]] = {}  # those of each bucket, after its last task
        self._outcomes: list[Outcome] = []
        self.job_seconds = 0.0  # on the clock, in all jobs so far
        self.exchange_dir = str(location.exchange_dir / str(tick))

    def run(self, spans: Sequence[Span]) -> list[Outcome]:
        outcomes = {span.query.incarnation: Outcome(span) for span in spans}
        self._outcomes += outcomes.values()
        self._together = self._common.together(_alike(spans))
        splits = self._map(spans)
        for stage in range(1, max((span.query.plan.stages for span in spans), default=0) + 1):
            going = [outcome for outcome in outcomes.values() if not outcome.missing and outcome.error is None]
            self._run_stage(stage, going, splits)
        return list(outcomes.values())

    def delete_files(self) -> None:
        """Of a tick that does not come about: nobody will name them."""
        for outcome in self._outcomes:
            directory = self._location.query_dir(outcome.span.query.name)
            for output in outcome.outputs:
                remove_file(directory / output.path)

    def visit(self, buckets: int) -> None:
        """Nothing to do but to forget whatever lives no more."""
        tasks = [self._stage_task(bucket, ()) for bucket in range(buckets)]
        for result in self._runner.run_stage(tasks):
            self._note(result)

    def _stage_task(self, bucket: int, fragments: tuple[FragmentTask, ...]) -> StageTask:
        return StageTask(self._database, self._tick, bucket, self.exchange_dir, fragments, self._live, self._scheduler)

    def _run_stage(self, stage: int, outcomes: Sequence[Outcome], splits: dict[str, tuple[str, ...]]) -> None:
        fragments = tuple(task for outcome in outcomes for task in self._fragment_tasks(stage, outcome, splits))
        if not fragments:
            return
        tasks = [
            self._stage_task(bucket, fragments)
            for bucket in range(max(task.buckets for task in fragments))
            if any(task.runs_in(bucket) for task in fragments)
        ]
        by_query = {outcome.span.query.incarnation: outcome for outcome in outcomes}
        started = time.perf_counter()
        stage_results = self._runner.run_stage(tasks)
        self._count_job(outcomes, time.perf_counter() - started, stage_results)
        for stage_result in stage_results:
            self._note(stage_result)
            for result in stage_result.fragments:
                by_query[result.incarnation].take(result)

    def _count_job(self, outcomes: Iterable[Outcome], took: float, results: Sequence[StageResult | MapResult]) -> None:
        """What of a job is no query's in particular, for each of them its part."""
        slowest = max(result.seconds for result in results)
        beyond: Seconds = {"spark": max(0.0, took - slowest)}
        self.job_seconds += took
        for result in results:
            beyond = added(beyond, result.stages)
        shared = list(outcomes)
        for outcome in shared:
            outcome.stages = added(outcome.stages, beyond, 1 / len(shared))

    def _note(self, result: StageResult) -> None:
        self.stores[result.bucket], self.common[result.bucket] = result.stores, result.common

    def _fragment_tasks(self, stage: int, outcome: Outcome, splits: dict[str, tuple[str, ...]]) -> list[FragmentTask]:
        span = outcome.span
        query = span.query
        tasks = []
        for number, fragment in enumerate(query.plan.fragments):
            if fragment.stage != stage or (span.wants_contents is not None and span.wants_contents != number):
                continue
            feeds = tuple(self._feed(span, source, splits) for source in sources(fragment.root))
            received = tuple(tuple(outcome._sent.get(receive.fragment, ())) for receive in receives(fragment.root))
            tasks.append(
                FragmentTask(
                    query.name,
                    query.incarnation,
                    number,
                    fragment,
                    query.buckets,
                    span.at,
                    span.frontier,
                    feeds,
                    received,
                    span.rebuild,
                    output_dir=str(self._location.query_dir(query.name)),
                    output_columns=query.changelog.columns,
                    emit=span.emit,
                    snapshot_dir=str(self._location.snapshot_dir(query.name)) if span.snapshot else None,
                    wants_contents=span.wants_contents is not None,
                    released_upto=span.releases.upto if span.releases is not None else (),
                    selections=span.selections or query.selections,
                    together=self._together.get((query.incarnation, number)),
                )
            )
        return tasks

    def _feed(self, span: Span, source: SourceExec, splits: dict[str, tuple[str, ...]]) -> SourceFeed:
        after, upto = span.after[source.name], span.fed[source.name]
        shared = self._shared.of(spread_over(source, span.query.buckets))
        if source.panes is not None and span.query.ignores_before > NEVER_BEFORE:
            shared = None  # of a pane in which it began it has less than others
        # queries with other numbers of buckets have other rows in each
        read, store = (source, None) if shared is None else (shared.read, f"{shared.name}-{span.query.buckets}")
        files = splits.get(_split_name(span, read))
        chunks = span.chunks[source.name] if files is None else ()
        since = span.since.get(source.name, NEVER_BEFORE)
        whole_from = span.whole_from.get(source.name, NEVER_BEFORE)
        directory = str(self._directory(source))
        return SourceFeed(read, directory, after, upto, chunks, files or (), store, since, whole_from, span.whole_to)

    def _directory(self, source: SourceExec) -> Path:
        match source.kind:
            case "stream":
                return self._location.stream_dir(source.name)
            case "relation":
                return self._location.relation_dir(source.name)
            case "query":
                return self._location.query_dir(source.name)

    # --- the map stage

    def _map(self, spans: Sequence[Span]) -> dict[str, tuple[str, ...]]:
        """Split the new rows of each stream once for all queries that want them split the same way."""
        uses: Counter[str] = Counter()
        wanted: dict[tuple[str, int, tuple[ChunkInfo, ...]], dict[str, SourceExec]] = {}
        for span in spans:
            for source in (source for fragment in span.query.plan.fragments for source in sources(fragment.root)):
                if source.kind != "stream" or source.split_at_ingest or isinstance(source.distribution, Single):
                    continue
                chunks, shared = span.chunks[source.name], self._shared.of(spread_over(source, span.query.buckets))
                read = source if shared is None else shared.read
                name = _split_name(span, read)
                uses[name] = uses[name] + 1 if shared is None else 1  # a process reads them once for all who share them
                wanted.setdefault((source.name, span.query.buckets, chunks), {})[name] = read
        for (_, _, chunks), by_name in wanted.items():
            for name in [name for name, source in by_name.items() if not self._worth_splitting(source, chunks, uses[name])]:
                del by_name[name]
        tasks = [
            task for (stream, buckets, chunks), by_name in wanted.items() if by_name
            for task in self._map_tasks(stream, buckets, chunks, by_name)
        ]  # fmt: skip
        if not tasks:
            return {}
        files: dict[str, list[tuple[int, str]]] = {}
        started = time.perf_counter()
        results = self._runner.run_map([replace(task, part=part) for part, task in enumerate(tasks)])
        self._count_job(self._outcomes, time.perf_counter() - started, results)
        for result in results:
            if result.error is not None:
                log.warning("the map stage failed, the stages read the log themselves", extra={"reason": result.error.message})
                return {}
            for name, path in result.files.items():
                files.setdefault(name, []).append((result.part, path))
        return {name: tuple(path for _, path in sorted(parts)) for name, parts in files.items()}

    def _worth_splitting(self, source: SourceExec, chunks: tuple[ChunkInfo, ...], uses: int) -> bool:
        """Reading it everywhere costs each process all rows, a map stage its share of them, once to split and half to pass on."""
        saved = 1 - 1.5 / self._runner.parallelism
        weight = _EXPRESSIONS_WEIGH if source.prefix else 1
        return sum(chunk.rows for chunk in chunks) * uses * weight * saved >= MAP_STAGE_ROWS

    def _map_tasks(self, stream: str, buckets: int, chunks: tuple[ChunkInfo, ...], by_name: dict[str, SourceExec]) -> list[MapTask]:
        parts = min(self._runner.parallelism, len(chunks))
        bounds = [len(chunks) * i // parts for i in range(parts + 1)]
        directory = str(self._location.stream_dir(stream))
        return [
            MapTask(0, buckets, directory, chunks[low:high], tuple(by_name.items()), self.exchange_dir) for low, high in pairwise(bounds)
        ]


def _alike(spans: Sequence[Span]) -> list[list[tuple[str, PhysicalPlan]]]:
    """Queries whose operators have seen the same and go the same way now.

    The operators of a query that is complete hold what the logs and its instant say, whenever it was created.  Those that read the same
    streams move together, so that nobody comes and goes with every tick.
    """
    found: dict[tuple[object, ...], list[tuple[str, PhysicalPlan]]] = {}
    for span in spans:
        query = span.query
        goes_on = span.rebuild is None and span.wants_contents is None and span.frontier > span.at
        if goes_on and not query.is_partial and not query.is_switching:
            key = query.buckets, span.at, span.frontier, query.ignores_before, moved_by(query.inputs)
            found.setdefault(key, []).append((query.incarnation, query.plan))
    return list(found.values())


def _split_name(span: Span, source: SourceExec) -> str:
    """Equal for queries that want the same rows split in the same way: in a replay, those with longer windows want older rows too."""
    return hashlib.sha1(repr((source, span.query.buckets, span.after[source.name], span.chunks[source.name])).encode()).hexdigest()[:20]


def failed(outcome: Outcome) -> MillstreamError:
    return outcome.error or ClusterFailed(
        f'the caches of query "{outcome.span.query.name}" are lost as often as they are replayed',
        hint="Executors or their Python processes come and go, for want of memory perhaps: see their logs. Nothing is lost.",
    )
