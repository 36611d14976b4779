"""Expressions of a query: scalar binding plus what a continuous answer asks for in addition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import NotSupported
from millstream.language.scalar import bind_predicate, bind_scalar
from millstream.language.spans import span_of
from millstream.plan.expression import Expr
from millstream.plan.logical import Plan


class Typed(Protocol):
    """Whatever knows the types of a plan node's columns."""

    def type_of(self, column: exp.Column) -> tuple[str, pa.DataType]: ...


@dataclass(frozen=True)
class PlanColumns:
    """The columns of a plan, for trees that name nothing else."""

    plan: Plan

    def type_of(self, column: exp.Column) -> tuple[str, pa.DataType]:
        return column.name, self.plan.schema[column.name].type


def bind_over(tree: exp.Expr, columns: Typed, sql: str) -> Expr:
    """`tree` over columns of the plan."""
    return _repeatable(bind_scalar(tree, columns.type_of, sql), tree, sql)


def bind_condition(tree: exp.Expr, columns: Typed, sql: str, clause: str) -> Expr:
    return _repeatable(bind_predicate(tree, columns.type_of, sql, clause), tree, sql)


def _repeatable(expr: Expr, tree: exp.Expr, sql: str) -> Expr:
    # the answer at an instant must not depend on when and how often it is computed
    if not expr.deterministic:
        hint = "Use the stream's own timestamps."
        raise NotSupported("a function that gives another value each time is not supported", hint=hint, span=span_of(tree), sql=sql)
    return expr
