"""The public surface: connect, Database, Query.

    db = millstream.connect("data/")
    db.execute("CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts")
    q = db.execute("SELECT sym, sum(size) AS n FROM trades [RANGE 5 MINUTES] GROUP BY sym")
    db.insert("trades", rows)
    db.flush()
    q.changes(), q.result()

What statements do lives in runtime/; this file says what users may call, and nothing else does.
"""

from __future__ import annotations

import datetime as dt
import html
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import pyarrow as pa

from millstream.core.errors import (
    ArityMismatch,
    ConfigInvalid,
    FunctionFailed,
    MillstreamError,
    NotSupported,
    OutOfMemory,
    PlanChanged,
    QueryFailed,
    QueryNotFound,
    StorageFailed,
    TypeMismatch,
    did_you_mean,
)
from millstream.core.instant import LAST, NEVER_BEFORE, Micros, format_instant, to_datetime, to_micros
from millstream.core.schema import Field, Schema
from millstream.language.parser import parse, parse_one
from millstream.language.register_syntax import as_register
from millstream.language.statements import Invoke, Materialisation, Unregister
from millstream.operators.python_calls import DEFAULT_TIMEOUT_S
from millstream.plan.expiry import DEFAULT_EXPIRY, EXPIRIES, Expiry
from millstream.plan.rewrite import RULES
from millstream.psoup.explain import explained
from millstream.runtime.bounded_rows import WhenFull
from millstream.runtime.clock import Clock
from millstream.runtime.engine import Engine
from millstream.runtime.feed import DEFAULT_CAPACITY, Feed
from millstream.runtime.invocations.registered import Registered
from millstream.runtime.proxies import PushSource
from millstream.runtime.runner import Runner
from millstream.runtime.running_query import RunningQuery
from millstream.runtime.schedulers import SchedulerName
from millstream.runtime.sharing import SharedPart
from millstream.runtime.statements import Statements
from millstream.runtime.statistics import query_statistics
from millstream.runtime.store_use import StoreUse
from millstream.runtime.ticker import Ticker
from millstream.spark.executors import await_executors
from millstream.spark.functions import declared_function
from millstream.spark.relations import read_batch
from millstream.spark.session import create_session, keep_calls_out_of_logs
from millstream.spark.sources import Sources
from millstream.spark.tick_jobs import SparkRunner
from millstream.state.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Instant = dt.datetime | int
"""An aware datetime (naive ones are UTC), or microseconds since 1970."""


DEFAULT_SYS_INTERVAL = 1.0
FEED_PATIENCE_S = 10.0
"""So long `flush` waits for a feed."""


class Change(NamedTuple):
    instant: dt.datetime
    diff: int
    row: tuple[Any, ...]


class StreamInfo(NamedTuple):
    name: str
    schema: Schema
    frontier: Micros
    rows: int
    late: int
    rejected: int
    error: str | None = None
    """Why the stream's source has stopped, if it has."""
    dropped: int = 0
    """Rows that its feeds have dropped since the database was opened."""


def connect(
    location: str | os.PathLike[str] | None = None,
    *,
    master: str = "local[*]",
    spark: SparkSession | None = None,
    buckets: int | None = None,
    tick_interval: float | None = 0.2,
    rules_off: Iterable[str] = (),
    scheduler: SchedulerName = "fifo",
    expiry: Expiry = DEFAULT_EXPIRY,
    sys_interval: float | None = DEFAULT_SYS_INTERVAL,
    share_windows: bool = True,
    share_selections: bool = True,
    share_subplans: bool = True,
) -> Database:
    """Open the database at `location`, or a temporary one, on embedded Spark or on a session of your own.

    `tick_interval` is the longest time in seconds that new rows wait for a tick; with None ticks happen only in `flush`.
    `buckets` is the number of parallel parts of every query; a new database has as many as there are cores, one that is opened again keeps
    its number unless another is given here.
    `rules_off` names rewrite rules that plans are made without; answers are the same, only slower.
    `scheduler` says in which order the operators of a query run: fifo, round_robin, greedy or chain; answers are the same.
    `expiry` says how operators learn that rows have left their windows, for queries that have no WITH EXPIRY of their own.
    `sys_interval` is the least time in seconds between two reports on the system stream SYS while a query reads it; with None
    there are none.  Where ticks happen only in `flush`, each `flush` reports.
    `share_windows=False` lets each query keep the rows of its windows for itself; answers are the same, in more memory.
    `share_selections=False` lets each selection run by itself, however many there are; answers are the same, only slower.
    `share_subplans=False` lets each query run all of its operators for itself; answers are the same, with more work.
    """
    _check_options(location, buckets)
    _check_interval("tick_interval", tick_interval, "With None ticks happen only in flush.")
    _check_interval("sys_interval", sys_interval, "With None nothing is reported on SYS.")
    _check_rules(rules_off)
    _check_one_of("scheduler", scheduler, get_args(SchedulerName))
    _check_one_of("expiry", expiry, EXPIRIES)
    session = spark if spark is not None else create_session(master)
    keep_calls_out_of_logs()
    await_executors(session.sparkContext, settle_s=0.0)
    cores = max(1, session.sparkContext.defaultParallelism)
    temporary = tempfile.TemporaryDirectory(prefix="millstream-") if location is None else None
    place = Location.open(temporary.name if temporary else str(location), buckets=buckets, new_buckets=cores)
    try:
        runner = SparkRunner(session, place.buckets)
        runner.check_location(place)
        runner.warm_up()
        return Database(
            place, runner, spark=session, tick_interval=tick_interval, temporary=temporary, rules_off=rules_off,
            scheduler=scheduler, expiry=expiry, sys_interval=sys_interval, share_windows=share_windows,
            share_selections=share_selections,
            share_subplans=share_subplans,
        )  # fmt: skip
    except BaseException:
        place.close()
        raise


def _check_options(location: object, buckets: object) -> None:
    if location is not None and not isinstance(location, str | os.PathLike):
        raise ConfigInvalid(f"the location is the name of a directory, not {location!r}", hint="Leave it away for a temporary one.")
    if buckets is not None and (not isinstance(buckets, int) or isinstance(buckets, bool) or buckets < 1):
        raise ConfigInvalid(f"buckets must be a positive integer, not {buckets!r}", hint="Leave it away for one per core.")


def _check_interval(name: str, seconds: object, hint: str) -> None:
    if seconds is not None and (not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < math.inf):
        raise ConfigInvalid(f"{name} must be a positive number of seconds, not {seconds!r}", hint=hint)


def _check_rules(names: Iterable[str]) -> None:
    for name in names:
        if name not in RULES:
            raise ConfigInvalid(f'there is no rewrite rule "{name}"', hint=did_you_mean(name, RULES) or f"Rules: {', '.join(RULES)}.")


def _check_one_of(kind: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ConfigInvalid(f'there is no {kind} "{name}"', hint=did_you_mean(str(name), names) or f"There are {', '.join(names)}.")


class Database:
    """Streams, relations and standing queries at one location.  A context manager; every call may come from any thread."""

    def __init__(
        self,
        location: Location,
        runner: Runner,
        *,
        spark: SparkSession | None = None,
        tick_interval: float | None = None,
        temporary: tempfile.TemporaryDirectory[str] | None = None,
        rules_off: Iterable[str] = (),
        scheduler: SchedulerName = "fifo",
        expiry: Expiry = DEFAULT_EXPIRY,
        sys_interval: float | None = DEFAULT_SYS_INTERVAL,
        share_windows: bool = True,
        share_selections: bool = True,
        share_subplans: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._location = location
        self._temporary = temporary
        # whoever says when to tick, says with it when to report
        reports = sys_interval if tick_interval or sys_interval is None else 0.0
        self._engine = Engine(
            location, runner, scheduler, clock, reports,
            share_windows=share_windows, share_selections=share_selections, share_subplans=share_subplans,
        )  # fmt: skip
        self._ticker = Ticker(self._engine, tick_interval, self._in_the_background)
        self._sources = Sources(spark, self._engine.streams, location, self._ticker.wake) if spark is not None else None
        self._engine.pulls.answered = self._ticker.wake
        self._engine.pulls.read_with_spark = partial(read_batch, spark) if spark is not None else None
        self._statements = Statements(self._engine, self._sources, frozenset(rules_off), expiry)
        self._statements.feeds.arrived = self._ticker.wake
        self._closed = False
        self._statements.reopen()
        self._ticker.start()

    # --- statements

    def execute(self, sql: str) -> Query | RegisteredQuery | pa.Table | None:
        """Run one or more statements; the last one's answer.

        A continuous query and a registered one give their handle, a question that is answered once gives a table, other statements
        give None.
        """
        self._check_open()
        answer: Query | RegisteredQuery | pa.Table | None = None
        for statement in parse(_text(sql, "SQL")):
            result = self._statements.run(statement)
            answer = Query(self, result) if isinstance(result, RunningQuery) else result
            answer = RegisteredQuery(self, answer) if isinstance(answer, Registered) else answer
        self._ticker.wake()
        return answer

    def register(self, name: str, sql: str, *, materialise: Materialisation = "partial") -> RegisteredQuery:
        """A query that is asked now and then, by `invoke` and under this name, until it is unregistered (docs/psoup.md).

        `sql` is a SELECT over streams with one window of time, behind each stream or at the end: `... WHERE size > 100 BEGIN NOW - 5
        MINUTES END NOW`.  `materialise` says how much of its answer is kept at hand: none, partial or complete; answers are the same.
        """
        self._check_open()
        _check_one_of("materialisation", materialise, get_args(Materialisation))
        statement = as_register(_text(name, "the name of a query"), _text(sql, "SQL"), materialise)
        registered = self._statements.run(parse_one(statement))
        assert isinstance(registered, Registered)
        self._ticker.wake()
        return RegisteredQuery(self, registered)

    def invoke(self, name: str) -> pa.Table:
        """What the window of a registered query holds now: at the frontier of its streams."""
        self._check_open()
        answer = self._statements.run(Invoke(_text(name, "the name of a registered query")))
        assert isinstance(answer, pa.Table)
        return answer

    def unregister(self, name: str) -> None:
        self._check_open()
        self._statements.run(Unregister(_text(name, "the name of a registered query")))

    def registered(self, name: str) -> RegisteredQuery:
        """The handle of a registered query."""
        self._check_open()
        return RegisteredQuery(self, self._statements.registered(_text(name, "the name of a registered query")))

    def registered_queries(self) -> list[RegisteredQuery]:
        self._check_open()
        return [RegisteredQuery(self, each) for each in self._statements.registrations]

    def query(self, name: str) -> Query:
        """The handle of a standing query."""
        self._check_open()
        return Query(self, self._statements.query(_text(name, "the name of a query")))

    def queries(self) -> list[Query]:
        self._check_open()
        return [Query(self, query) for query in self._engine.stands.visible()]

    def streams(self) -> list[StreamInfo]:
        """Those that were created; SYS is there in any case."""
        self._check_open()
        errors = {name: error.message for name, error in self._statements.failed_sources().items()}
        return [
            StreamInfo(
                s.entry.name, s.entry.schema, s.frontier, s.log.rows_accepted, s.log.late_total, s.log.rejected_total,
                errors.get(s.entry.name), self._statements.feeds.dropped(s.entry.name),
            )
            for s in self._engine.streams
        ]  # fmt: skip

    def definition(self, name: str) -> str | None:
        """The statement that made the stream, relation, query or sink of this name, secrets hidden; None if there is none."""
        self._check_open()
        return self._statements.definition(_text(name, "a name"))

    def is_defined(self, sql: str) -> bool:
        """Whether this very CREATE statement made an object that is there."""
        self._check_open()
        return self._statements.is_defined(parse_one(_text(sql, "SQL")))

    def stores(self) -> list[StoreUse]:
        """The rows of streams that workers keep for windows, as of the last tick: one for all queries that share them."""
        self._check_open()
        return self._engine.stores()

    def sharing(self) -> list[SharedPart]:
        """What runs once, or is kept once, for several queries, as of the last tick."""
        self._check_open()
        return self._engine.sharing()

    def tick_seconds(self) -> list[float]:
        """How long each of the last ticks took, up to a thousand of them."""
        return [report.seconds for report in self._engine.rounds.reports]

    def explain(self, sql: str) -> str:
        """The logical and the physical plan of a query."""
        self._check_open()
        return self._statements.explain(_text(sql, "SQL"))

    @contextmanager
    def sources_held(self) -> Iterator[None]:
        """Sources of streams that are created inside start to read only at the end.

        So the queries of a script see their streams from the first row on, however fast the sources are.
        """
        with self._sources.held() if self._sources is not None else nullcontext():
            yield
            # a query that has not ticked yet would begin where the first rows have already moved the frontier
            self.flush()

    def function(
        self, name: str, fn: Callable[..., Any], return_type: str | pa.DataType, *, vectorized: bool = False, deterministic: bool = True,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:  # fmt: skip
        """A Python function for expressions of queries, until the database is closed.

        It is called with the values of a row, None for NULL, and gives a value; a `vectorized` one is called with pyarrow arrays
        and gives an array of the same length.  What it gives is cast to `return_type`.  The same arguments must always give
        the same value: one that is not `deterministic` serves only questions that are answered once.  A single call that takes
        longer than `timeout` seconds fails its query, as one that raises does.

        Registered again under the same name it replaces the old one for new queries; running ones keep what they began with.
        Saved queries that call a function wait when the database is opened again, and go on once it is registered.
        """
        self._check_open()
        named = _text(name, "the name of a function")
        self._statements.function(declared_function(named, fn, return_type, vectorized, deterministic, timeout))
        self._ticker.wake()

    # --- data

    def insert(self, name: str, rows: object, *, at: Instant | None = None) -> int:
        """Append rows to a stream, or change a relation; returns how many were taken.

        A row that a stream cannot take goes to its dead letters (`SELECT * FROM name.rejected`), unless it was created with
        ON ERROR FAIL: then, and always for a relation, it is an error and nothing is inserted.
        """
        self._check_open()
        count = self._statements.insert(_text(name, "the name of a stream or relation"), rows, _micros(at))
        self._ticker.wake()
        return count

    def delete(self, name: str, rows: object, *, at: Instant | None = None) -> int:
        """Take rows out of a relation, one copy of each that is there; returns how many (0 if it waits for a later instant)."""
        self._check_open()
        count = self._statements.remove(_text(name, "the name of a relation"), rows, _micros(at))
        self._ticker.wake()
        return count

    def feed(self, name: str, *, capacity: int = DEFAULT_CAPACITY, when_full: WhenFull = "drop_oldest") -> Feed:
        """A bounded queue into a stream: `push` never makes its caller wait for the engine, and what does not fit is dropped and counted.

        `capacity` is a number of rows.  `when_full`: drop_oldest, drop_newest, or block, where `push` waits for room (docs/feeds.md).
        """
        self._check_open()
        return self._statements.feeds.open(self._statements.stream(_text(name, "the name of a stream")), capacity, when_full)

    def source(
        self, name: str, source: PushSource, *, capacity: int = DEFAULT_CAPACITY, when_full: WhenFull = "drop_oldest"
    ) -> Feed:  # fmt: skip
        """Feed a stream from an object of your own that is told what the live queries need (docs/feeds.md).

        `source.start(feed)` is called at once, `source.demand(demand)` soon after and whenever other queries are live, and
        `source.stop()` at the end.  SensorProxy is such an object, made of a function that takes a sample.  Returns the feed.
        """
        self._check_open()
        entry = self._statements.stream(_text(name, "the name of a stream"))
        for method in ("start", "demand", "stop"):
            if not callable(getattr(source, method, None)):
                raise TypeMismatch(
                    f'the source for stream "{entry.name}" has no method "{method}"',
                    hint="It needs start(feed), demand(demand) and stop().",
                )
        feed = self._statements.feeds.open(entry, capacity, when_full)
        self._statements.proxies.attach(entry, source, feed)
        return feed

    def stream(self, name: str, frame: DataFrame) -> None:
        """Feed a declared stream from a streaming DataFrame."""
        self._check_open()
        entry = self._statements.stream(_text(name, "the name of a stream"))
        if not hasattr(frame, "isStreaming"):
            raise TypeMismatch(
                f'a DataFrame feeds stream "{entry.name}", not {type(frame).__name__}',
                hint="Give one of spark.readStream; insert takes rows.",
            )
        if self._sources is None:
            raise NotSupported("this database has no Spark session to read from")
        self._sources.attach(entry, frame)

    def advance(self, *args: Any) -> None:
        """`advance(name, ts)`: no more rows of the stream at or before ts.  `advance(ts)`: of any stream."""
        self._check_open()
        if len(args) not in (1, 2):
            raise ArityMismatch("advance takes an instant, or a stream's name and an instant", hint='As in advance("trades", 12_000_000).')
        instant = to_micros(args[-1])
        if len(args) == 2:
            names = [self._statements.stream(_text(args[0], "the name of a stream")).name]
        else:
            names = [stream.entry.name for stream in self._engine.streams]
        for name in names:
            self._engine.streams.advance(name, instant)
        self._ticker.wake()

    def flush(self) -> None:
        """Returns when all that was inserted is processed up to the frontier and committed, and sinks have it.

        What waits in feeds is inserted first; one that hangs is waited for ten seconds.  So is a sink that hangs, and one that fails
        is not: SHOW SINKS tells.  They go on by themselves.
        """
        self._check_open()
        self._statements.feeds.flush(FEED_PATIENCE_S)
        self._engine.flush()
        self._statements.registrations.follow()
        self._statements.sinks.follow()
        self._statements.sinks.await_delivered()
        if not self._ticker.is_running:  # then nobody else puts files in order
            with suppress(StorageFailed):  # what was to be done is done; the next write will say it
                self._engine.maintain_if_due()

    def await_drained(self) -> None:
        """Returns when every source is exhausted for now and all its rows are in the answers, the newest included."""
        self._check_open()
        if self._sources is not None:
            for name in self._sources.names:
                with self._told_of_all_sources(name):
                    self._sources.drain(name)
        for stream in self._engine.streams:
            if stream.log.frontier.max_ts is not None:
                self._engine.streams.advance(stream.entry.name, stream.log.frontier.max_ts)
        self.flush()

    def check(self) -> None:
        """Raise what has gone wrong in the background: sources that failed, a ticker that stopped."""
        self._check_open()
        self._ticker.check()
        failures = self._statements.failed_sources()
        if failures:
            raise _together(failures)

    # --- the end

    def close(self) -> None:
        """Stop everything; what was committed is there when the location is opened again.

        Batches of sinks that are under way get five seconds; what does not end in them is delivered again next time, once.
        """
        if self._closed:
            return
        self._closed = True
        self._statements.proxies.close()
        self._statements.feeds.close_all()
        self._engine.runner.close()
        if self._sources is not None:
            self._sources.stop_all()
        self._ticker.stop()
        self._statements.registrations.close()
        self._engine.pulls.close()
        self._statements.sinks.close()
        try:
            self._engine.close()
            self._statements.close()
        finally:
            self._location.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _in_the_background(self) -> None:
        """What the ticker does beside ticking: results and sinks follow the commits; now and then files are put in order."""
        self._engine.publish()
        self._statements.registrations.kick()
        self._statements.sinks.follow()
        self._engine.let_upkeep_go_on()

    @contextmanager
    def _told_of_all_sources(self, stream: str) -> Iterator[None]:
        """An error of this stream's source, with those of the others."""
        try:
            yield
        except MillstreamError as error:
            mine = error.hiding(self._engine.streams[stream].entry.options.secrets())
            raise _together({stream: mine, **self._statements.failed_sources()}) from None

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigInvalid("the database is closed", hint="Connect again.")


class Query:
    """A standing query: its changes so far, its answer now, its changes to come."""

    def __init__(self, database: Database, running: RunningQuery) -> None:
        self._database = database
        self._engine = database._engine
        self._running = running

    @property
    def name(self) -> str:
        return self._running.name

    @property
    def schema(self) -> tuple[Field, ...]:
        """The columns as named in the query; names may repeat."""
        return self._running.fields

    @property
    def is_stream(self) -> bool:
        return self._running.is_stream

    @property
    def frontier(self) -> Micros:
        """Up to here its answer is final."""
        return self._running.at

    @property
    def sql(self) -> str:
        return self._running.bound.sql

    def changes(self, since: Instant | None = None) -> pa.Table:
        """All changes since the query was created, or at later instants than `since`: instant, diff, then its columns."""
        self._ready()
        return self._engine.changes(self._running, _since(since))

    def result(self, at: Instant | None = None) -> pa.Table:
        """The relation at the frontier, or at an earlier instant since the query began; of a stream, its elements so far."""
        self._ready()
        return self._engine.contents(self._running, _micros(at))

    def subscribe(self, since: Instant | None = None) -> Iterator[Change]:
        """Every change, those of the past first, then as they are committed; ends when the query stops."""
        self._check_there()
        self._engine.ensure_started(self._running)
        return self._changes_to_come(_since(since))

    def _changes_to_come(self, seen: Micros) -> Iterator[Change]:
        while True:
            alive, upto = self._engine.await_progress(self._running, seen)
            if upto > seen and not self._running.dropped:
                yield from _rows(self._engine.changes(self._running, seen), upto)
                seen = upto
            if not alive:
                self._raise_failure()
                return

    def explain(self) -> str:
        return self._database.explain(self.sql)

    def stats(self) -> dict[str, Any]:
        """What it, its operators and their queues have done since it was created or the database opened (docs/statistics.md)."""
        with self._engine.lock:
            return query_statistics(self._running)

    @property
    def is_partial(self) -> bool:
        """Whether its windows still miss rows that had left the log when it was created."""
        return self._running.is_partial

    @property
    def complete_from(self) -> Micros | None:
        """The instant from which on its answer is complete; None: it is, or nobody can say when it will be (`is_partial` tells which)."""
        return self._running.complete_from if self.is_partial and self._running.complete_from < LAST else None

    def pause(self) -> None:
        """It stands still, also when the database is opened again, until it is resumed; what it has not seen yet is kept for it."""
        self._check_there()
        self._database._statements.pause(self._running)

    def resume(self) -> None:
        """It goes on where it was paused, with a change at every instant that it has missed."""
        self._check_there()
        self._database._statements.resume(self._running)
        self._database._ticker.wake()

    def stop(self) -> None:
        """The query runs no longer; what it answered can still be read.

        One with a name stays known, keeps its streams, and goes on when the database is opened again; DROP QUERY ends it for good.
        """
        self._engine.stop_query(self._running)

    def __enter__(self) -> Query:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        kind = "stream" if self.is_stream else "relation"
        upto = f", up to {format_instant(self.frontier)}" if self._running.started and self.frontier > NEVER_BEFORE else ""
        standing, _ = self._engine.standing(self._running)
        state = "" if standing == "running" else f", {standing}"
        return f"<Query {self.name}: {kind} of ({', '.join(map(str, self.schema))}){upto}{state}>"

    def _repr_html_(self) -> str:
        answer = self.result().slice(0, 20).to_pandas().to_html(index=False)
        return f"<b>{html.escape(self.name)}</b> <code>{html.escape(self.sql)}</code>{answer}"

    def _ready(self) -> None:
        """A new query shows its first answer at once, and a failed one its reason."""
        self._check_there()
        self._raise_failure()
        self._engine.ensure_started(self._running)
        self._raise_failure()

    def _check_there(self) -> None:
        self._database._check_open()
        if self._running.dropped:
            raise QueryNotFound(f'query "{self.name}" was dropped', hint="Create it again, and use the new handle.")

    def _raise_failure(self) -> None:
        if self._running.error is not None:
            reason = self._running.error
            kind = type(reason) if isinstance(reason, FunctionFailed | OutOfMemory | PlanChanged) else QueryFailed
            raise kind(f'query "{self.name}" has stopped: {reason.message}', hint=reason.hint) from reason


class RegisteredQuery:
    """A query that answers when it is asked.  The handle may be thrown away: `db.registered(name)` gives another, also after a restart."""

    def __init__(self, database: Database, registered: Registered) -> None:
        self._database = database
        self._registered = registered

    @property
    def name(self) -> str:
        return self._registered.name

    @property
    def schema(self) -> tuple[Field, ...]:
        """The columns as named in the query; names may repeat."""
        return self._registered.fields

    @property
    def materialise(self) -> Materialisation:
        return self._registered.materialise

    @property
    def sql(self) -> str:
        return self._registered.sql

    @property
    def frontier(self) -> Micros:
        """The instant of which `invoke` would tell now: the least frontier of its streams."""
        self._check_there()
        return self._database._statements.registrations.place(self._registered).now

    @property
    def is_partial(self) -> bool:
        """Whether its window reaches back further than its streams keep their rows."""
        self._check_there()
        return self._database._statements.registrations.complete_from(self._registered) > NEVER_BEFORE

    @property
    def complete_from(self) -> Micros | None:
        """The instant from which on its answer is complete; None: it is, or will never be (`is_partial` tells which)."""
        self._check_there()
        instant = self._database._statements.registrations.complete_from(self._registered)
        return instant if NEVER_BEFORE < instant < LAST else None

    def explain(self) -> str:
        """Which parts of it the indexes decide, and what is done when it is asked."""
        return explained(self._registered.planned)

    def invoke(self) -> pa.Table:
        """What its window holds now."""
        self._check_there()
        return self._database.invoke(self.name)

    def unregister(self) -> None:
        self._check_there()
        self._database.unregister(self.name)

    def __repr__(self) -> str:
        return f"<RegisteredQuery {self.name}: ({', '.join(map(str, self.schema))}), materialisation {self.materialise}>"

    def _check_there(self) -> None:
        self._database._check_open()
        if self._registered not in self._database._statements.registrations:
            raise QueryNotFound(f'"{self.name}" has been unregistered', hint="Register it again, and use the new handle.")


def _micros(instant: Instant | None) -> Micros | None:
    return None if instant is None else to_micros(instant)


def _since(instant: Instant | None) -> Micros:
    """Everything is later than NEVER_BEFORE, which is also what `Query.frontier` says before the first answer."""
    return NEVER_BEFORE if instant is None or instant == NEVER_BEFORE else to_micros(instant)


def _together(failures: Mapping[str, MillstreamError]) -> MillstreamError:
    """Of several streams' sources, as one error: the first, which says what the others are."""
    first, *others = failures.values()
    if not others:
        return first
    also = "; ".join(f'of stream "{name}": {error.message}' for name, error in list(failures.items())[1:])
    return type(first)(f"{first.message}; other sources have failed too, {also}", hint=first.hint)


def _text(value: object, what: str) -> str:
    if isinstance(value, str):
        return value
    raise TypeMismatch(f"{what} is a str, not {value!r:.60} ({type(value).__name__})")


def _rows(changes: pa.Table, upto: Micros) -> Iterator[Change]:
    columns = [column.to_pylist() for column in changes.columns]
    last = to_datetime(upto)
    for instant, diff, *row in zip(*columns, strict=True):
        if instant <= last:
            yield Change(instant, diff, tuple(row))
