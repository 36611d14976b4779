"""Logical nodes: what a query means, with no word on how it runs.

    Scan ─► Filter/Project ─► Window ─► Filter/Project/Join/Aggregate/... ─► ToStream
    stream ───────────────────┤ relation ───────────────────────────────────┤ stream

A relation, or a query that answers with one, is scanned without a window.

Nodes are immutable and check themselves on construction; rules rebuild them with
`dataclasses.replace`.  Column names are unique inside every schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import pyarrow as pa

from millstream.core.errors import ColumnNotFound, WindowInvalid
from millstream.core.schema import Field, Schema
from millstream.plan.expression import Expr, Named
from millstream.plan.ordering import OverCall, SortKey
from millstream.plan.window import RowsWindow, WindowSpec

SourceKind = Literal["stream", "relation", "query"]
Comparison = Literal[">=", ">", "<=", "<"]


@dataclass(frozen=True)
class Scan:
    """The rows of a stream as they arrive, or the changes of a relation.  `columns` maps each output column to the source's own."""

    source: str
    columns: tuple[tuple[str, Field], ...]  # (name in this plan, field of the source)
    kind: SourceKind = "stream"
    retracts: bool = False  # a relation, or a query that answers with one: rows come and go by themselves and take no window

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
    """`name` := function(argument, ...) over a group.  Arguments are columns of the input; there is none for count(*)."""

    name: str
    function: str  # one of operators/aggregates
    argument: str | None
    type: pa.DataType  # of the result
    more: tuple[str, ...] = ()  # further columns, such as those of count(DISTINCT a, b) or min_by(x, y)
    distinct: bool = False
    parameters: tuple[float, ...] = ()  # such as the fractions of a percentile
    where: str | None = None  # with `distinct`: a BOOLEAN column, and only rows where it is true count

    def __repr__(self) -> str:
        """A plan is known by it (`plan_id`): where a later field says nothing it is not said, or states of before would be lost."""
        said = [field.name for field in fields(self) if field.name != "where" or self.where is not None]
        return f"AggregateCall({', '.join(f'{name}={getattr(self, name)!r}' for name in said)})"

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.argument, *self.more) if self.argument else ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All that are read."""
        return self.arguments if self.where is None else (*self.arguments, self.where)

    def __str__(self) -> str:
        arguments = ", ".join([*self.arguments, *map(str, self.parameters)]) or "*"
        where = f" FILTER (WHERE {self.where})" if self.where is not None else ""
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{arguments}){where} AS {self.name}"


@dataclass(frozen=True)
class Aggregate:
    """One row per group: its keys, then its aggregates.  With no keys there is always exactly one group."""

    input: Plan
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    def __post_init__(self) -> None:
        _require(frozenset(self.keys), self.input.schema, "GROUP BY")
        _require(frozenset(name for call in self.calls for name in call.columns), self.input.schema, "an aggregate")

    @property
    def schema(self) -> Schema:
        keys = self.input.schema.select(self.keys).fields
        return Schema(keys + tuple(Field(call.name, call.type) for call in self.calls))


@dataclass(frozen=True)
class Over:
    """Every row of `input`, and what each call makes of the rows around it: those with equal `partition_by`, in order.

    Ties are broken by the other columns, from left to right: the answer depends on the rows alone.
    """

    input: Plan
    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    calls: tuple[OverCall, ...]

    def __post_init__(self) -> None:
        _require(frozenset(self.partition_by), self.input.schema, "PARTITION BY")
        _require(frozenset(key.column for key in self.order_by), self.input.schema, "ORDER BY")
        _require(frozenset(name for call in self.calls for name in call.columns), self.input.schema, "OVER")

    @property
    def schema(self) -> Schema:
        return Schema(self.input.schema.fields + tuple(Field(call.name, call.type) for call in self.calls))


@dataclass(frozen=True)
class TopK:
    """Of the rows with equal `partition_by` the first `limit` behind the first `offset`, in order; ties as for `Over`.

    `number` names a column for the row's place in the order, counted from 1, if it is wanted.
    """

    input: Plan
    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    limit: int
    offset: int = 0
    number: str | None = None

    def __post_init__(self) -> None:
        _require(frozenset(self.partition_by), self.input.schema, "PARTITION BY")
        _require(frozenset(key.column for key in self.order_by), self.input.schema, "ORDER BY")

    @property
    def schema(self) -> Schema:
        number = (Field(self.number, pa.int32()),) if self.number is not None else ()
        return Schema(self.input.schema.fields + number)


@dataclass(frozen=True)
class JoinKey:
    """left = right; where `null_safe`, NULL equals NULL."""

    left: str
    right: str
    null_safe: bool = False

    def __str__(self) -> str:
        return f"{self.left} {'<=>' if self.null_safe else '='} {self.right}"


@dataclass(frozen=True)
class Join:
    """All pairs of a left and a right row with equal keys.  The columns of both sides have different names."""

    left: Plan
    right: Plan
    keys: tuple[JoinKey, ...]

    def __post_init__(self) -> None:
        _require(frozenset(key.left for key in self.keys), self.left.schema, "a join")
        _require(frozenset(key.right for key in self.keys), self.right.schema, "a join")
        assert len(set(self.schema.names)) == len(self.schema), "the sides of a join share a column name"

    @property
    def schema(self) -> Schema:
        return Schema(self.left.schema.fields + self.right.schema.fields)


@dataclass(frozen=True)
class Match:
    """A column of the left compared with one of the right."""

    left: str
    comparison: Comparison
    right: str

    @property
    def forward(self) -> bool:
        """The right one comes after the left one."""
        return self.comparison in ("<=", "<")

    @property
    def strict(self) -> bool:
        return self.comparison in (">", "<")

    def __str__(self) -> str:
        return f"{self.left} {self.comparison} {self.right}"


@dataclass(frozen=True)
class AsOfJoin:
    """Each left row with one right row of equal keys, the nearest by `match`; with `keeps_left` beside NULLs if there is none.

    Of several right rows with the same match value, the greatest by the columns `ties`, in this order, is the partner.
    """

    left: Plan
    right: Plan
    keys: tuple[JoinKey, ...]
    match: Match
    ties: tuple[str, ...]
    keeps_left: bool

    def __post_init__(self) -> None:
        _require(frozenset(key.left for key in self.keys) | {self.match.left}, self.left.schema, "an as-of join")
        _require(frozenset(key.right for key in self.keys) | {self.match.right, *self.ties}, self.right.schema, "an as-of join")
        assert len(set(self.schema.names)) == len(self.schema), "the sides of a join share a column name"

    @property
    def schema(self) -> Schema:
        return Schema(self.left.schema.fields + self.right.schema.fields)


@dataclass(frozen=True)
class Threshold:
    """The left rows whose column compares so with that of the right row of equal keys.  The right has at most one row for each key."""

    left: Plan
    right: Plan
    keys: tuple[JoinKey, ...]
    match: Match

    def __post_init__(self) -> None:
        _require(frozenset(key.left for key in self.keys) | {self.match.left}, self.left.schema, "a threshold")
        _require(frozenset(key.right for key in self.keys) | {self.match.right}, self.right.schema, "a threshold")

    @property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True)
class Union:
    """All rows of all inputs, copies kept.  The inputs have the same columns."""

    inputs: tuple[Plan, ...]

    def __post_init__(self) -> None:
        assert all(plan.schema == self.schema for plan in self.inputs), "the inputs of a union differ in their columns"

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


SetKind = Literal["distinct", "intersect", "except"]


@dataclass(frozen=True)
class SetOperation:
    """Of one input each row once, or of two INTERSECT ALL or EXCEPT ALL.  The inputs have the same columns.

    Only where operators learn the time from what arrives: there it matters which of several equal rows is meant, for they end at different
    instants.  Elsewhere these are groups and joins.
    """

    kind: SetKind
    inputs: tuple[Plan, ...]

    def __post_init__(self) -> None:
        assert len(self.inputs) == (1 if self.kind == "distinct" else 2)
        assert all(plan.schema == self.schema for plan in self.inputs), "the inputs of a set operation differ in their columns"

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


@dataclass(frozen=True)
class Negate:
    """Every copy of a row counts as one less: what is taken away from a union.  Never an answer by itself."""

    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Repeat:
    """Every row as often as its column `copies` says, without that column."""

    input: Plan
    copies: str

    @property
    def schema(self) -> Schema:
        return Schema(tuple(field for field in self.input.schema if field.name != self.copies))


@dataclass(frozen=True)
class ToStream:
    """ISTREAM: rows as they enter; DSTREAM: as they leave; RSTREAM: all rows whenever one of `moved_by` moves.

    Those are the windows and relations as the user wrote them: rules move filters below a window, which changes when it
    moves, but not these.
    """

    input: Plan
    kind: Literal["istream", "dstream", "rstream"]
    moved_by: tuple[Window | Scan, ...] = ()

    @property
    def schema(self) -> Schema:
        return self.input.schema


Plan = (
    Scan
    | Filter
    | Project
    | Window
    | Aggregate
    | Over
    | TopK
    | Join
    | AsOfJoin
    | Threshold
    | Union
    | SetOperation
    | Negate
    | Repeat
    | ToStream
)


@dataclass(frozen=True)
class BoundQuery:
    """A whole query: its plan, and the names of its columns as the user sees them (they may repeat)."""

    plan: Plan
    names: tuple[str, ...]
    sql: str

    @property
    def is_stream(self) -> bool:
        return isinstance(self.plan, ToStream)


def with_differences(plan: Plan) -> Plan:
    """The plan with "these rows, and some of them negated" as an EXCEPT.

    A sum of changes does where they all come when they happen.  Where a side may be late, a row could be taken away that is not there yet.
    """
    plan = with_children(plan, [with_differences(child) for child in children(plan)])
    match plan:
        case Union((rows, Negate(some))):
            return SetOperation("except", (rows, some))
        case _:
            return plan


def children(plan: Plan) -> tuple[Plan, ...]:
    match plan:
        case Scan():
            return ()
        case Join() | AsOfJoin() | Threshold():
            return (plan.left, plan.right)
        case Union() | SetOperation():
            return plan.inputs
        case _:
            return (plan.input,)


def with_children(plan: Plan, new: Sequence[Plan]) -> Plan:
    """The same node over other inputs; the node itself if they are the same."""
    if all(one is other for one, other in zip(children(plan), new, strict=True)):
        return plan
    match plan:
        case Scan():
            return plan
        case Join() | AsOfJoin() | Threshold():
            return replace(plan, left=new[0], right=new[1])
        case Union() | SetOperation():
            return replace(plan, inputs=tuple(new))
        case _:
            return replace(plan, input=new[0])


def scans(plan: Plan) -> tuple[Scan, ...]:
    """All scans of the plan, from left to right."""
    if isinstance(plan, Scan):
        return (plan,)
    return tuple(scan for child in children(plan) for scan in scans(child))


def moving(plan: Plan) -> tuple[Window | Scan, ...]:
    """All windows and relations of the plan, from left to right."""
    if isinstance(plan, Window) or (isinstance(plan, Scan) and plan.retracts):
        return (plan,)
    return tuple(part for child in children(plan) for part in moving(child))


def _require(columns: frozenset[str], schema: Schema, what: str) -> None:
    for name in sorted(columns):
        if name not in schema:
            raise ColumnNotFound(f'{what} reads "{name}", which its input does not have')
