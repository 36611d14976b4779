"""What of a log several readers may keep in common: the normal form of a source.

Sources that take the same rows of the same log to the same buckets differ only in the columns they want and in what they call
them.  Their rows are then read and kept once, with the columns of all, under the names of the log; each reader picks its own.

    a: Source s (k, v), by k           ┐      read    Source s (k, v, w), by k
    b: Source s (k AS k_2, w), by k_2  ┘      a picks k, v        b picks k AS k_2, w AS w_2

Not in common are rows that pass other filters (a window behind a selective filter is small, and would have to filter again whatever
leaves it), computed columns (only between sources that are equal), rows whose order depends on the columns that are read, what
retracts, and what calls Python functions, which may not give the same twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pyarrow as pa

from millstream.core.schema import Field, Schema
from millstream.plan.duckdb_sql import quoted
from millstream.plan.physical import ByKey, ComputedColumn, Distribution, FilterStep, ProjectStep, Single, SourceExec

Picked = tuple[tuple[str, str], ...]
"""(column of what is kept, its name in the plan), in the order of the plan."""


@dataclass(frozen=True)
class Reading:
    """Which rows of a log, in which bucket each.  `like` has the filters and all else that readers in common agree on, but no columns."""

    like: SourceExec
    needs: tuple[tuple[str, pa.DataType], ...] = field(compare=False)  # columns of the log that this reader picks
    filtered_by: tuple[tuple[str, pa.DataType], ...] = field(compare=False)  # ... and those that its filters read
    picked: Picked = field(compare=False)


@dataclass(frozen=True)
class SharedSource:
    """A source as it is read for all who have it in common: `name` is that of their store."""

    name: str
    read: SourceExec


class SharedSources:
    """The sources of all standing queries, each widened to what those in common with it need."""

    def __init__(self, sources: Iterable[SourceExec], *, on: bool = True) -> None:
        self._needs: dict[Reading, dict[str, pa.DataType]] = {}
        self._found: dict[SourceExec, SharedSource] = {}
        for reading in filter(None, map(reading_of, sources)) if on else ():
            self._needs.setdefault(reading, {}).update(reading.needs)
        self._on = on

    def of(self, source: SourceExec) -> SharedSource | None:
        """None: nobody else may read along."""
        reading = reading_of(source) if self._on else None
        if reading is None:
            return None
        found = self._found.get(source)
        if found is None:
            read = _widened(reading, self._needs.get(reading, {}))
            found = self._found[source] = SharedSource(_name(reading), read)
        return found


@lru_cache(maxsize=4096)
def spread_over(source: SourceExec, buckets: int) -> SourceExec:
    """The same source where there are so many buckets: in one, it does not matter how its rows would be split."""
    return source if buckets > 1 else replace(source, distribution=Single(), split_at_ingest=False)


@lru_cache(maxsize=4096)
def reading_of(source: SourceExec) -> Reading | None:
    """None if its rows are its own."""
    if source.retracts or any(step.calls for step in source.prefix):
        return None
    picked = _picked(source)
    if picked is None or source.ties_by_value or source.panes is not None:
        return Reading(source, tuple((one.name, one.type) for one in source.schema), (), picked_as_is(source))
    named = {name: log for log, name in picked}
    types = {log: type_ for log, _, type_ in source.columns}
    filters = tuple(step for step in source.prefix if isinstance(step, FilterStep))
    like = SourceExec(
        source.name, source.kind, source.retracts, (), filters, Schema(()), _renamed(source.distribution, named), source.split_at_ingest
    )
    needs = tuple((log, types[log]) for log in dict.fromkeys(named.values()))
    return Reading(like, needs, tuple(types.items()) if filters else (), picked)


def picked_as_is(source: SourceExec) -> Picked:
    return tuple((name, name) for name in source.schema.names)


def _picked(source: SourceExec) -> Picked | None:
    """Which columns of the log its columns are, and how they are called; None if it computes some or its filters call them otherwise."""
    if any(log != name for log, name, _ in source.columns) and any(isinstance(step, FilterStep) for step in source.prefix):
        return None
    now = {name: (log, type_) for log, name, type_ in source.columns}  # what they are called so far
    for i, step in enumerate(source.prefix):
        if isinstance(step, ProjectStep):
            if any(isinstance(later, FilterStep) for later in source.prefix[i + 1 :]):
                return None
            bare = {(quoted(name), type_): (log, type_) for name, (log, type_) in now.items()}
            if any((column.sql, column.type) not in bare for column in step.columns):
                return None
            now = {column.name: bare[column.sql, column.type] for column in step.columns}
    return tuple((log, name) for name, (log, _) in now.items())


def _renamed(distribution: Distribution, names: Mapping[str, str]) -> Distribution:
    return ByKey(tuple(names[name] for name in distribution.columns)) if isinstance(distribution, ByKey) else distribution


def _widened(reading: Reading, needs: Mapping[str, pa.DataType]) -> SourceExec:
    """With all the columns that are needed, in the order of their names."""
    if reading.like.schema.names:
        return reading.like
    kept = dict(sorted({**needs, **dict(reading.needs)}.items()))
    read = dict(sorted({**kept, **dict(reading.filtered_by)}.items()))
    prefix: tuple[FilterStep | ProjectStep, ...] = reading.like.prefix
    if len(read) > len(kept):  # a filter's columns, which nobody keeps
        prefix = (*prefix, ProjectStep(tuple(ComputedColumn(name, quoted(name), type_) for name, type_ in kept.items())))
    columns = tuple((name, name, type_) for name, type_ in read.items())
    return replace(reading.like, columns=columns, prefix=prefix, schema=Schema(tuple(Field(name, type_) for name, type_ in kept.items())))


def _name(reading: Reading) -> str:
    return hashlib.sha1(repr(reading.like).encode()).hexdigest()[:20]
