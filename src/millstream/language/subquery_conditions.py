"""IN and EXISTS with a query, as parts of WHERE that are joined by AND: semi and anti joins.

    WHERE EXISTS (SELECT 1 FROM r [NOW] WHERE r.k = s.k)     the rows of s that have a partner in r
    WHERE v IN (SELECT w FROM r [NOW])                       the same, with v = w
    WHERE v NOT IN (SELECT w FROM r [NOW])                   those for which v = w is false for all w
    WHERE s IN (SELECT * FROM r [NOW])                       whole rows of s, column by column; (a, b) IN ... likewise

The inner query may name columns of the outer one in its WHERE; a name means the inner query's column first.
A condition in there may hold a query again, which may name columns of all that it stands in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ArityMismatch
from millstream.language.aggregate_syntax import find_aggregate
from millstream.language.bound_select import BoundSelect
from millstream.language.join_binder import anti_join, conjuncts, inner_join, only, renamed, semi_join
from millstream.language.outer_names import Outer, Selects, outer_columns, outer_rows
from millstream.language.scope import Scope, Source, Visible, plan_column, plan_scope
from millstream.language.select_list import bind_items
from millstream.language.spans import span_of
from millstream.language.subquery_shapes import behind_exists, behind_in
from millstream.language.typed import PlanColumns, bind_condition, bind_over
from millstream.language.unsupported import check_expression
from millstream.plan.expression import Named
from millstream.plan.logical import Aggregate, AggregateCall, Filter, Join, Plan, Project

_SIMPLE = {"expressions", "from_", "joins", "where", "hint"}


@dataclass(frozen=True)
class SubqueryCondition:
    """`operand` is what stands before IN, None for EXISTS."""

    query: exp.Expr
    operand: exp.Expr | None
    negated: bool
    place: exp.Expr


@dataclass(frozen=True)
class SplitWhere:
    """WHERE without the conditions that hold a query; IN and EXISTS; and conditions with queries inside."""

    plain: exp.Where | None
    subqueries: list[SubqueryCondition]
    valued: list[exp.Expr]


def split_where(where: exp.Where | None) -> SplitWhere:
    plain: list[exp.Expr] = []
    split = SplitWhere(where, [], [])
    for condition in conjuncts(where.this if where is not None else None):
        subquery = _subquery_condition(condition)
        if subquery is not None and not (subquery.operand is not None and subquery.operand.find(exp.Subquery)):
            split.subqueries.append(subquery)
        elif condition.find(exp.Select):
            split.valued.append(condition)
        else:
            plain.append(condition)
    if not split.subqueries and not split.valued:
        return split
    return replace(split, plain=exp.Where(this=exp.and_(*plain, copy=True)) if plain else None)


def with_condition(bound: BoundSelect, scope: Scope, condition: SubqueryCondition, selects: Selects) -> BoundSelect:
    """The rows of `bound` for which the condition is true."""
    inner, conditions, equal, both = _inner(bound, scope, condition, selects)
    if not condition.negated:
        plan = semi_join(bound.plan, inner.plan, [*conditions, *equal], both)
    elif len(equal) == 1 and not conditions:
        plan = _without_members(bound.plan, inner.plan, equal[0], both)
    else:
        plan = anti_join(bound.plan, inner.plan, [*conditions, *map(_or_unknown, equal)], both)
    grows_only = bound.grows_only and inner.grows_only and not condition.negated
    return BoundSelect(plan, bound.columns, bound.has_window or inner.has_window, grows_only, mixes_rows=True)


def _without_members(left: Plan, right: Plan, equal: exp.EQ, both: Scope) -> Plan:
    """NOT IN: the rows without an equal value, if there is no value at all or if neither they nor the values hold a NULL.

    What is known of the values is one row, which changes only when that does.
    """
    empty, unknown, value = "_no value", "_some NULL", Named("_value", bind_over(equal.expression, both, both.sql))
    counts = (AggregateCall("_all", "count", None, pa.int64()), AggregateCall("_known", "count", value.name, pa.int64()))
    counted = Aggregate(Project(right, (value,)), (), counts)
    facts = (
        Named(empty, bind_over(exp.EQ(this=exp.column("_all"), expression=exp.Literal.number(0)), PlanColumns(counted), both.sql)),
        Named(unknown, bind_over(exp.GT(this=exp.column("_all"), expression=exp.column("_known")), PlanColumns(counted), both.sql)),
    )
    known = Aggregate(Project(counted, facts), (empty, unknown), ())
    beside = Join(anti_join(left, right, [equal], both), known, ())
    passes = exp.or_(
        plan_column(empty, equal),
        exp.and_(
            exp.Not(this=exp.Is(this=equal.this.copy(), expression=exp.null())), exp.Not(this=plan_column(unknown, equal)), copy=False
        ),
        copy=False,
    )
    return only(Filter(beside, bind_condition(passes, PlanColumns(beside), both.sql, "WHERE")), left.schema.names)


def _inner(
    bound: BoundSelect, scope: Scope, condition: SubqueryCondition, selects: Selects
) -> tuple[BoundSelect, list[exp.Expr], list[exp.EQ], Scope]:
    """The inner query with columns of its own, the conditions under which its rows are partners (the equalities of IN apart), and
    the scope of both."""
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
    inner = replace(inner, plan=plan)
    conditions: list[exp.Expr] = []
    deep = [part for part in parts if part.find(exp.Select) is not None]
    for part in parts:
        if part in deep:
            continue
        check_expression(part, scope.sql)
        if all(own.knows(name) for name in part.find_all(exp.Column)):
            inner = replace(inner, plan=Filter(inner.plan, bind_condition(own.bare(part), own, scope.sql, "WHERE")))
        else:
            conditions.append(_bare(part, own, scope))
    outside = [name for part in deep for name in outer_columns(part, own, scope, selects)]
    if outside:
        inner, conditions = _beside_outer(bound, scope, inner, own, conditions, deep, outside, selects)
        both = plan_scope(scope.sql, bound.plan, inner.plan)
    elif deep:
        inner = selects.filtered(inner, own, deep)
    equal = _membership(condition, own, scope, items) if condition.operand is not None else []
    return inner, conditions, equal, both


def _beside_outer(
    bound: BoundSelect, scope: Scope, inner: BoundSelect, own: Scope, conditions: list[exp.Expr], deep: list[exp.Expr],
    named: list[exp.Column], selects: Selects,
) -> tuple[BoundSelect, list[exp.Expr]]:  # fmt: skip
    """The inner query where queries inside it name the outermost columns too, and when its rows are partners."""
    bound_names = [name for condition in conditions for name in condition.find_all(exp.Column) if name.name in bound.plan.schema]
    outside = outer_rows(bound.plan, Outer(scope, scope.bare), [*named, *bound_names], inner.plan.schema.names)
    both = outside.scope(own)
    plan = inner_join(outside.plan, inner.plan, [outside.in_place(condition) for condition in conditions], both, "WHERE")
    inner = replace(inner, plan=only(plan, [*outside.plan.schema.names, *inner.plan.schema.names]))
    return selects.filtered(inner, both, deep), outside.same(deep[0])


def _is_simple(query: exp.Expr) -> TypeGuard[exp.Select]:
    """Rows of FROM that pass WHERE, one for one: so not a query that aggregates, which has a row even where nothing passes."""
    if not isinstance(query, exp.Select) or any(value for key, value in query.args.items() if key not in _SIMPLE):
        return False
    return all(find_aggregate(item) is None and item.find(exp.Window) is None for item in query.expressions)


def _with_columns(source: Source, columns: list[Visible]) -> Source:
    """The same columns under other names of the plan."""
    merged = {new.column for old, new in zip(source.columns, columns, strict=True) if old.column in source.merged}
    return replace(source, columns=tuple(columns), merged=frozenset(merged))


def _membership(condition: SubqueryCondition, own: Scope, outer: Scope, items: list[exp.Expr] | None) -> list[exp.EQ]:
    """Under these conditions a row of the inner query is what stands before IN."""
    assert condition.operand is not None
    check_expression(condition.operand, outer.sql)
    ours = _operands(condition.operand, outer)
    if items is None:
        theirs: list[exp.Expr] = [plan_column(visible.column, condition.place) for visible in own.columns]
    else:
        theirs = [item.tree for item in bind_items(exp.Select(expressions=items), own)]
    if len(theirs) != len(ours):
        place = span_of(condition.query) or span_of(condition.place)
        hint = "It has one." if len(ours) == 1 else f"What stands before IN has {len(ours)}."
        raise ArityMismatch(f"the query behind IN has {len(theirs)} columns", hint=hint, span=place, sql=outer.sql)
    return [exp.EQ(this=mine, expression=other) for mine, other in zip(ours, theirs, strict=True)]


def _operands(operand: exp.Expr, outer: Scope) -> list[exp.Expr]:
    """One value, those of (a, b), or a whole row: what a source in FROM is called stands for all of its columns, as in CQL."""
    if isinstance(operand, exp.Tuple):
        return [outer.bare(value) for value in operand.expressions]
    if isinstance(operand, exp.Column) and len(operand.parts) == 1 and not outer.knows(operand):
        for source in outer.sources:
            if (source.qualifier or "").lower() == operand.name.lower():
                return [plan_column(visible.column, operand) for visible in source.columns]
    return [outer.bare(operand)]


def _or_unknown(equal: exp.EQ) -> exp.Expr:
    unknown = [exp.Is(this=side.copy(), expression=exp.null()) for side in (equal.this, equal.expression)]
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
            return SubqueryCondition(behind_exists(condition.this), None, negated, place)
        case exp.In() if condition.args.get("query") is not None:
            return SubqueryCondition(behind_in(condition.args["query"]), condition.this, negated, place)
    return None
