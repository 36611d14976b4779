"""Bound scalar expressions: a tree whose columns are resolved and whose types are known.

The tree is sqlglot's, in Spark's dialect.  Every column in it is a bare `exp.Column` whose name
is the column's unique name in the schema of the plan node below; implicit casts have been made
explicit by the binder.  Trees are never changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

# exp.Anonymous covers the functions that sqlglot has no class for
_VOLATILE = (exp.Rand, exp.Randn, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Uuid)
_VOLATILE_NAMES = {"RAND", "RANDOM", "RANDN", "UUID", "NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE", "SHUFFLE", "MONOTONICALLY_INCREASING_ID"}


@dataclass(frozen=True)
class Expr:
    tree: exp.Expr
    type: pa.DataType

    @cached_property
    def columns(self) -> frozenset[str]:
        """The input columns that the value depends on."""
        return frozenset(column.name for column in self.tree.find_all(exp.Column))

    @cached_property
    def deterministic(self) -> bool:
        """The same row gives the same value, whenever and wherever it is evaluated."""
        if self.tree.find(*_VOLATILE):
            return False
        return not any(call.name.upper() in _VOLATILE_NAMES for call in self.tree.find_all(exp.Anonymous))

    @property
    def is_column(self) -> bool:
        """A bare reference: evaluating it costs nothing."""
        return isinstance(self.tree, exp.Column)

    def substitute(self, replacements: Mapping[str, Expr]) -> Expr:
        """The same expression over other columns: each named column becomes what it stands for."""

        def swap(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.name not in replacements:
                return node
            new = replacements[node.name]
            return new.tree.copy() if new.is_column else exp.paren(new.tree.copy())

        return Expr(self.tree.copy().transform(swap), self.type)

    def __str__(self) -> str:
        return self.tree.sql(dialect="spark")


def column(name: str, type_: pa.DataType) -> Expr:
    """A reference to the column `name` of the input."""
    return Expr(exp.column(exp.to_identifier(name, quoted=True)), type_)


@dataclass(frozen=True)
class Named:
    """An expression and the column it becomes."""

    name: str
    expr: Expr

    def __str__(self) -> str:
        if self.expr.is_column and next(iter(self.expr.columns)) == self.name:
            return self.name
        return f"{self.expr} AS {self.name}"
