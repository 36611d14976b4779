"""A registered query, as the driver knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from millstream.core.instant import LAST, NEVER_BEFORE, Micros
from millstream.core.schema import Field
from millstream.language.statements import Materialisation
from millstream.plan.logical import BoundQuery
from millstream.plan.physical import SourceExec, sources
from millstream.plan.planner import plan_physical
from millstream.plan.rewrite import rewrite
from millstream.psoup.from_plan import Planned
from millstream.psoup.query import Bound, Now
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
    bound: BoundQuery

    @cached_property
    def streams(self) -> tuple[str, ...]:
        return self.planned.streams

    @cached_property
    def reads(self) -> tuple[SourceExec, ...]:
        """What it needs of those who feed its streams."""
        plan = plan_physical(replace(self.bound, plan=rewrite(self.bound.plan)), {})
        return tuple(source for fragment in plan.fragments for source in sources(fragment.root))

    def begin(self, now: Micros) -> Micros:
        return begin_at(self.planned.query.begin, now)

    def complete_from(self, now: Micros, whole_from: Micros) -> Micros:
        """NEVER_BEFORE: nothing that its window should hold has left the logs.  LAST: something has, for good."""
        if whole_from <= self.begin(now):
            return NEVER_BEFORE
        begin = self.planned.query.begin
        return whole_from + begin.minus_us if isinstance(begin, Now) else LAST


def begin_at(begin: Bound, now: Micros) -> Micros:
    return max(now - begin.minus_us if isinstance(begin, Now) else begin, NEVER_BEFORE)


@dataclass(frozen=True)
class Known:
    """All registered queries; another one whenever one comes or goes."""

    by_name: Mapping[str, Registered]

    @cached_property
    def by_number(self) -> dict[int, Registered]:
        return {each.number: each for each in self.by_name.values()}

    @cached_property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.by_number)

    @cached_property
    def kinds(self) -> frozenset[tuple[tuple[str, ...], Bound]]:
        """The streams that they read, with the beginnings of their windows: few, however many they are."""
        return frozenset((each.streams, each.planned.query.begin) for each in self.by_name.values())

    @cached_property
    def streams(self) -> frozenset[str]:
        return frozenset(name for names, _ in self.kinds for name in names)


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
