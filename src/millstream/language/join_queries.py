"""Queries in ON.  A condition of one side filters that side before the join, if its rows need no partner to stay:

    a LEFT JOIN b ON a.k = b.k AND b.v IN (SELECT ...)           a LEFT JOIN (b WHERE v IN ...) ON a.k = b.k

Any other query becomes a column of the side whose columns it names (subquery_values), and the condition reads that column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from millstream.language.bound_select import BoundSelect
from millstream.language.outer_names import Outer, Selects, outer_columns, refused_elsewhere
from millstream.language.scope import Scope, is_bound
from millstream.language.subquery_correlated import outer_names
from millstream.language.subquery_values import Values, scope_with, with_values
from millstream.language.unsupported import check_expression, not_supported
from millstream.plan.logical import Plan

_Side = Literal["left", "right"]

_FILTERED: dict[str, tuple[_Side, ...]] = {
    "INNER": ("left", "right"), "SEMI": ("left", "right"), "LEFT": ("right",), "ANTI": ("right",), "RIGHT": ("left",), "FULL": (),
}  # fmt: skip
"""Sides of which a row that cannot pass leaves nothing behind."""


@dataclass(frozen=True)
class Sides:
    """Both sides of a join, perhaps with more columns than before, and what those are called."""

    left: BoundSelect
    right: BoundSelect
    scope: Scope

    def side(self, name: _Side) -> BoundSelect:
        return self.left if name == "left" else self.right

    def with_side(self, name: _Side, bound: BoundSelect) -> Sides:
        return replace(self, left=bound) if name == "left" else replace(self, right=bound)


def with_queries(sides: Sides, kind: str, parts: list[exp.Expr], selects: Selects) -> tuple[Sides, list[exp.Expr]]:
    """The sides of a join under these parts of ON, in which queries stand, and what is left of the parts as conditions."""
    with refused_elsewhere(sides.scope, parts):
        return _with_queries(sides, kind, parts, selects)


def _with_queries(sides: Sides, kind: str, parts: list[exp.Expr], selects: Selects) -> tuple[Sides, list[exp.Expr]]:
    values, conditions, names = Values(), [], sides.scope
    for part in parts:
        side = side_of(part, sides, selects)
        if side is not None and side in _FILTERED[kind]:
            sides = sides.with_side(side, selects.filtered(sides.side(side), names, [part]))
            continue
        tree, found = values.taken_out(part, names)
        check_expression(tree, names.sql)
        for value in found:
            if value.name in sides.left.plan.schema or value.name in sides.right.plan.schema:
                continue  # another part of ON holds the same query
            own = [*value.query.find_all(exp.Column)] if value.is_operand else []
            named = outer_names(value.query, names, selects) if isinstance(value.query, exp.Select) else own
            side = _side(sides, named, names)
            if side is None:
                hint = "Join first, and put the condition into WHERE or into an outer query."
                raise not_supported("a query in ON that names columns of both sides", value.place, names.sql, hint)
            bound = with_values(sides.side(side), [value], Outer(names, names.bare), selects)
            sides = replace(sides.with_side(side, bound), scope=scope_with(sides.scope, [value], bound.plan))
        conditions.append(names.bare(tree))
    return sides, conditions


def side_of(part: exp.Expr, sides: Sides, selects: Selects) -> _Side | None:
    """The side that a part of ON is about, with the queries in it; None if it is about both."""
    return _side(sides, outer_columns(part, Scope((), sides.scope.sql), sides.scope, selects), sides.scope)


def _side(sides: Sides, columns: Iterable[exp.Column], scope: Scope) -> _Side | None:
    """The side that has all these columns; the right one if there are none."""
    names = {name.name if is_bound(name) else scope.visible(name).column for name in columns}
    if names <= _own(sides.right.plan):
        return "right"
    return "left" if names <= _own(sides.left.plan) else None


def _own(plan: Plan) -> set[str]:
    return set(plan.schema.names)
