"""A query in the place of a value that names columns of the outer one: one row for each of their values, joined to the outer rows.

    (SELECT avg(v) FROM s [ROWS 9] AS b WHERE b.k = a.k)                      LEFT JOIN (SELECT k, avg(v) ... GROUP BY k) ON k = a.k
    (SELECT v FROM s [ROWS 9] AS b WHERE b.k <=> a.k ORDER BY ts LIMIT 1)     LEFT JOIN the first row of each k ON k <=> a.k
    (SELECT count(*) FROM s [ROWS 9] AS b WHERE b.v > a.v)                    GROUP BY the outer v, beside which b was filtered

Equalities are the cheap case; for all else the inner query is asked for each different value of the outer columns (outer_names).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.core.errors import NotSupported
from millstream.language.aggregate_binder import Grouping
from millstream.language.aggregate_syntax import find_aggregate
from millstream.language.bound_select import BoundSelect
from millstream.language.join_binder import conjuncts, inner_join, only, outer_join, renamed
from millstream.language.order_limit import first_rows, order_items, order_of
from millstream.language.outer_names import Outer, OuterRows, Selects, outer_columns, outer_rows
from millstream.language.scope import Scope, Visible, at_place, is_bound, plan_column, plan_scope
from millstream.language.select_list import bind_items
from millstream.language.spans import span_of
from millstream.language.subquery_shapes import keeps_a_row
from millstream.language.typed import bind_over
from millstream.language.unsupported import check_expression
from millstream.plan.expression import Named
from millstream.plan.logical import AggregateCall, Plan, Project

_ONE_ROW = {"expressions", "from_", "joins", "where", "hint", "order", "limit", "offset"}
_OVER_NOTHING: dict[str, exp.Expr] = {
    "count": exp.Literal.number(0),
    **{function: exp.Anonymous(this="array") for function in ("collect_list", "collect_ordered", "collect_set")},
}  # fmt: skip
"""What aggregates are over nothing; the others are NULL."""


@dataclass(frozen=True)
class _Key:
    """A value of the inner rows, and what it must be equal to, over the outer plan."""

    inner: exp.Expr
    outer: exp.Expr
    null_safe: bool


@dataclass(frozen=True)
class _Rows:
    """The inner query's rows that pass WHERE.  `outside` has the outer plan's column for each column that was brought from there."""

    bound: BoundSelect
    scope: Scope
    keys: list[_Key]
    outside: dict[str, str]


def outer_names(query: exp.Select, outer: Scope, selects: Selects) -> list[exp.Column]:
    """The columns in the inner query that are the outer one's."""
    _, own = selects.from_of(query)
    return [name for part in (*_conditions(query), *_shown(query)) for name in outer_columns(part, own, outer, selects)]


def correlated(
    bound: BoundSelect, query: exp.Select, from_: tuple[BoundSelect, Scope], outer: Outer, selects: Selects, place: exp.Expr
) -> tuple[Plan, exp.Expr, BoundSelect]:
    """`bound` joined with what the inner query says to each of its rows, and the value over the joined row."""
    is_group = find_aggregate(query.expressions[0]) is not None
    order = None if is_group else order_of(query, outer.scope.sql)
    _check(query, order.limit if order is not None else None, place, outer.scope.sql, is_group=is_group)
    rows = _rows(bound, query, from_, outer, selects)
    (item,) = bind_items(exp.Select(expressions=query.expressions), rows.scope)
    if order is None:
        grouping = Grouping(rows.scope, [key.inner for key in rows.keys])
        tree, keys = grouping.above(item.tree), [grouping.above(key.inner) for key in rows.keys]
        found, calls = grouping.plan(rows.bound.plan), grouping.calls
    else:
        items, places = order_items(order, [item], rows.scope)
        values = [*(shown.tree for shown in items), *(key.inner for key in rows.keys)]
        named = [Named(f"_first{i}", bind_over(value, rows.scope, outer.scope.sql)) for i, value in enumerate(values)]
        columns = tuple(Visible(one.name, one.name, one.expr.type) for one in named)
        listed = replace(rows.bound, plan=Project(rows.bound.plan, tuple(named)), columns=columns[: len(items)])
        found, calls = first_rows(listed, order, places, 1, partition_by=columns[len(items) :]).plan, ()
        tree, keys = plan_column(columns[0].column, place), [plan_column(key.column, place) for key in columns[len(items) :]]
    right, columns = renamed(found, [Visible(field.name, field.name, field.type) for field in found.schema], bound.plan.schema.names)
    new_names = {visible.name: visible.column for visible in columns}
    conditions = [_equal(key, plan_column(new_names[column.name], place)) for key, column in zip(rows.keys, keys, strict=True)]
    joined = outer_join(bound.plan, right, conditions, plan_scope(outer.scope.sql, bound.plan, right), "LEFT")
    return joined, _over_groups(tree, calls, new_names, rows.outside), rows.bound


def _check(query: exp.Select, limit: int | None, place: exp.Expr, sql: str, *, is_group: bool) -> None:
    others = [clause for clause, part in query.args.items() if part and clause not in _ONE_ROW]
    if not others and (keeps_a_row(query) if is_group else limit is not None and limit <= 1):
        return
    hint = "As in (SELECT max(x) ...), or (SELECT x ... ORDER BY y LIMIT 1)."
    what = "a query that names columns of the outer one aggregates, without GROUP BY, or has LIMIT 1"
    raise NotSupported(what, hint=hint, span=span_of(place) or span_of(query), sql=sql)


def _conditions(query: exp.Select) -> list[exp.Expr]:
    return conjuncts(query.args["where"].this if query.args.get("where") else None)


def _shown(query: exp.Select) -> list[exp.Expr]:
    """What is computed of the rows that pass WHERE: the value, and what ORDER BY sorts them by."""
    order = query.args.get("order")
    if order is None or any(find_aggregate(item) is not None for item in query.expressions):
        return query.expressions
    aliases = {item.alias.lower() for item in query.expressions}
    keys = [key for key in order.expressions if not (isinstance(key.this, exp.Column) and key.this.sql().lower() in aliases)]
    return [*query.expressions, *keys]


# --- rows and keys ----------------------------------------------------------------------------


def _rows(bound: BoundSelect, query: exp.Select, from_: tuple[BoundSelect, Scope], outer: Outer, selects: Selects) -> _Rows:
    inner, own = from_
    plain: list[exp.Expr] = []
    others: list[exp.Expr] = []
    keys: list[tuple[exp.Expr, exp.Expr, bool]] = []
    for part in _conditions(query):
        sides = _sides(part, own, outer.scope, selects)
        if sides is not None:
            keys.append(sides)
        else:
            (others if outer_columns(part, own, outer.scope, selects) else plain).append(part)
    named = [name for part in (*others, *_shown(query)) for name in outer_columns(part, own, outer.scope, selects)]
    if not named:
        rows = selects.filtered(inner, own, plain) if plain else inner
        return _Rows(rows, own, [_Key(own.bare(ours), outer.bare(theirs), null_safe) for ours, theirs, null_safe in keys], {})
    equalities = [exp.NullSafeEQ(this=a, expression=b) if null_safe else exp.EQ(this=a, expression=b) for a, b, null_safe in keys]
    return _beside_outer(bound, query, from_, outer, selects, [*plain, *equalities, *others])


def _beside_outer(
    bound: BoundSelect, query: exp.Select, from_: tuple[BoundSelect, Scope], outer: Outer, selects: Selects, parts: list[exp.Expr]
) -> _Rows:
    inner, own = from_
    named = [name for part in (*parts, *_shown(query)) for name in outer_columns(part, own, outer.scope, selects)]
    outside = outer_rows(bound.plan, outer, named, inner.plan.schema.names)
    scope = outside.scope(own)
    simple = [part for part in parts if part.find(exp.Select) is None]
    for part in simple:
        check_expression(part, own.sql)
    conditions = [_bare(part, scope, outer, outside) for part in simple]
    plan = inner_join(outside.plan, inner.plan, conditions, scope, "WHERE")
    plan = only(plan, [*outside.plan.schema.names, *inner.plan.schema.names])
    rows = replace(inner, plan=plan, grows_only=False)
    deep = [part for part in parts if part not in simple]
    if deep:
        rows = selects.filtered(rows, scope, deep)
    keys = [_Key(plan_column(ours, query), plan_column(theirs, query), null_safe=True) for theirs, ours in outside.columns.items()]
    return _Rows(rows, scope, keys, _turned(outside))


def _turned(outside: OuterRows) -> dict[str, str]:
    return {ours: theirs for theirs, ours in outside.columns.items()}


def _bare(tree: exp.Expr, scope: Scope, outer: Outer, outside: OuterRows) -> exp.Expr:
    """Over columns of the plans: what was bound before is the outer query's."""

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return outside.in_place(outer.bare(node)) if is_bound(node) else scope.bare(node)

    return tree.copy().transform(swap, copy=False)


def _sides(part: exp.Expr, own: Scope, outer: Scope, selects: Selects) -> tuple[exp.Expr, exp.Expr, bool] | None:
    """The inner and the outer side of an equality, and whether NULL equals NULL."""
    while isinstance(part, exp.Paren):
        part = part.this
    if not isinstance(part, exp.EQ | exp.NullSafeEQ) or part.find(exp.Select) or find_aggregate(part) is not None:
        return None
    for ours, theirs in ((part.this, part.expression), (part.expression, part.this)):
        names = list(theirs.find_all(exp.Column))
        if names and len(outer_columns(theirs, own, outer, selects)) == len(names) and not outer_columns(ours, own, outer, selects):
            check_expression(part, own.sql)
            return ours, theirs, isinstance(part, exp.NullSafeEQ)
    return None


def _equal(key: _Key, column: exp.Column) -> exp.Expr:
    kind = exp.NullSafeEQ if key.null_safe else exp.EQ
    return kind(this=key.outer.copy(), expression=column)


def _over_groups(tree: exp.Expr, calls: Sequence[AggregateCall], new_names: dict[str, str], outside: dict[str, str]) -> exp.Expr:
    """The value over the joined row, where a row without a group has the value over nothing."""
    known = {call.name: _OVER_NOTHING[call.function] for call in calls if call.function in _OVER_NOTHING}

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        renamed_ = plan_column(outside[node.name] if node.name in outside else new_names[node.name], node)
        if node.name not in known:
            return renamed_
        return at_place(exp.Anonymous(this="coalesce", expressions=[renamed_, known[node.name].copy()]), node)

    return tree.copy().transform(swap, copy=False)
