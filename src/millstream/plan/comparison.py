"""Comparisons inside bound expressions: what is compared, how, and in which type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from millstream.plan.expression import Expr

_TYPE = "compared as"
TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ}

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
    tree = condition.tree.unnest()
    if type(tree) not in TURNED or _TYPE not in tree.meta:
        return None
    type_ = tree.meta[_TYPE]
    return Comparing(type(tree), Expr(tree.this.copy(), type_), Expr(tree.expression.copy(), type_))
