"""What the driver and the workers say to each other in a tick: plain immutable data, small, and never rows.

MapTask    ─► MapResult      read new chunks once, run the row-wise prefix, split by key into exchange files
StageTask  ─► StageResult    step the fragments of one stage for one bucket
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from millstream.core.errors import MillstreamError
from millstream.core.instant import GONE_NEVER, NEVER_BEFORE, Micros
from millstream.plan.physical import Fragment, SourceExec
from millstream.plan.selection import Wanted
from millstream.runtime.nodes import OperatorProfile, Profile
from millstream.runtime.schedulers import SchedulerName
from millstream.runtime.stage_clock import Seconds
from millstream.state.chunk import ChunkInfo
from millstream.state.output_file import OutputFile


@dataclass(frozen=True)
class SourceFeed:
    """Rows of one source of a fragment with sequence numbers in (after, upto]: as chunks, or as files of a map stage.

    `read` says what is read of them: the source itself, or what all the sources need that keep their rows in the store of this name.
    A feed for a cache that is built anew holds every row of the log at or after `since`; of rows before `whole_from` the log may have
    dropped some, and of those after `whole_to` some may come with the next feeds only.
    """

    read: SourceExec
    table_dir: str
    after: int
    upto: int
    chunks: tuple[ChunkInfo, ...]
    exchange: tuple[str, ...] = ()  # in arrival order; one record batch per bucket
    store: str | None = None  # None: the rows are for this fragment alone
    since: Micros = NEVER_BEFORE
    whole_from: Micros = NEVER_BEFORE
    whole_to: Micros = GONE_NEVER


@dataclass(frozen=True)
class Rebuild:
    """How a worker without a cache gets one: from a snapshot and the rows of the log since.

    The task that carries it starts at the snapshot's frontier.  Its feeds hold every row that the windows still
    need there, or that came later.
    """

    snapshot: str | None  # stem of the files; None: from nothing


@dataclass(frozen=True)
class Selections:
    """Those that run together in a fragment.  While `version` is the same, so are they."""

    version: int
    packed: bytes = field(compare=False, repr=False)  # there may be thousands, and every task has them
    only: int | None = None  # whose contents are asked for

    @staticmethod
    def of(version: int, wanted: Sequence[Wanted]) -> Selections:
        return Selections(version, pickle.dumps(tuple(wanted)))

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        found: tuple[Wanted, ...] = pickle.loads(self.packed)
        return found


@dataclass(frozen=True)
class FragmentTask:
    query: str
    incarnation: str  # a query dropped and created again under the same name is another one
    number: int  # of the fragment in its plan
    fragment: Fragment
    buckets: int  # of the query
    at: Micros
    frontier: Micros
    feeds: tuple[SourceFeed, ...]
    received: tuple[tuple[str, ...], ...]  # per ReceiveExec: exchange files
    rebuild: Rebuild | None
    output_dir: str
    output_columns: tuple[str, ...]  # as the table on disk names them
    emit: Literal["changes", "net", "nothing"] = "changes"  # net: the sum of all changes, at the frontier
    snapshot_dir: str | None = None
    wants_contents: bool = False
    released_upto: tuple[Micros, ...] = ()  # output_delay.py: between which instants to count changes
    selections: Selections | None = None
    together: int | None = None  # equal for the fragments of a stage task that may run in one circuit

    def runs_in(self, bucket: int) -> bool:
        return bucket < (1 if self.fragment.single else self.buckets)


@dataclass(frozen=True)
class StageTask:
    database: str
    tick: int
    bucket: int
    exchange_dir: str
    fragments: tuple[FragmentTask, ...]
    live: frozenset[str]  # incarnations that still exist: caches of others are dropped
    scheduler: SchedulerName = "fifo"


@dataclass(frozen=True)
class FragmentResult:
    incarnation: str
    number: int
    bucket: int
    missing: bool = False  # no usable cache, and the task did not say how to rebuild one
    error: MillstreamError | None = None
    output: OutputFile | None = None
    exchange: str | None = None
    snapshot: str | None = None
    contents: str | None = None
    rows_in: int = 0
    rows_out: int = 0
    state_rows: int = 0
    waiting_rows: int = 0  # taken in, beyond the frontier
    store_bytes: int = 0  # its part of the stores that it reads
    released: tuple[int, ...] = ()  # changes of the answer, as `released_upto` divides them
    seconds: float = 0.0
    stages: Seconds = field(default_factory=dict)  # where they went
    operators: tuple[OperatorProfile, ...] = ()
    sources: tuple[Profile, ...] = ()  # rows read for each of its sources, and rows that have passed the filters


@dataclass(frozen=True)
class StoreSize:
    """The rows of a source that a worker keeps for one bucket, and who reads them there."""

    read: SourceExec
    bucket: int
    rows: int
    bytes: int
    readers: tuple[tuple[str, int], ...]  # (incarnation, fragment)
    windows: int  # that hold rows in it


@dataclass(frozen=True)
class CommonPart:
    """A part of plans that a worker runs once for several fragments, as EXPLAIN tells it."""

    part: str
    users: tuple[tuple[str, int], ...]  # (incarnation, fragment)


@dataclass(frozen=True)
class StageResult:
    bucket: int
    fragments: tuple[FragmentResult, ...]
    worker: int = 0  # process id, for the profile
    stores: tuple[StoreSize, ...] = ()  # all that this worker has for the bucket
    common: tuple[CommonPart, ...] = ()  # likewise
    seconds: float = 0.0  # of the whole task
    stages: Seconds = field(default_factory=dict)  # ... of those that are no fragment's, where they went


@dataclass(frozen=True)
class MapTask:
    """Some chunks of one stream, for all sources that want it split in some way."""

    part: int
    buckets: int
    table_dir: str
    chunks: tuple[ChunkInfo, ...]
    sources: tuple[tuple[str, SourceExec], ...]  # (name of the split, source)
    exchange_dir: str


@dataclass(frozen=True)
class MapResult:
    part: int
    files: dict[str, str]  # split -> file
    error: MillstreamError | None = None
    seconds: float = 0.0
    stages: Seconds = field(default_factory=dict)
