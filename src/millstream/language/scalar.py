"""Scalar expressions, bound and typed by Spark SQL's rules: the entry points for the binder of queries.

    bind_scalar      a syntax tree becomes a typed expression over the columns of a plan node
    bind_predicate   the same for WHERE, HAVING and ON: the type must be BOOLEAN
    output_name      the name of a result column that has no alias

Aggregates themselves never get here: the query's binder has replaced them by columns.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millstream.core.errors import MillstreamError, NotSupported
from millstream.language.coercion import holds
from millstream.language.column_names import column_name as output_name
from millstream.language.scalar_binder import Resolve, ScalarBinder
from millstream.language.scalar_predicates import boolean
from millstream.language.spans import span_of
from millstream.plan.duckdb_sql import MONTHS
from millstream.plan.expression import Expr


def bind_scalar(tree: exp.Expr, resolve: Resolve, sql: str) -> Expr:
    """`tree` over the columns that `resolve` knows.  The tree itself is not changed."""
    return _in_sql(lambda: _as_column(ScalarBinder(resolve).bind(tree)), tree, sql)


def bind_predicate(tree: exp.Expr, resolve: Resolve, sql: str, clause: str = "WHERE") -> Expr:
    """`tree` as the condition of `clause`."""
    return _in_sql(lambda: boolean(ScalarBinder(resolve).bind(tree), f"the condition of {clause}"), tree, sql)


def _as_column(expr: Expr) -> Expr:
    """Refuses what can be computed with, but not kept in a column."""
    if holds(expr.type, MONTHS):
        raise NotSupported("a length of time in months cannot be a column", hint="Add it to a date or a timestamp.")
    return expr


def _in_sql(bind: Callable[[], Expr], tree: exp.Expr, sql: str) -> Expr:
    try:
        return bind()
    except RecursionError:
        raise NotSupported("the expression is nested too deeply", span=span_of(tree), sql=sql) from None
    except MillstreamError as error:
        if error.span is None:
            error.span = span_of(tree)
        raise error.in_sql(sql) from None


__all__ = ["bind_predicate", "bind_scalar", "output_name"]
