"""The driver's view of a standing query: its plan, how far it is, and how its caches can be had again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

import pyarrow as pa

from millstream.core.errors import MillstreamError
from millstream.core.instant import LAST, NEVER_BEFORE, Micros
from millstream.core.schema import Field
from millstream.core.signed_batch import Signs
from millstream.plan.logical import BoundQuery
from millstream.plan.physical import PhysicalPlan, SourceExec, keeps_nothing, learns_by_input, plan_id, sources, windows
from millstream.plan.rate import Rate
from millstream.plan.selection import Selection, selection_of
from millstream.plan.window import WindowSpec
from millstream.runtime.adding_up import SoFar
from millstream.runtime.messages import Selections
from millstream.runtime.nodes import OperatorProfile, Profile, QueueProfile
from millstream.runtime.output_delay import OutputDelay
from millstream.runtime.stage_clock import Seconds
from millstream.state.changelog import Beginning, Changelog, OutputFile

State = Literal["running", "waiting", "paused", "stopped", "failed"]
LaneName = Literal["front", "beside"]
"""Which worker processes have its caches (rounds.py)."""
FIRST_STEP_ROWS = 100_000
Start = Literal["now"] | Micros | None
"""From where on a query created late answers: None, where its inputs are, with the past in its windows; "now", likewise, without the past;
an instant of the past, from there."""

SESSION = "session-"
"""How the incarnations of queries without a name of their own begin: they end with the session, or when they are stopped."""
COMMON = "common-"
"""... and of those that nobody asked for: several queries run together in each (families.py)."""


@dataclass(frozen=True)
class SnapshotRef:
    """Where a snapshot is, and what it is of: the state of so many buckets, of the operators of one plan."""

    stem: str
    at: Micros
    buckets: int
    plan: str

    def to_json(self) -> list[str]:
        return [self.stem, str(self.at), str(self.buckets), self.plan]

    @staticmethod
    def from_json(fields: Sequence[str]) -> SnapshotRef:
        stem, at, buckets, plan = fields
        return SnapshotRef(stem, int(at), int(buckets), plan)


@dataclass(frozen=True)
class Terms:
    """What is said of a query beside what it asks."""

    retain_us: Micros | None = None  # how long its changes are kept one by one; None: for ever
    start: Start = None
    rate: Rate | None = None  # how often it needs to hear from those who feed its streams; None: as often as they can
    is_paused: bool = False
    altered: Beginning | None = None  # where it was when it was given another plan, the last time


@dataclass
class QueryStats:
    """Counts since the query was created or the database opened, whichever is later."""

    rows_in: int = 0
    changes_out: int = 0
    state_rows: int = 0
    waiting_rows: int = 0  # taken in, for when the frontier has passed them
    store_bytes: int = 0
    worker_seconds: float = 0.0
    stages: Seconds = field(default_factory=dict)  # where the time of its ticks went
    ticks: int = 0
    delay: OutputDelay = field(default_factory=OutputDelay)
    operators: dict[tuple[int, int], OperatorProfile] = field(default_factory=dict)  # by fragment and place, all buckets together
    sources: dict[tuple[int, int], Profile] = field(default_factory=dict)  # likewise

    @property
    def state_bytes(self) -> int:
        return self.store_bytes + sum(profile.state_bytes for profile in self.operators.values())

    def let_go(self) -> None:
        """It has stopped, and holds nothing any more."""
        self.state_rows = self.waiting_rows = self.store_bytes = 0
        self.operators = {key: replace(profile, state_rows=0, state_bytes=0) for key, profile in self.operators.items()}

    def count(
        self, sources: Mapping[tuple[int, int], Sequence[Profile]], operators: Mapping[tuple[int, int], Sequence[OperatorProfile]]
    ) -> None:
        """What the sources and the operators did in a tick, in each bucket."""
        for key, reads in sources.items():
            self.sources[key] = reduce(Profile.plus, reads, self.sources.get(key, Profile()))
        for key, news in operators.items():
            before = self.operators.get(key)
            did = reduce(Profile.plus, (profile.did for profile in news), before.did if before is not None else Profile())
            rows, size = sum(profile.state_rows for profile in news), sum(profile.state_bytes for profile in news)
            queues = [_together(buckets) for buckets in zip(*(profile.queues for profile in news), strict=True)]
            if before is not None:
                queues = [_later(old, new) for old, new in zip(before.queues, queues, strict=True)]
            self.operators[key] = OperatorProfile(news[0].name, did, rows, size, tuple(queues))


def _together(buckets: Sequence[QueueProfile]) -> QueueProfile:
    """The same queue in each bucket."""
    return QueueProfile(
        sum(queue.put for queue in buckets), sum(queue.waiting for queue in buckets), max(queue.most_waiting for queue in buckets)
    )


def _later(before: QueueProfile, news: QueueProfile) -> QueueProfile:
    return QueueProfile(before.put + news.put, news.waiting, max(before.most_waiting, news.most_waiting))


@dataclass(frozen=True)
class _PlanFacts:
    """What is asked often of a plan, which is a tree."""

    plan: PhysicalPlan
    id: str
    inputs: dict[str, SourceExec]
    may_be_late: bool
    keeps_nothing: bool
    selection: Selection | None

    @staticmethod
    def of(plan: PhysicalPlan) -> _PlanFacts:
        late = any(learns_by_input(fragment.root) for fragment in plan.fragments)
        return _PlanFacts(plan, plan_id(plan), inputs_of(plan), late, keeps_nothing(plan), selection_of(plan))


@dataclass(frozen=True)
class Switch:
    """From the answer of one plan to that of another, at the frontier `at`: rows by position, and +1 or -1 for each."""

    at: Micros
    rows: pa.RecordBatch
    signs: Signs


@dataclass
class RunningQuery:
    name: str
    incarnation: str
    bound: BoundQuery
    plan: PhysicalPlan
    changelog: Changelog
    buckets: int
    added: float  # seconds of the engine's clock: when it was created, or the database opened
    created_at: Micros = NEVER_BEFORE  # the frontier at that moment
    terms: Terms = field(default_factory=Terms)
    complete_from: Micros = NEVER_BEFORE  # before, its windows miss rows that had left the log when it was created; LAST: nobody can say
    at: Micros = NEVER_BEFORE
    started: bool = False  # its first tick is committed
    snapshot: SnapshotRef | None = None
    looks_back: bool = False  # until it has a snapshot: its caches come from what the logs hold, as far back as its windows reach
    fed: dict[str, int] = field(default_factory=dict)  # input -> last sequence number that workers have; empty: they have nothing
    unpublished: list[tuple[int, Sequence[OutputFile]]] = field(default_factory=list)  # committed by a tick, not yet in the Delta table
    rows_since_snapshot: int = 0
    ticks_since_snapshot: int = 0
    stopped: bool = False  # until the database is opened again
    paused: bool = False  # until somebody lets it go on
    lane: LaneName = "front"
    is_busy: bool = False  # workers are at it, and the lock is not held
    is_switching: bool = False  # it was given another plan, and its changes so far are still those of the old one
    owes: Switch | None = None  # ... then, how its answer changes with the next instant; None: not known yet
    wants_snapshot: bool = False  # with its next round
    last_seconds: float = 0.0  # of a worker, in its last round
    heavy_rounds: int = 0  # in a row
    step_rows: int = FIRST_STEP_ROWS  # that it takes in with a round beside
    dropped: bool = False
    error: MillstreamError | None = None
    waits_for: tuple[str, ...] = ()  # Python functions that it calls and that have not been registered since the database was opened
    sink_positions: dict[str, Callable[[], Micros]] = field(default_factory=dict)  # by sink: up to where it has the changes
    stats: QueryStats = field(default_factory=QueryStats)
    common: RunningQuery | None = None  # the query in which it runs, together with others
    members: dict[int, RunningQuery] = field(default_factory=dict)  # of a common query: those that run in it
    selections_version: int = 0  # ... another whenever somebody has come or gone
    catch_up: Callable[[], None] = lambda: None  # of one that runs in another: get its changes from there
    so_far: SoFar | None = None  # the last answer that its changes were added up to
    _selections: Selections | None = None
    _facts: _PlanFacts | None = None

    @property
    def is_stream(self) -> bool:
        return self.bound.is_stream

    @property
    def is_saved(self) -> bool:
        """It stands in the catalog, and is known until it is dropped."""
        return not self.incarnation.startswith((SESSION, COMMON))

    @property
    def is_common(self) -> bool:
        return self.incarnation.startswith(COMMON)

    @property
    def identity(self) -> str:
        """Its own from its creation on, whatever plans it gets."""
        return self.incarnation.partition(".")[0]

    @property
    def retain_us(self) -> Micros | None:
        return self.terms.retain_us

    @property
    def rate(self) -> Rate | None:
        return self.terms.rate

    @property
    def begins_at(self) -> Micros:
        """Where its present plan has begun, or has to."""
        return self.created_at if self.terms.altered is None else self.terms.altered.at

    @property
    def ignores_before(self) -> Micros:
        """Rows of streams before this instant do not exist for it."""
        return self.created_at + 1 if self.terms.start == "now" and self.created_at > NEVER_BEFORE else NEVER_BEFORE

    @property
    def is_partial(self) -> bool:
        return self.at < self.complete_from

    @property
    def state(self) -> State:
        """Its own; it may still wait for another query (`Engine.standing`)."""
        if self.error is not None:
            return "failed"
        if self.stopped:
            return "stopped"
        if self.paused:
            return "paused"
        return "waiting" if self.waits_for else "running"

    @property
    def reason(self) -> str:
        """Why it does not run; empty if it does, or was told not to."""
        if self.error is not None:
            return self.error.message
        return "waits for function " + ", ".join(f'"{name}"' for name in self.waits_for) if self.waits_for else ""

    @property
    def plan_id(self) -> str:
        """That of its plan as far as snapshots are concerned."""
        return self._known.id

    @property
    def inputs(self) -> dict[str, SourceExec]:
        """The streams, relations and queries that it reads."""
        return self._known.inputs

    @property
    def selection(self) -> Selection | None:
        """What it wants of a stream, if it does nothing but choose rows."""
        return self._known.selection

    @property
    def selections(self) -> Selections | None:
        """Of a common query: what its members want.  Made when it is asked for: a thousand may come before that."""
        if not self.is_common:
            return None
        if self._selections is None or self._selections.version != self.selections_version:
            wanted = (member.selection.wanted(number) for number, member in self.members.items() if member.selection is not None)
            self._selections = Selections.of(self.selections_version, tuple(wanted))
        return self._selections

    @property
    def may_be_late(self) -> bool:
        """Rows may stay in its answer after their end."""
        return self._known.may_be_late

    @property
    def history_us(self) -> Micros | None:
        """How far back a new query has to look; None: to the beginning."""
        if self.is_stream and self._known.keeps_nothing:
            return 0  # it owes no element of the past
        lengths = [spec.history_us for spec in self._windows]
        return None if None in lengths else max((length for length in lengths if length is not None), default=0)

    @property
    def held_us(self) -> Micros:
        """How far behind a snapshot's frontier lie the rows that its windows held."""
        return max((spec.held_us for spec in self._windows), default=0)

    @property
    def _known(self) -> _PlanFacts:
        if self._facts is None or self._facts.plan is not self.plan:
            self._facts = _PlanFacts.of(self.plan)
        return self._facts

    @property
    def _windows(self) -> list[WindowSpec]:
        return [spec for fragment in self.plan.fragments for spec in windows(fragment.root)]

    @property
    def fields(self) -> tuple[Field, ...]:
        return answer_fields(self.bound, self.plan)

    def adopt(self, other: RunningQuery, owed: Switch | None) -> None:
        """From now on it has the plan and the caches of the other."""
        self.incarnation, self.bound, self.plan, self.terms = other.incarnation, other.bound, other.plan, other.terms
        self.complete_from, self.buckets, self.lane, self.waits_for = other.complete_from, other.buckets, other.lane, other.waits_for
        self.fed, self.snapshot, self.looks_back = other.fed, None, self.started
        self.rows_since_snapshot = self.ticks_since_snapshot = 0
        self.is_switching, self.owes, self.stats = owed is not None, owed, QueryStats()

    def followed_to(self) -> Micros:
        """Every sink has the changes up to here."""
        return min((position() for position in list(self.sink_positions.values())), default=LAST)

    def publish(self) -> None:
        """Bring its Delta table up to its last committed tick."""
        if self.unpublished:
            self.changelog.publish_ticks(self.unpublished)
            self.unpublished = []
        self.catch_up()


def inputs_of(plan: PhysicalPlan) -> dict[str, SourceExec]:
    return {source.name: source for fragment in plan.fragments for source in sources(fragment.root)}


def moved_by(inputs: Mapping[str, SourceExec]) -> frozenset[str]:
    """The inputs that say how far a query can come: relations hold nothing back."""
    return frozenset(source.name for source in inputs.values() if source.kind != "relation")


def answer_fields(bound: BoundQuery, plan: PhysicalPlan) -> tuple[Field, ...]:
    """The answer's columns as the user named them; names may repeat."""
    return tuple(Field(name, field.type) for name, field in zip(bound.names, plan.schema, strict=True))
