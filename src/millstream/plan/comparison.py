"""Comparisons inside bound expressions: what is compared, how, and in which type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from millstream.plan.expression import Expr

_TYPE = "compared as"
TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ}

_DENIED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GTE, exp.GTE: exp.LT, exp.LTE: exp.GT, exp.GT: exp.LTE}

Node = TypeVar("Node", bound=exp.Expr)


def compared_as(node: Node, type_: pa.DataType) -> Node:
    """`node`, knowing the type that both of its sides have."""
    node.meta[_TYPE] = type_
    return node


@dataclass(frozen=True)
class Comparing:
    """`left` `kind` `right`, where `kind` is one of <, <=, =, >=, >."""

    kind: type[exp.Expr]
    left: Expr
    right: Expr

    @property
    def turned(self) -> Comparing:
        return Comparing(TURNED[self.kind], self.right, self.left)


def comparing(condition: Expr) -> Comparing | None:
    """NOT a < b is a >= b: values have an order, and where one is NULL, so are both conditions."""
    tree, denied = condition.tree.unnest(), False
    while isinstance(tree, exp.Not):
        tree, denied = tree.this.unnest(), not denied
    if _TYPE not in tree.meta or type(tree) not in (_DENIED if denied else TURNED):
        return None
    kind, type_ = type(tree), tree.meta[_TYPE]
    return Comparing(_DENIED[kind] if denied else kind, Expr(tree.this.copy(), type_), Expr(tree.expression.copy(), type_))
