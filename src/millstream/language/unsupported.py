"""What parses but cannot run continuously yet: always NOT_SUPPORTED at the construct, never a wrong plan.

Clauses are checked by what is allowed, not by what is known to be missing: a clause that nobody thought
of is refused too.
"""

from __future__ import annotations

from sqlglot import exp

from millstream.core.errors import NotSupported
from millstream.language.aggregate_syntax import is_aggregate, is_part_of_aggregate
from millstream.language.spans import span_of

_SELECT = {
    "expressions",
    "distinct",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "to_stream",
    "hint",
    "with_",
    "order",
    "limit",
    "offset",
    "windows",
    "qualify",
}
_SET_OPERATION = {"this", "expression", "distinct", "with_", "order", "limit", "offset"}
_TABLE = {"this", "alias", "stream_window", "as_of"}
_GROUP = {"expressions", "all", "grouping_sets", "cube", "rollup"}
_CLAUSES = {
    "laterals": "LATERAL VIEW", "sort": "SORT BY", "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY", "pivots": "PIVOT",
    "sample": "TABLESAMPLE", "version": "time travel",
    "db": "a name with a dot", "columns": "a list of column names behind an alias",
}  # fmt: skip
_CLAUSE_HINTS = {"laterals": "Insert the elements as rows, or look at arrays with exists, filter, transform and element_at."}
_EXPRESSIONS: dict[type[exp.Expr], str] = {
    exp.Window: "OVER in this place", exp.Filter: "FILTER", exp.WithinGroup: "WITHIN GROUP", exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS", exp.Exists: "EXISTS", exp.Subquery: "a subquery in an expression",
    exp.Select: "a subquery in an expression", exp.SetOperation: "a subquery in an expression", exp.Any: "ANY", exp.All: "ALL",
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS", exp.Distinct: "DISTINCT in an aggregate", exp.Ordered: "ORDER BY in an aggregate",
}  # fmt: skip

_HINTS: dict[type[exp.Expr], str] = {
    exp.Window: "Select it in a query of WITH, and read its column from that.",
    exp.Any: "Spark SQL has none.  Write IN for = ANY, and x < (SELECT max(y) ...) for x < ANY.",
    exp.All: "Spark SQL has none.  Write NOT IN for <> ALL, and NOT EXISTS (SELECT 1 ... WHERE y > x) for x >= ALL.",
}


def not_supported(what: str, node: exp.Expr | None, sql: str, hint: str | None = None) -> NotSupported:
    while node is not None and span_of(node) is None:
        node = node.parent
    return NotSupported(f"{what} is not supported in a continuous query yet", hint=hint, span=span_of(node), sql=sql)


def check_select(select: exp.Select, sql: str) -> None:
    _check_clauses(select, _SELECT, sql)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise not_supported("DISTINCT ON", distinct, sql)
    group = select.args.get("group")
    if group is not None:
        _check_clauses(group, _GROUP, sql)


def check_set_operation(operation: exp.SetOperation, sql: str) -> None:
    _check_clauses(operation, _SET_OPERATION, sql)


def check_source(source: exp.Table | exp.Subquery, sql: str) -> None:
    _check_clauses(source, _TABLE, sql)
    alias = source.args.get("alias")
    if isinstance(alias, exp.TableAlias):
        _check_clauses(alias, {"this"}, sql)


def check_expression(tree: exp.Expr, sql: str) -> None:
    for node in tree.walk():
        if isinstance(node, exp.Distinct) and isinstance(node.parent, exp.Anonymous) and not is_aggregate(node.parent):
            name = node.parent.name.lower()
            hint = "DISTINCT stands in aggregates, as in count(DISTINCT x), and behind SELECT."
            raise NotSupported(f"{name} is no aggregate and takes no DISTINCT", hint=hint, span=span_of(node.parent), sql=sql)
        for kind, what in _EXPRESSIONS.items():
            if isinstance(node, kind) and not is_part_of_aggregate(node):
                raise not_supported(what, node, sql, _HINTS.get(kind))


def _check_clauses(node: exp.Expr, allowed: set[str], sql: str) -> None:
    for key, value in node.args.items():
        if key in allowed or not value:
            continue
        first = value[0] if isinstance(value, list) else value
        place = first if isinstance(first, exp.Expr) and span_of(first) else node
        raise not_supported(_CLAUSES.get(key, key.strip("_").replace("_", " ").upper()), place, sql, _CLAUSE_HINTS.get(key))
