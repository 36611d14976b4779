"""Aggregates as they are written, in one form: a function of operators/aggregates, its arguments, and what is fixed in the query.

sum(x) FILTER (WHERE c)      sum of CASE WHEN c THEN x END: aggregates pass over NULL
count(a, b)                  count of CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN 1 END
count_if(c)                  count of CASE WHEN c THEN 1 END
bool_or(b)                   max of b
first(x) IGNORE NULLS        first of x where x IS NOT NULL: to FIRST a NULL is a value, so it is told which rows count
median(x)                    percentile of x at 0.5
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.core.errors import ArityMismatch, BindError, NotSupported, TypeMismatch
from millstream.language.functions_known import AGGREGATES
from millstream.language.spans import span_of

_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
_PARTS = (*_WRAPPERS, exp.Distinct, exp.Order, exp.Ordered)

# name: (function, least and greatest number of arguments)
FUNCTIONS: dict[str, tuple[str, int, int | None]] = {
    "count": ("count", 1, None), "count_if": ("count", 1, 1), "approx_count_distinct": ("count", 1, 2),
    "sum": ("sum", 1, 1), "try_sum": ("sum", 1, 1), "avg": ("avg", 1, 1), "mean": ("avg", 1, 1), "try_avg": ("avg", 1, 1),
    "min": ("min", 1, 1), "max": ("max", 1, 1),
    "bool_and": ("min", 1, 1), "every": ("min", 1, 1), "bool_or": ("max", 1, 1), "any": ("max", 1, 1), "some": ("max", 1, 1),
    "first": ("first", 1, 2), "first_value": ("first", 1, 2), "any_value": ("first", 1, 2),
    "last": ("last", 1, 2), "last_value": ("last", 1, 2), "min_by": ("min_by", 2, 2), "max_by": ("max_by", 2, 2),
    "stddev": ("stddev_samp", 1, 1), "std": ("stddev_samp", 1, 1), "stddev_samp": ("stddev_samp", 1, 1), "stddev_pop": ("stddev_pop", 1, 1),
    "variance": ("var_samp", 1, 1), "var_samp": ("var_samp", 1, 1), "var_pop": ("var_pop", 1, 1),
}  # fmt: skip
GROUPING = frozenset(["grouping", "grouping_id"])

_OF_BOOLEANS = frozenset(["bool_and", "every", "bool_or", "any", "some", "count_if"])
_SAME_IF_DISTINCT = frozenset(["min", "max", "min_by", "max_by"])
_IN_TIME = frozenset(["first", "last"])
_NOT_AGGREGATES = frozenset(["explode", "explode_outer", "inline", "inline_outer", "posexplode", "posexplode_outer", "stack"])


@dataclass(frozen=True)
class WrittenAggregate:
    """`name` as the user wrote it; no arguments for count(*)."""

    name: str
    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    parameters: tuple[float, ...] = ()

    @property
    def wants_boolean(self) -> bool:
        return self.name in _OF_BOOLEANS


def is_aggregate(node: exp.Expr) -> bool:
    """A call of an aggregate, with all that stands behind it."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES - _NOT_AGGREGATES


def find_aggregate(tree: exp.Expr) -> exp.Expr | None:
    return next((node for node in tree.walk() if is_aggregate(node)), None)


def is_part_of_aggregate(node: exp.Expr) -> bool:
    """DISTINCT, FILTER, IGNORE NULLS or an order that belongs to an aggregate."""
    if not isinstance(node, _PARTS):
        return False
    inner: exp.Expr | None = node
    while isinstance(inner, _PARTS):
        inner = inner.parent
    return is_aggregate(node) or (inner is not None and is_aggregate(inner))


def read_aggregate(node: exp.Expr) -> WrittenAggregate:
    """The aggregate that `is_aggregate` has found.  Errors have their place."""
    try:
        return _read(node)
    except (BindError, NotSupported) as error:
        error.span = error.span or span_of(node)
        raise


def _read(node: exp.Expr) -> WrittenAggregate:
    condition, ignores_nulls, call = _unwrapped(node)
    name, arguments = call.name.lower(), list(call.expressions)
    if name not in FUNCTIONS:
        raise NotSupported(
            f"the aggregate {name} is not supported in a continuous query yet", hint="docs/functions.md lists those that are."
        )
    function, least, most = FUNCTIONS[name]
    distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = list(arguments[0].expressions)
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = str(least) if least == most else f"{least} to {most}" if most else f"{least} or more"
        raise ArityMismatch(f"{name} takes {wanted} argument{'' if wanted == '1' else 's'}, not {len(arguments)}")
    if arguments and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
        ignores_nulls, arguments[0] = ignores_nulls or isinstance(arguments[0], exp.IgnoreNulls), arguments[0].this
    if function in _IN_TIME:
        return _in_time(name, function, arguments, condition, distinct, ignores_nulls)
    if ignores_nulls:
        raise NotSupported(f"IGNORE NULLS says nothing to {name}", hint="It passes over NULL anyway.")
    if name == "approx_count_distinct":
        arguments, distinct = arguments[:1], True
    elif name == "count_if":
        arguments = [_when(arguments[0], exp.Literal.number(1))]
    elif name == "count" and not distinct:
        arguments = _counted(arguments, condition)
    if condition is not None and arguments:
        # the one that decides whether the row counts: y of min_by(x, y), else any
        arguments[-1] = _when(condition, arguments[-1])
    return WrittenAggregate(name, function, tuple(arguments), distinct and function not in _SAME_IF_DISTINCT)


def _unwrapped(node: exp.Expr) -> tuple[exp.Expr | None, bool, exp.Anonymous]:
    """The condition of FILTER, whether IGNORE NULLS stands there, and the call."""
    condition, ignores_nulls = None, False
    while isinstance(node, _WRAPPERS):
        match node:
            case exp.Filter():
                condition = node.expression.this
            case exp.IgnoreNulls():
                ignores_nulls = True
            case exp.WithinGroup():
                raise NotSupported("WITHIN GROUP is not supported in a continuous query yet")
        node = node.this
    assert isinstance(node, exp.Anonymous)
    return condition, ignores_nulls, node


def _in_time(
    name: str, function: str, arguments: list[exp.Expr], condition: exp.Expr | None, distinct: bool, ignores_nulls: bool
) -> WrittenAggregate:
    if distinct:
        raise NotSupported(f"DISTINCT in {name} is not supported in a continuous query yet")
    value, *flag = arguments
    if flag:
        if not isinstance(flag[0], exp.Boolean):
            raise TypeMismatch(f"the second argument of {name} is true or false", span=span_of(flag[0]))
        ignores_nulls = ignores_nulls or bool(flag[0].this)
    conditions = [condition.copy()] if condition is not None else []
    if ignores_nulls:
        conditions.append(exp.Not(this=exp.Is(this=value.copy(), expression=exp.null())))
    counts = [exp.and_(*conditions, copy=False)] if conditions else []
    return WrittenAggregate(name, function, (value, *counts))


def _counted(arguments: list[exp.Expr], condition: exp.Expr | None) -> list[exp.Expr]:
    """What count(...) counts; nothing if it counts rows."""
    one = exp.Literal.number(1)
    if len(arguments) > 1:
        present = [exp.Not(this=exp.Is(this=argument.copy(), expression=exp.null())) for argument in arguments]
        return [_when(exp.and_(*present, copy=False), one)]
    if isinstance(arguments[0], exp.Star | exp.Literal | exp.Boolean):
        return [one] if condition is not None else []
    return arguments


def _when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
