"""Queries that only choose rows of a stream: what of them an index can tell, and what has to be done with the rows that it finds.

    SELECT k, v * 2 AS w FROM s [RANGE 1 MINUTE] WHERE k = 3 AND v > 1 AND name LIKE 'a%'

is taken apart into

    the stream and its window      s [RANGE 1 MINUTE]         the same for all selections that run together
    factors                        k = 3, v > 1               for the predicate index
    conditions                     all, for the LIKE          tried on the rows that the index leaves
    projections                    k, v * 2 AS w              made of the rows that are left, when somebody looks
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import sqlglot
from sqlglot import exp

from millstream.core.errors import MillstreamError
from millstream.core.schema import Field, Schema
from millstream.kernels.comparison_keys import Operator, constant_array
from millstream.kernels.predicate_index import Factor
from millstream.kernels.sort_keys import is_sortable
from millstream.plan.comparison import TURNED
from millstream.plan.duckdb_sql import duckdb_type
from millstream.plan.physical import (
    Anywhere,
    ByKey,
    ComputedColumn,
    Distribution,
    Exec,
    FilterStep,
    Fragment,
    MatchExec,
    NetExec,
    PhysicalPlan,
    ProjectStep,
    SourceExec,
    ToStreamExec,
    WindowExec,
)
from millstream.plan.window import TimeWindow

MEMBER = "_member"
"""The column that says whose row it is, where selections run together."""

Kind = Literal["rows", "changes", "istream", "dstream"]
"""What is told of the rows: all that arrive; what enters and leaves, netted; of that only the one or the other."""

_OPERATORS: dict[type[exp.Expr], Operator] = {exp.LT: "<", exp.LTE: "<=", exp.EQ: "=", exp.GTE: ">=", exp.GT: ">"}


@dataclass(frozen=True)
class Wanted:
    """What one selection wants of the rows: `names` are the columns of the stream that its conditions read, and what they call them."""

    member: int
    factors: tuple[Factor, ...]
    conditions: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Selection:
    stream: str
    window: TimeWindow
    kind: Kind
    factors: tuple[Factor, ...]
    conditions: tuple[str, ...]
    reads: tuple[tuple[str, str], ...]  # (column of the stream, what it is called in conditions and projections)
    projections: tuple[tuple[ComputedColumn, ...], ...]  # one after the other

    @property
    def family(self) -> tuple[str, TimeWindow]:
        """Selections of one family can run together."""
        return self.stream, self.window

    def wanted(self, member: int) -> Wanted:
        return Wanted(member, self.factors, self.conditions, self.reads if self.conditions else ())


def selection_of(plan: PhysicalPlan) -> Selection | None:
    """None: it is another kind of query, or has to call Python functions."""
    kind, node = _kind(plan)
    if len(plan.fragments) > 1 or not isinstance(node, WindowExec) or not isinstance(node.spec, TimeWindow) or node.says_until:
        return None
    source = node.input
    if not isinstance(source, SourceExec) or source.kind != "stream" or any(step.calls for step in source.prefix):
        return None
    filters = [step for step in source.prefix if isinstance(step, FilterStep)]
    if list(source.prefix[: len(filters)]) != filters:
        return None  # a filter of something computed
    types = {name: type_ for _, name, type_ in source.columns}
    logged = {name: log for log, name, _ in source.columns}
    factors: list[Factor] = []
    conditions: list[str] = []
    for step in filters:
        found = [_factor(part, types) for part in _conjuncts(step.predicate_sql)]
        factors += [Factor(logged[factor.column], factor.op, factor.constant) for factor in found if factor is not None]
        if None in found:
            conditions.append(step.predicate_sql)  # as it is: to write a part of it anew might change it
    projections = tuple(step.columns for step in source.prefix if isinstance(step, ProjectStep))
    reads = tuple((log, name) for log, name, _ in source.columns)
    return Selection(source.name, node.spec, kind, tuple(factors), tuple(conditions), reads, projections)


def common_plan(stream: str, schema: Schema, window: TimeWindow, partition_by: tuple[str, ...]) -> PhysicalPlan:
    """Of all selections of one family together: every row that somebody wants, once for each who does."""
    columns = tuple((field.name, field.name, field.type) for field in schema)
    spread: Distribution = ByKey(partition_by) if partition_by else Anywhere()
    source = SourceExec(stream, "stream", False, columns, (), schema, spread, split_at_ingest=bool(partition_by))
    told = Schema((*schema, Field(MEMBER, pa.int64())))
    root = MatchExec(WindowExec(source, window, schema), told)
    return PhysicalPlan((Fragment(1, root, None),), append_only=window.grows_only)


def _kind(plan: PhysicalPlan) -> tuple[Kind, Exec]:
    """What it tells, and the part of the plan below."""
    node: Exec = plan.fragments[-1].root
    kind: Kind = "rows" if plan.append_only else "changes"
    if isinstance(node, ToStreamExec):
        kind, node = node.kind, node.input
    return kind, node.input if isinstance(node, NetExec) else node


def _conjuncts(sql: str) -> list[exp.Expr]:
    tree = sqlglot.parse_one(sql, read="duckdb").unnest()
    return [part.unnest() for part in tree.flatten()] if isinstance(tree, exp.And) else [tree]


def _factor(condition: exp.Expr, types: Mapping[str, pa.DataType]) -> Factor | None:
    """`column op constant` with a constant of the column's own type; whatever else means something else."""
    kind = type(condition)
    if kind not in _OPERATORS:
        return None
    left, right = condition.this.unnest(), condition.expression.unnest()
    if not isinstance(left, exp.Column):
        left, right, kind = right, left, TURNED[kind]
    if not isinstance(left, exp.Column) or left.name not in types or not is_sortable(types[left.name]):
        return None
    constant = _constant(right, types[left.name])
    return Factor(left.name, _OPERATORS[kind], constant.as_py()) if constant is not None else None


def _constant(node: exp.Expr, type_: pa.DataType) -> pa.Scalar | None:
    text = node.this if isinstance(node, exp.Cast) else node
    if isinstance(text, exp.Neg):
        return None
    if not isinstance(text, exp.Literal) or (isinstance(node, exp.Cast) and node.to.sql(dialect="duckdb") != duckdb_type(type_)):
        return None
    if node is text and not (pa.types.is_string(type_) if text.is_string else pa.types.is_integer(type_)):
        return None
    try:
        value = pa.array([text.this]) if not pa.types.is_timestamp(type_) else pa.array([text.this]).cast(pa.timestamp("us"))
        scalar = value.cast(type_)[0]
        constant_array(scalar, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, MillstreamError):
        return None
    return scalar
