"""A registered query, as the driver knows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from millstream.core.instant import LAST, NEVER_BEFORE, Micros
from millstream.core.schema import Field
from millstream.language.statements import Materialisation
from millstream.plan.physical import SourceExec
from millstream.psoup.from_plan import Planned
from millstream.psoup.query import Now
from millstream.runtime.streams import OpenStream


@dataclass(frozen=True)
class Registered:
    number: int
    """In the catalog: no other query ever has the same."""
    name: str
    sql: str
    fields: tuple[Field, ...]
    materialise: Materialisation
    planned: Planned
    reads: tuple[SourceExec, ...]
    """What it needs of those who feed its streams."""

    @cached_property
    def streams(self) -> tuple[str, ...]:
        return self.planned.streams

    def begin(self, now: Micros) -> Micros:
        begin = self.planned.query.begin
        return max(now - begin.minus_us if isinstance(begin, Now) else begin, NEVER_BEFORE)

    def held_from(self, now: Micros) -> Micros | None:
        """The instant from which on its streams keep their rows for it, whatever RETAIN says; None: RETAIN decides alone.

        A window that moves needs no more than its length.  One that begins at an instant would keep everything since, for ever.
        """
        return self.begin(now) if isinstance(self.planned.query.begin, Now) else None

    def complete_from(self, now: Micros, whole_from: Micros) -> Micros:
        """NEVER_BEFORE: nothing that its window should hold has left the logs.  LAST: something has, for good."""
        if whole_from <= self.begin(now):
            return NEVER_BEFORE
        begin = self.planned.query.begin
        return whole_from + begin.minus_us if isinstance(begin, Now) else LAST


@dataclass(frozen=True)
class Place:
    """Where a query over some streams would be asked now."""

    now: Micros
    whole_from: Micros
    """Since then the logs of all its streams have all rows."""

    @staticmethod
    def of(streams: Sequence[OpenStream]) -> Place:
        return Place.together([Place(stream.frontier, stream.log.whole_from) for stream in streams])

    @staticmethod
    def together(places: Sequence[Place]) -> Place:
        return Place(min(place.now for place in places), max(place.whole_from for place in places))
