"""GROUP BY: what each of its items stands for.  A position, an alias, a column or any expression; or ALL."""

from __future__ import annotations

from sqlglot import exp

from millstream.core.errors import ColumnNotFound
from millstream.language.aggregate_binder import refuse_aggregate
from millstream.language.aggregate_syntax import find_aggregate
from millstream.language.scope import Scope
from millstream.language.select_list import Item, refuse_stars, with_aliases
from millstream.language.spans import span_of
from millstream.language.unsupported import check_expression


def group_keys(group: exp.Group | None, items: list[Item], scope: Scope) -> list[exp.Expr]:
    """The keys, with the plan's columns."""
    if group is None:
        return []
    if group.args.get("all"):
        return [item.tree for item in items if find_aggregate(item.tree) is None]
    return [_key(tree, items, scope) for tree in group.expressions]


def _key(tree: exp.Expr, items: list[Item], scope: Scope) -> exp.Expr:
    if isinstance(tree, exp.Literal) and tree.is_int:
        key = _at_position(tree, items, scope.sql)
    else:
        check_expression(tree, scope.sql)
        refuse_stars(tree, scope.sql)
        key = scope.bare(with_aliases(tree, items, scope))
    refuse_aggregate(key, "GROUP BY", scope.sql, tree)
    return key


def _at_position(literal: exp.Literal, items: list[Item], sql: str) -> exp.Expr:
    position = int(literal.name) if len(literal.name) < 10 else 0
    if not 1 <= position <= len(items):
        hint = f"Positions go from 1 to {len(items)}."
        raise ColumnNotFound(f"GROUP BY {literal.name[:20]} is no position of the select list", hint=hint, span=span_of(literal), sql=sql)
    return items[position - 1].tree
