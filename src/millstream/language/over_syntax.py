"""OVER as it is written: names of WINDOW are written out, and every call becomes an `OverFunction`.

Its function is then no call in the tree any more: `sum(x) OVER (...)` makes no query a grouped one, but `sum(sum(x)) OVER (...)` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.core.errors import ParseError, WindowInvalid, did_you_mean
from millstream.language.nodes import OverFunction
from millstream.language.scope import at_place
from millstream.language.spans import span_of
from millstream.language.unsupported import not_supported

_PARTS = {"partition_by": "PARTITION BY", "order": "ORDER BY", "spec": "a frame"}


def with_over(select: exp.Select, sql: str) -> exp.Select:
    """The same SELECT, with an OverFunction for each OVER in its list, in QUALIFY and in ORDER BY."""
    clauses = [select.args.get(clause) for clause in ("qualify", "order")]
    if not any(tree.find(exp.Window) for tree in (*select.expressions, *clauses) if tree is not None):
        return select
    named = {window.this.name.lower(): window for window in select.args.get("windows") or []}
    select = select.copy()

    def swapped(node: exp.Expr) -> exp.Expr:
        """Queries inside have an OVER of their own."""
        if isinstance(node, exp.Window):
            return _over_function(node, named, sql)
        for child in list(node.iter_expressions()) if not isinstance(node, exp.Query) else ():
            new = swapped(child)
            if new is not child:
                child.replace(new)
        return node

    select.set("expressions", [swapped(tree) for tree in select.expressions])
    for clause in ("qualify", "order"):
        if select.args.get(clause) is not None:
            select.set(clause, swapped(select.args[clause]))
    return select


def refuse_over(trees: Sequence[exp.Expr], clause: str, sql: str) -> None:
    for tree in trees:
        found = tree.find(OverFunction)
        if found is not None:
            raise not_supported(f"OVER in {clause}", found, sql, "Put it in a subquery.")


def _over_function(window: exp.Window, named: dict[str, exp.Window], sql: str) -> exp.Expr:
    if window.args.get("over") != "OVER":
        raise not_supported(str(window.args.get("over")), window, sql)
    call, condition, nulls = window.this, None, None
    while isinstance(call, exp.RespectNulls | exp.IgnoreNulls | exp.Filter):
        if isinstance(call, exp.Filter):
            condition = call.expression.this
        else:
            nulls = _said(call)
        call = call.this
    if not isinstance(call, exp.Anonymous):
        raise not_supported("WITHIN GROUP with OVER" if isinstance(call, exp.WithinGroup) else "this call with OVER", window, sql)
    arguments = [] if [type(argument) for argument in call.expressions] == [exp.Star] else list(call.expressions)
    if arguments and isinstance(arguments[0], exp.RespectNulls | exp.IgnoreNulls):
        nulls, arguments[0] = _said(arguments[0]), arguments[0].this
    if any(isinstance(argument, exp.Distinct) for argument in arguments):
        hint = "Spark SQL has none either.  Aggregate in a subquery with GROUP BY, and join that."
        raise not_supported("DISTINCT with OVER", window, sql, hint)
    parts = _written_out(window, named, sql)
    order: list[exp.Ordered] = parts["order"].expressions if parts["order"] is not None else []
    return at_place(
        OverFunction(
            this=str(call.this),
            expressions=[argument.copy() for argument in arguments],
            partition_by=[key.copy() for key in parts["partition_by"] or []],
            order=[ordered.this.copy() for ordered in order],
            directions=tuple((bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))) for ordered in order),
            spec=parts["spec"].copy() if parts["spec"] is not None else None,
            condition=condition.copy() if condition is not None else None,
            nulls=nulls,
        ),
        window,
    )


def _said(node: exp.Expr) -> str:
    return "IGNORE" if isinstance(node, exp.IgnoreNulls) else "RESPECT"


def _written_out(window: exp.Window, named: dict[str, exp.Window], sql: str) -> dict[str, exp.Expr | None]:
    """Its own parts, and those of the window that it names."""
    own = {part: window.args.get(part) or None for part in _PARTS}
    name = window.args.get("alias")
    if name is None:
        return own
    if name.name.lower() not in named:
        hint = did_you_mean(name.name, list(named)) or f"Define it: WINDOW {name.name} AS (...)."
        raise WindowInvalid(f'there is no window "{name.name}"', hint=hint, span=span_of(name), sql=sql)
    others = {key: value for key, value in named.items() if key != name.name.lower()}
    base = _written_out(named[name.name.lower()], others, sql)
    for part, what in _PARTS.items():
        if own[part] is not None and base[part] is not None:
            raise ParseError(f'the window "{name.name}" has {what} already', span=span_of(window), sql=sql)
    return {part: own[part] or base[part] for part in _PARTS}
