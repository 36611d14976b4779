"""What the driver and the process of the soup say to each other: plain immutable data, and never rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.core.errors import MillstreamError
from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.psoup.from_plan import Planned
from millstream.state.chunk import ChunkInfo


@dataclass(frozen=True)
class SoupFeed:
    """Rows of a stream with sequence numbers after `after` and timestamps from `since` on; those up to `frontier` can be seen."""

    stream: str
    schema: Schema
    table_dir: str
    chunks: tuple[ChunkInfo, ...]
    after: int
    since: Micros
    frontier: Micros
    expire_before: Micros | None = None  # rows that nobody needs any more


@dataclass(frozen=True)
class Invocation:
    """Of a query, by its number: at an instant, over rows from `since` on."""

    number: int
    now: Micros
    since: Micros


@dataclass(frozen=True)
class SoupTask:
    """One step of a soup.

    A soup has done the steps before, in this process, or it is of no use: then it is missing, and the driver has another one begun.
    A step that was done already, because its answer got lost, only answers again.
    """

    soup: str
    step: int
    begins: bool
    feeds: tuple[SoupFeed, ...]
    added: tuple[tuple[int, Planned], ...]
    removed: tuple[int, ...]
    invoked: tuple[Invocation, ...]
    answer_dir: str
    wants_storage: bool = False


@dataclass(frozen=True)
class SoupResult:
    missing: bool = False
    error: MillstreamError | None = None
    answers: tuple[str, ...] = ()  # files, one for each invocation
    storage: Mapping[str, int] = field(default_factory=dict)
