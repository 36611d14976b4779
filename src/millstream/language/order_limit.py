"""ORDER BY ... LIMIT ... OFFSET: the first rows of an order, as a relation.

A relation has no order, so ORDER BY by itself says nothing and is refused.  Names in ORDER BY mean columns of the answer first, then
of FROM; a number is a position.  What the answer does not show is computed beside it and dropped again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ColumnNotFound, NotSupported, TypeMismatch
from millstream.language.bound_select import BoundSelect
from millstream.language.canonical import canonical
from millstream.language.scope import Scope, Source, Visible, plan_column
from millstream.language.select_list import Item, find_alias, refuse_stars, written_out
from millstream.language.spans import span_of
from millstream.language.typed import bind_over
from millstream.language.unsupported import check_expression, not_supported
from millstream.plan.expression import Named, column
from millstream.plan.logical import Plan, Project, TopK
from millstream.plan.ordering import SortKey

_HIDDEN = "_order"


@dataclass(frozen=True)
class Order:
    """The clauses of one query."""

    keys: tuple[exp.Expr, ...]
    limit: int
    offset: int
    sql: str


def order_of(query: exp.Query, sql: str) -> Order | None:
    order, limit, offset = (query.args.get(name) for name in ("order", "limit", "offset"))
    rows = _count(limit.expression, "LIMIT", sql) if limit is not None else None
    if rows is None:
        if offset is not None:
            raise not_supported("OFFSET without LIMIT", offset, sql)
        if order is not None:
            hint = "A relation has no order: add LIMIT, or order the one-time SELECT that reads it."
            raise NotSupported("ORDER BY without LIMIT has no effect on a continuous query", hint=hint, span=span_of(order), sql=sql)
        return None
    skipped = _count(offset.expression, "OFFSET", sql) if offset is not None else 0
    return Order(tuple(order.expressions) if order is not None else (), rows, skipped or 0, sql)


def _count(tree: exp.Expr, clause: str, sql: str) -> int | None:
    """A number of rows; None for ALL."""
    if isinstance(tree, exp.Literal) and tree.is_int and len(tree.name) < 19:
        return int(tree.name)
    if clause == "LIMIT" and tree.name.upper() == "ALL":
        return None
    raise TypeMismatch(f"{clause} wants a number of rows, written out", span=span_of(tree), sql=sql)


# --- over a SELECT --------------------------------------------------------------------------


def order_items(order: Order | None, shown: list[Item], scope: Scope) -> tuple[list[Item], list[int]]:
    """The items of the select list and behind them what ORDER BY sorts by beyond them; and where each of its keys is among these."""
    items, places = list(shown), []
    for key in order.keys if order is not None else ():
        tree = _tree(key, shown, scope)
        known = [canonical(item.tree) for item in items]
        if canonical(tree) not in known:
            items.append(Item(f"{_HIDDEN}{len(items)}", tree, None))
            known.append(canonical(tree))
        places.append(known.index(canonical(tree)))
    return items, places


def first_rows(
    bound: BoundSelect, order: Order, places: Sequence[int], shown: int, partition_by: Sequence[Visible] = ()
) -> BoundSelect:  # fmt: skip
    """`bound` has a column for each item of `order_items`; the first `shown` of them are the answer's, and `partition_by`."""
    keys: dict[str, SortKey] = {}
    for key, place in zip(order.keys, places, strict=True):
        visible = bound.columns[place]
        if pa.types.is_map(visible.type):
            raise TypeMismatch("ORDER BY cannot compare a MAP", span=span_of(key), sql=order.sql)
        sort_key = SortKey(visible.column, bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
        keys.setdefault(visible.column, sort_key)  # a key that comes again decides nothing
    partitions = tuple(visible.column for visible in partition_by)
    plan: Plan = TopK(bound.plan, partitions, tuple(keys.values()), order.limit, order.offset)
    columns = (*bound.columns[:shown], *partition_by)
    if shown < len(bound.columns):
        plan = Project(plan, tuple(Named(visible.column, column(visible.column, visible.type)) for visible in columns))
    return replace(bound, plan=plan, columns=columns, grows_only=False, mixes_rows=True)


def _tree(key: exp.Expr, items: list[Item], scope: Scope) -> exp.Expr:
    tree = key.this
    if isinstance(tree, exp.Literal) and tree.is_int:
        return items[_position(tree, len(items), scope.sql)].tree
    return aliases_first(tree, items, scope)


def aliases_first(tree: exp.Expr, items: list[Item], scope: Scope) -> exp.Expr:
    """`tree` over the plan's columns, where a name means an item of the select list before a column of FROM."""
    check_expression(tree, scope.sql)
    refuse_stars(tree, scope.sql)
    return scope.bare(with_aliases(tree, items, scope.sql))


def with_aliases(tree: exp.Expr, items: list[Item], sql: str) -> exp.Expr:
    """A copy of `tree` in which the names of items are written out; those inside queries are not ours."""

    def swapped(node: exp.Expr) -> exp.Expr:
        item = find_alias(node, items, sql) if isinstance(node, exp.Column) and len(node.parts) == 1 else None
        if item is not None:
            return written_out(item, node)
        for child in list(node.iter_expressions()) if not isinstance(node, exp.Query) else ():
            new = swapped(child)
            if new is not child:
                child.replace(new)
        return node

    return swapped(tree.copy())


def _position(literal: exp.Literal, most: int, sql: str) -> int:
    position = int(literal.name) if len(literal.name) < 10 else 0
    if not 1 <= position <= most:
        hint = f"Positions go from 1 to {most}."
        raise ColumnNotFound(f"ORDER BY {literal.name[:20]} is no position of the select list", hint=hint, span=span_of(literal), sql=sql)
    return position - 1


# --- over a set operation -------------------------------------------------------------------


def sorted_columns(bound: BoundSelect, query: exp.Query, sql: str) -> BoundSelect:
    """The first rows of an answer whose columns are all that ORDER BY can name."""
    order = order_of(query, sql)
    if order is None:
        return bound
    scope = Scope((Source(None, "the answer", bound.columns),), sql)
    shown = [Item(visible.name, plan_column(visible.column, query), None) for visible in bound.columns]
    items, places = order_items(order, shown, scope)
    hidden = [Named(item.name, bind_over(item.tree, scope, sql)) for item in items[len(shown) :]]
    columns = (*bound.columns, *(Visible(named.name, named.name, named.expr.type) for named in hidden))
    kept = [Named(visible.column, column(visible.column, visible.type)) for visible in bound.columns]
    plan = Project(bound.plan, (*kept, *hidden)) if hidden else bound.plan
    return first_rows(replace(bound, plan=plan, columns=columns), order, places, len(shown))
