"""PIVOT: a column of the answer for each value, which is an aggregate of the rows that have it.

    t PIVOT (sum(x) FOR k IN ('a', 'b' AS bee))

    (SELECT every other column, CASE WHEN count(*) FILTER (WHERE k <=> 'a') > 0 THEN sum(x) FILTER (WHERE k <=> 'a') END AS a,
            the same for 'b' AS bee
     FROM t GROUP BY every other column)

An aggregate over no rows is NULL here, count too.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from millstream.core.errors import ArityMismatch
from millstream.language.aggregate_syntax import find_aggregate, is_aggregate
from millstream.language.column_names import column_name
from millstream.language.scope import Scope, at_place
from millstream.language.spans import span_of
from millstream.language.unsupported import not_supported


def pivoted(item: exp.Expr, pivots: list[exp.Pivot], scope: Scope) -> exp.Select:
    """The query that `item`, whose names are in `scope`, stands for with its PIVOT."""
    pivot, sql = pivots[0], scope.sql
    if pivot.args.get("unpivot"):
        raise not_supported("UNPIVOT", pivot, sql, "Write a UNION ALL of one SELECT for each column.")
    if len(pivots) > 1 or len(pivot.args["fields"]) != 1 or not isinstance(pivot.args["fields"][0].this, exp.Column):
        raise not_supported("PIVOT over several columns", pivot, sql, "Write sum(x) FILTER (WHERE ...) for each of them, with GROUP BY.")
    if not pivot.args["fields"][0].expressions:
        raise ArityMismatch("PIVOT needs a value behind IN", hint="As in FOR k IN ('a', 'b').", span=span_of(pivot), sql=sql)
    for aggregate in pivot.expressions:
        if find_aggregate(aggregate) is None:
            raise not_supported("PIVOT without an aggregate", pivot, sql, "As in PIVOT (sum(x) FOR k IN ('a', 'b')).")
    by = pivot.args["fields"][0]
    used = {column.name.lower() for tree in (by.this, *pivot.expressions) for column in tree.find_all(exp.Column)}
    others = [exp.column(exp.to_identifier(visible.name, quoted=True)) for visible in scope.starred if visible.name.lower() not in used]
    values = [column for value in by.expressions for column in _columns(by.this, value, pivot.expressions)]
    select = exp.Select(expressions=[*others, *values], from_=exp.From(this=item))
    if others:
        select.set("group", exp.Group(expressions=[column.copy() for column in others]))
    return at_place(select, pivot)


def _columns(by: exp.Expr, value: exp.Expr, aggregates: list[exp.Expr]) -> Iterator[exp.Expr]:
    """One for each aggregate."""
    written = value.this if isinstance(value, exp.PivotAlias | exp.Alias) else value
    name = value.alias or ("null" if isinstance(written, exp.Null) else column_name(written))
    equal = exp.NullSafeEQ(this=by.copy(), expression=written.copy())
    for aggregate in aggregates:
        full = name if len(aggregates) == 1 else f"{name}_{aggregate.alias or column_name(aggregate)}"
        there = exp.GT(this=_filtered(exp.Anonymous(this="count", expressions=[exp.Star()]), equal), expression=exp.Literal.number(0))
        chosen = exp.Case(ifs=[exp.If(this=there, true=_filtered(aggregate.unalias().copy(), equal))])
        yield exp.alias_(at_place(chosen, aggregate), full, quoted=True)


def _filtered(tree: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """`tree` with each of its aggregates over the rows for which the condition is true."""
    if not is_aggregate(tree):
        for child in list(tree.iter_expressions()):
            child.replace(_filtered(child, condition))
        return tree
    if isinstance(tree, exp.Filter):
        both = exp.and_(tree.expression.this, condition)
        return at_place(exp.Filter(this=tree.this, expression=exp.Where(this=both)), tree)
    return at_place(exp.Filter(this=tree.copy(), expression=exp.Where(this=condition.copy())), tree)
