"""Conditions taken apart at AND, for rules that move each part to where it can run first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from millstream.plan.expression import Expr
from millstream.plan.logical import Filter, Plan


def parts(predicate: Expr) -> Iterator[Expr]:
    """A row passes the condition if every part is true of it."""
    tree = predicate.tree
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        yield from parts(Expr(tree.this, pa.bool_()))
        yield from parts(Expr(tree.expression, pa.bool_()))
    else:
        yield Expr(tree, pa.bool_())


def filtered(plan: Plan, conditions: Sequence[Expr]) -> Plan:
    for condition in conditions:
        plan = Filter(plan, Expr(condition.tree.copy(), condition.type))
    return plan
