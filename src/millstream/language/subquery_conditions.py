"""IN and EXISTS with a query, as parts of WHERE that are joined by AND: semi and anti joins.

    WHERE EXISTS (SELECT 1 FROM r [NOW] WHERE r.k = s.k)     the rows of s that have a partner in r
    WHERE v IN (SELECT w FROM r [NOW])                       the same, with v = w
    WHERE v NOT IN (SELECT w FROM r [NOW])                   those that have none for which v = w is true or unknown

The inner query may name columns of the outer one in its WHERE; a name means the inner query's column first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

from sqlglot import exp

from millstream.core.errors import ArityMismatch
from millstream.language.aggregate_binder import find_aggregate
from millstream.language.bound_select import BoundSelect
from millstream.language.join_binder import anti_join, conjuncts, renamed, semi_join
from millstream.language.scope import Scope, Source, Visible, plan_column
from millstream.language.select_list import bind_items
from millstream.language.spans import span_of
from millstream.language.typed import bind_condition
from millstream.language.unsupported import check_expression
from millstream.plan.logical import Filter

_SIMPLE = {"expressions", "from_", "joins", "where", "hint"}


@dataclass(frozen=True)
class SubqueryCondition:
    """`operand` is what stands before IN, None for EXISTS."""

    query: exp.Expr
    operand: exp.Expr | None
    negated: bool
    place: exp.Expr


class Selects(Protocol):
    """Who binds the inner queries."""

    def body(self, tree: exp.Expr) -> BoundSelect: ...

    def from_of(self, select: exp.Select) -> tuple[BoundSelect, Scope]:
        """FROM alone, without WHERE."""
        ...


def split_where(where: exp.Where | None) -> tuple[exp.Where | None, list[SubqueryCondition]]:
    """WHERE without the conditions that hold a query, and those."""
    plain: list[exp.Expr] = []
    found: list[SubqueryCondition] = []
    for condition in conjuncts(where.this if where is not None else None):
        subquery = _subquery_condition(condition)
        if subquery is None:
            plain.append(condition)
        else:
            found.append(subquery)
    if not found:
        return where, []
    return (exp.Where(this=exp.and_(*plain, copy=True)) if plain else None), found


def with_condition(bound: BoundSelect, scope: Scope, condition: SubqueryCondition, selects: Selects) -> BoundSelect:
    """The rows of `bound` for which the condition is true."""
    inner, conditions, both = _inner(bound, scope, condition, selects)
    if not condition.negated:
        plan = semi_join(bound.plan, inner.plan, conditions, both)
    else:
        plan = anti_join(bound.plan, inner.plan, conditions, both)
    grows_only = bound.grows_only and inner.grows_only and not condition.negated
    return BoundSelect(plan, bound.columns, bound.has_window or inner.has_window, grows_only, mixes_rows=True)


def _inner(bound: BoundSelect, scope: Scope, condition: SubqueryCondition, selects: Selects) -> tuple[BoundSelect, list[exp.Expr], Scope]:
    """The inner query with columns of its own, the conditions under which its rows are partners, and the scope of both."""
    query, parts, items = condition.query, [], None
    if _is_simple(query):
        inner, named = selects.from_of(query)
        parts, items = conjuncts(query.args["where"].this if query.args.get("where") else None), query.expressions
    else:
        inner = selects.body(query)
        named = Scope((Source(None, "the subquery", inner.columns),), scope.sql)
    plan, columns = renamed(inner.plan, named.columns, bound.plan.schema.names)
    taken = iter(columns)
    own = Scope(tuple(_with_columns(source, [next(taken) for _ in source.columns]) for source in named.sources), scope.sql)
    both = Scope((*scope.sources, *own.sources), scope.sql)
    conditions: list[exp.Expr] = []
    for part in parts:
        check_expression(part, scope.sql)
        if all(own.knows(name) for name in part.find_all(exp.Column)):
            plan = Filter(plan, bind_condition(own.bare(part), own, scope.sql, "WHERE"))
        else:
            conditions.append(_bare(part, own, scope))
    if condition.operand is not None:
        conditions.append(_membership(condition, own, scope, items))
    return replace(inner, plan=plan), conditions, both


def _is_simple(query: exp.Expr) -> TypeGuard[exp.Select]:
    """Rows of FROM that pass WHERE, one for one: so not a query that aggregates, which has a row even where nothing passes."""
    if not isinstance(query, exp.Select) or any(value for key, value in query.args.items() if key not in _SIMPLE):
        return False
    return all(find_aggregate(item) is None and item.find(exp.Window) is None for item in query.expressions)


def _with_columns(source: Source, columns: list[Visible]) -> Source:
    """The same columns under other names of the plan."""
    merged = {new.column for old, new in zip(source.columns, columns, strict=True) if old.column in source.merged}
    return replace(source, columns=tuple(columns), merged=frozenset(merged))


def _membership(condition: SubqueryCondition, own: Scope, outer: Scope, items: list[exp.Expr] | None) -> exp.Expr:
    assert condition.operand is not None
    check_expression(condition.operand, outer.sql)
    ours = outer.bare(condition.operand)
    if items is None:
        trees: list[exp.Expr] = [plan_column(visible.column, condition.place) for visible in own.columns]
    else:
        trees = [item.tree for item in bind_items(exp.Select(expressions=items), own)]
    if len(trees) != 1:
        place = span_of(condition.query) or span_of(condition.place)
        raise ArityMismatch(f"the query behind IN has {len(trees)} columns", hint="It has one.", span=place, sql=outer.sql)
    equal = exp.EQ(this=ours, expression=trees[0])
    if not condition.negated:
        return equal
    unknown = [exp.Is(this=side.copy(), expression=exp.null()) for side in (ours, trees[0])]
    return exp.or_(equal, *unknown, copy=False)


def _bare(tree: exp.Expr, inner: Scope, outer: Scope) -> exp.Expr:
    def swap(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            return inner.bare(node) if inner.knows(node) else outer.bare(node)
        return node

    return tree.copy().transform(swap, copy=False)


def _subquery_condition(condition: exp.Expr) -> SubqueryCondition | None:
    place, negated = condition, False
    while isinstance(condition, exp.Not | exp.Paren):
        negated ^= isinstance(condition, exp.Not)
        condition = condition.this
    match condition:
        case exp.Exists():
            return SubqueryCondition(_unwrapped(condition.this), None, negated, place)
        case exp.In() if condition.args.get("query") is not None:
            return SubqueryCondition(_unwrapped(condition.args["query"]), condition.this, negated, place)
    return None


def _unwrapped(query: exp.Expr) -> exp.Expr:
    while isinstance(query, exp.Subquery):
        query = query.this
    return query
