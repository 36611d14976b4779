"""Inner queries behind IN and EXISTS without what changes nothing there, and which of them have one row in any case.

EXISTS (SELECT DISTINCT x ... ORDER BY y LIMIT 5)     EXISTS (SELECT x ...)
v IN (SELECT DISTINCT x ...)                          v IN (SELECT x ...)
"""

from __future__ import annotations

from typing import TypeGuard

from sqlglot import exp

from millstream.language.aggregate_syntax import is_aggregate


def unwrapped(query: exp.Expr) -> exp.Expr:
    while isinstance(query, exp.Subquery):
        query = query.this
    return query


def behind_exists(query: exp.Expr) -> exp.Expr:
    """A query that has a row when this one has."""
    query = unwrapped(query)
    if not isinstance(query, exp.Select):
        return query
    limit = query.args.get("limit")
    if limit is None:
        return _without(query, "distinct") if not query.args.get("order") and not query.args.get("offset") else query
    return _without(query, "distinct", "order", "limit") if keeps_a_row(query) else query


def behind_in(query: exp.Expr) -> exp.Expr:
    """A query that has the same rows, however often."""
    query = unwrapped(query)
    if isinstance(query, exp.Select) and not any(query.args.get(clause) for clause in ("order", "limit", "offset")):
        return _without(query, "distinct")
    return query


def is_one_group(query: exp.Expr) -> TypeGuard[exp.Select]:
    """An aggregate over all rows: there is a row even where nothing passes WHERE."""
    if not isinstance(query, exp.Select) or any(query.args.get(clause) for clause in ("group", "having", "qualify", "limit", "offset")):
        return False
    own = (node for item in query.expressions for node in item.walk(prune=lambda node: isinstance(node, exp.Query | exp.Window)))
    return any(is_aggregate(node) for node in own)


def keeps_a_row(query: exp.Select) -> bool:
    """Where there are rows, LIMIT and OFFSET leave one."""
    limit = query.args.get("limit")
    if query.args.get("offset"):
        return False
    return limit is None or (isinstance(limit.expression, exp.Literal) and limit.expression.is_int and int(limit.expression.name) > 0)


def _without(query: exp.Select, *clauses: str) -> exp.Select:
    """The same, copied only if there is something to leave out."""
    if not any(query.args.get(clause) for clause in clauses):
        return query
    query = query.copy()
    for clause in clauses:
        query.set(clause, None)
    return query
