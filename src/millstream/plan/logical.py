"""Logical nodes: what a query means, with no word on how it runs.

    Scan ─► Filter/Project ─► Window ─► Filter/Project ─► Aggregate ─► Filter/Project ─► ToStream
    stream ───────────────────┤ relation ──────────────────────────────────────────────┤ stream

Nodes are immutable and check themselves on construction; rules rebuild them with
`dataclasses.replace`.  Column names are unique inside every schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from millstream.core.errors import ColumnNotFound, WindowInvalid
from millstream.core.schema import Field, Schema
from millstream.plan.expression import Expr, Named
from millstream.plan.window import RowsWindow, WindowSpec


@dataclass(frozen=True)
class Scan:
    """The rows of a stream as they arrive.  `columns` maps each output column to the stream's own."""

    source: str
    columns: tuple[tuple[str, Field], ...]  # (name in this plan, field of the stream)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Field(name, field.type) for name, field in self.columns))


@dataclass(frozen=True)
class Filter:
    """Rows for which `predicate` is true (not NULL)."""

    input: Plan
    predicate: Expr

    def __post_init__(self) -> None:
        _require(self.predicate.columns, self.input.schema, "a filter")

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Project:
    """One output column for each named expression; duplicates are kept."""

    input: Plan
    columns: tuple[Named, ...]

    def __post_init__(self) -> None:
        for named in self.columns:
            _require(named.expr.columns, self.input.schema, f'column "{named.name}"')

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Field(named.name, named.expr.type) for named in self.columns))


@dataclass(frozen=True)
class Window:
    """The rows of a stream that are in the window now.  Adds no columns."""

    input: Plan
    spec: WindowSpec

    def __post_init__(self) -> None:
        if isinstance(self.spec, RowsWindow):
            if self.spec.rows <= 0:
                raise WindowInvalid(f"a ROWS window cannot hold {self.spec.rows} rows", hint="Use a positive number of rows.")
            _require(frozenset(self.spec.partition_by), self.input.schema, "the window's PARTITION BY")

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class AggregateCall:
    """`name` := function(argument) over a group.  `argument` is a column of the input, None for count(*)."""

    name: str
    function: str  # count, sum, avg, min, max
    argument: str | None
    type: pa.DataType  # of the result

    def __str__(self) -> str:
        return f"{self.function}({self.argument or '*'}) AS {self.name}"


@dataclass(frozen=True)
class Aggregate:
    """One row per group: its keys, then its aggregates.  With no keys there is always exactly one group."""

    input: Plan
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    def __post_init__(self) -> None:
        _require(frozenset(self.keys), self.input.schema, "GROUP BY")
        _require(frozenset(call.argument for call in self.calls if call.argument), self.input.schema, "an aggregate")

    @property
    def schema(self) -> Schema:
        keys = self.input.schema.select(self.keys).fields
        return Schema(keys + tuple(Field(call.name, call.type) for call in self.calls))


@dataclass(frozen=True)
class ToStream:
    """ISTREAM: rows as they enter; DSTREAM: as they leave; RSTREAM: all rows whenever something moves."""

    input: Plan
    kind: Literal["istream", "dstream", "rstream"]

    @property
    def schema(self) -> Schema:
        return self.input.schema


Plan = Scan | Filter | Project | Window | Aggregate | ToStream


@dataclass(frozen=True)
class BoundQuery:
    """A whole query: its plan, and the names of its columns as the user sees them (they may repeat)."""

    plan: Plan
    names: tuple[str, ...]
    sql: str

    @property
    def is_stream(self) -> bool:
        return isinstance(self.plan, ToStream)


def children(plan: Plan) -> tuple[Plan, ...]:
    return () if isinstance(plan, Scan) else (plan.input,)


def scans(plan: Plan) -> tuple[Scan, ...]:
    """All scans of the plan, from left to right."""
    if isinstance(plan, Scan):
        return (plan,)
    return tuple(scan for child in children(plan) for scan in scans(child))


def _require(columns: frozenset[str], schema: Schema, what: str) -> None:
    for name in sorted(columns):
        if name not in schema:
            raise ColumnNotFound(f'{what} reads "{name}", which its input does not have')
