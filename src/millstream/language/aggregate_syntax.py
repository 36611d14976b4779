"""Aggregates as they are written, in one form: a function of operators/aggregates, its arguments, and what is fixed in the query.

sum(x) FILTER (WHERE c)      sum of CASE WHEN c THEN x END: aggregates pass over NULL
count(a, b)                  count of CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN 1 END
count_if(c)                  count of CASE WHEN c THEN 1 END
bool_or(b)                   max of b
first(x) IGNORE NULLS        first of x where x IS NOT NULL: to FIRST a NULL is a value, so it is told which rows count
median(x)                    percentile of x at 0.5
mode() WITHIN GROUP (ORDER BY x)             mode of x
collect_list(x) WITHIN GROUP (ORDER BY y)    collect_ordered of x, y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.core.errors import ArityMismatch, BindError, NotSupported, TypeMismatch, WindowInvalid
from millstream.language.functions_known import AGGREGATES, ROW_MAKERS
from millstream.language.spans import span_of
from millstream.plan.ordering import LOOKING, NUMBERING

_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)

# name: (function, least and greatest number of arguments)
FUNCTIONS: dict[str, tuple[str, int, int | None]] = {
    "count": ("count", 1, None), "count_if": ("count", 1, 1), "approx_count_distinct": ("count", 1, 2),
    "sum": ("sum", 1, 1), "try_sum": ("sum", 1, 1), "avg": ("avg", 1, 1), "mean": ("avg", 1, 1), "try_avg": ("avg", 1, 1),
    "min": ("min", 1, 1), "max": ("max", 1, 1),
    "bool_and": ("min", 1, 1), "every": ("min", 1, 1), "bool_or": ("max", 1, 1), "any": ("max", 1, 1), "some": ("max", 1, 1),
    "first": ("first", 1, 2), "first_value": ("first", 1, 2), "any_value": ("first", 1, 2),
    "last": ("last", 1, 2), "last_value": ("last", 1, 2), "min_by": ("min_by", 2, 2), "max_by": ("max_by", 2, 2),
    "collect_list": ("collect_list", 1, 1), "array_agg": ("collect_list", 1, 1), "collect_set": ("collect_set", 1, 1),
    "mode": ("mode", 0, 2), "bit_and": ("bit_and", 1, 1), "bit_or": ("bit_or", 1, 1), "bit_xor": ("bit_xor", 1, 1),
    "median": ("percentile", 1, 1), "percentile": ("percentile", 2, 2), "percentile_cont": ("percentile", 1, 1),
    "percentile_approx": ("percentile_approx", 2, 3), "approx_percentile": ("percentile_approx", 2, 3),
    "percentile_disc": ("percentile_approx", 1, 1),
    "stddev": ("stddev_samp", 1, 1), "std": ("stddev_samp", 1, 1), "stddev_samp": ("stddev_samp", 1, 1), "stddev_pop": ("stddev_pop", 1, 1),
    "variance": ("var_samp", 1, 1), "var_samp": ("var_samp", 1, 1), "var_pop": ("var_pop", 1, 1),
}  # fmt: skip

_OF_BOOLEANS = frozenset(["bool_and", "every", "bool_or", "any", "some", "count_if"])
_SAME_IF_DISTINCT = frozenset(["min", "max", "min_by", "max_by", "collect_set", "bit_and", "bit_or"])
_PERCENTILES = frozenset(["percentile", "percentile_approx", "approx_percentile"])
_WITHIN_GROUP = frozenset(["percentile_cont", "percentile_disc"])
_IN_TIME = frozenset(["first", "last"])
_NAMES = AGGREGATES - ROW_MAKERS


@dataclass(frozen=True)
class WrittenAggregate:
    """`name` as the user wrote it; no arguments for count(*)."""

    name: str
    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    parameters: tuple[float, ...] = ()
    gives_array: bool = False  # one answer for each parameter
    condition: exp.Expr | None = None  # of FILTER; it is in the arguments already

    @property
    def wants_boolean(self) -> bool:
        return self.name in _OF_BOOLEANS

    @property
    def typed_as(self) -> str:
        """The function by whose rule for types it goes: percentile_disc is over DOUBLEs, as in Spark, where percentile_approx is not."""
        return "percentile" if self.name == "percentile_disc" else self.function


def is_aggregate(node: exp.Expr) -> bool:
    """A call of an aggregate, with all that stands behind it."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return isinstance(node, exp.Anonymous) and node.name.lower() in _NAMES


def is_grouping(node: exp.Expr) -> bool:
    """grouping(..) or grouping_id(..), which tell of the group and not of its rows."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("grouping", "grouping_id")


def unwrapped_call(node: exp.Expr) -> tuple[exp.Anonymous, exp.Expr | None, Sequence[exp.Ordered]]:
    """The call inside what `is_aggregate` has found, the condition of its FILTER, and the keys of its WITHIN GROUP."""
    parts = _unwrapped(node)
    return parts.call, parts.condition, parts.order


def find_aggregate(tree: exp.Expr) -> exp.Expr | None:
    return next((node for node in tree.walk() if is_aggregate(node) and not _stands_before_over(node)), None)


def _stands_before_over(node: exp.Expr) -> bool:
    """sum(x) OVER (...) is no aggregate of the query."""
    while isinstance(node.parent, _WRAPPERS):
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def is_part_of_aggregate(node: exp.Expr) -> bool:
    """DISTINCT, FILTER, IGNORE NULLS or WITHIN GROUP of an aggregate."""
    above = node.parent
    match node:
        case exp.Ordered():
            return above is not None and isinstance(above.parent, exp.WithinGroup) and is_aggregate(above.parent)
        case exp.Distinct() | exp.IgnoreNulls() | exp.RespectNulls() if above is not None and is_aggregate(above):
            return True
    return isinstance(node, _WRAPPERS) and is_aggregate(node)


def read_aggregate(node: exp.Expr) -> WrittenAggregate:
    """The aggregate that `is_aggregate` has found.  Errors have their place."""
    try:
        return replace(_read(node), condition=_unwrapped(node).condition)
    except (BindError, NotSupported) as error:
        error.span = error.span or span_of(node)
        raise


def _read(node: exp.Expr) -> WrittenAggregate:
    parts = _unwrapped(node)
    name, arguments = parts.call.name.lower(), list(parts.call.expressions)
    if name in NUMBERING | LOOKING and name not in FUNCTIONS:
        hint = f"Write {name}({'...' if arguments else ''}) OVER (ORDER BY ...)."
        raise WindowInvalid(f"{name} looks at other rows and needs OVER", hint=hint)
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
    ignores_nulls = parts.ignores_nulls
    if arguments and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
        ignores_nulls, arguments[0] = ignores_nulls or isinstance(arguments[0], exp.IgnoreNulls), arguments[0].this
    if function in _IN_TIME:
        return _in_time(name, function, arguments, parts.condition, distinct, ignores_nulls)
    if ignores_nulls:
        raise NotSupported(f"IGNORE NULLS says nothing to {name}", hint="It passes over NULL anyway.")
    if function == "mode":
        return _mode(arguments, parts, distinct)
    if function == "collect_list" and parts.order:
        if distinct:
            hint = "As in sort_array(collect_set(x))."
            raise NotSupported(f"{name} with WITHIN GROUP (ORDER BY ...) takes no DISTINCT", hint=hint)
        return _ordered(name, arguments[0], parts)
    arguments, fractions, gives_array = _fractions(name, arguments, parts.order)
    if name == "approx_count_distinct":
        arguments, distinct = arguments[:1], True
    elif name == "count_if":
        arguments = [_when(arguments[0], exp.Literal.number(1))]
    elif name == "count" and not distinct:
        arguments = _counted(arguments, parts.condition)
    if parts.condition is not None:
        # the one that decides whether the row counts: y of min_by(x, y), else any
        arguments[-1] = _when(parts.condition, arguments[-1])
    return WrittenAggregate(name, function, tuple(arguments), distinct and function not in _SAME_IF_DISTINCT, fractions, gives_array)


@dataclass
class _Parts:
    """A call, and what stands behind it."""

    call: exp.Anonymous
    condition: exp.Expr | None = None  # FILTER
    ignores_nulls: bool = False
    order: Sequence[exp.Ordered] = ()  # WITHIN GROUP


def _unwrapped(node: exp.Expr) -> _Parts:
    parts, inner = _Parts(exp.Anonymous()), node
    while isinstance(inner, _WRAPPERS):
        match inner:
            case exp.Filter():
                parts.condition = inner.expression.this
            case exp.IgnoreNulls():
                parts.ignores_nulls = True
            case exp.WithinGroup():
                parts.order = inner.expression.expressions
        inner = inner.this
    assert isinstance(inner, exp.Anonymous)
    parts.call = inner
    return parts


def _mode(arguments: list[exp.Expr], parts: _Parts, distinct: bool) -> WrittenAggregate:
    """mode(x), mode(x, is_deterministic) or mode() WITHIN GROUP (ORDER BY x); ours always says which of several it is."""
    if distinct or len(parts.order) + min(len(arguments), 1) != 1:
        raise TypeMismatch("mode takes one value, without DISTINCT", hint="As in mode(x), or mode() WITHIN GROUP (ORDER BY x).")
    if len(arguments) > 1 and not isinstance(arguments[1], exp.Boolean):
        raise TypeMismatch("the second argument of mode is true or false", span=span_of(arguments[1]))
    value = parts.order[0].this if parts.order else arguments[0]
    descends = bool(parts.order) and bool(parts.order[0].args.get("desc"))
    value = _when(parts.condition, value) if parts.condition is not None else value
    return WrittenAggregate("mode", "mode", (value,), parameters=(float(descends),))


def _ordered(name: str, value: exp.Expr, parts: _Parts) -> WrittenAggregate:
    """Each direction is a number: 2 if it descends, and 1 if NULLs come first."""
    value = _when(parts.condition, value) if parts.condition is not None else value
    directions = tuple(2.0 * bool(key.args.get("desc")) + bool(key.args.get("nulls_first")) for key in parts.order)
    return WrittenAggregate(name, "collect_ordered", (value, *(key.this for key in parts.order)), parameters=directions)


def _fractions(name: str, arguments: list[exp.Expr], orders: Sequence[exp.Ordered]) -> tuple[list[exp.Expr], tuple[float, ...], bool]:
    """The arguments of a percentile without its fractions, the fractions, and whether they are an array."""
    if len(orders) > 1:
        raise ArityMismatch("WITHIN GROUP takes one expression to order by")
    order = orders[0] if orders else None
    if (order is not None) != (name in _WITHIN_GROUP):
        raise NotSupported(f"{name} {'is not supported with' if order is not None else 'wants'} WITHIN GROUP (ORDER BY ...)")
    if name == "median":
        return arguments, (0.5,), False
    if order is not None:
        fractions, gives_array = _numbers(name, arguments[0])
        if order.args.get("desc"):
            if name == "percentile_disc":
                raise NotSupported("percentile_disc with DESC is not supported in a continuous query yet")
            fractions = tuple(1 - fraction for fraction in fractions)
        return [order.this], fractions, gives_array
    if name in _PERCENTILES:
        return arguments[:1], *_numbers(name, arguments[1])
    return arguments, (), False


def _numbers(name: str, tree: exp.Expr) -> tuple[tuple[float, ...], bool]:
    """Fractions written in the query: a number, or an array of numbers."""
    is_array = isinstance(tree, exp.Anonymous) and tree.name.lower() == "array"
    numbers = [part.this if isinstance(part, exp.Cast) else part for part in (tree.expressions if is_array else [tree])]
    if not numbers or not all(isinstance(number, exp.Literal) and not number.is_string for number in numbers):
        raise NotSupported(f"the fraction of {name} is a number written in the query, or an array of them", span=span_of(tree))
    fractions = tuple(float(number.name) for number in numbers)
    if not all(0 <= fraction <= 1 for fraction in fractions):
        raise TypeMismatch(f"the fraction of {name} lies between 0 and 1", span=span_of(tree))
    return fractions, is_array


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
