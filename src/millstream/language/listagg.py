"""LISTAGG and STRING_AGG: a list of texts, joined.

    listagg(x, ',') WITHIN GROUP (ORDER BY y)      array_join(collect_list(concat(x, '')) WITHIN GROUP (ORDER BY y), ',')
    listagg(x, ',')                                the same in the order in which the values came
    listagg(DISTINCT x, ',')                       collect_set, in the order of the values

NULL if there is no value to list.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.core.errors import ArityMismatch, TypeMismatch
from millstream.language.aggregate_syntax import is_aggregate, unwrapped_call
from millstream.language.canonical import canonical
from millstream.language.scope import at_place
from millstream.language.spans import span_of


def is_listagg(node: exp.Expr) -> bool:
    return is_aggregate(node) and unwrapped_call(node)[0].name.lower() in ("listagg", "string_agg")


def listagg(node: exp.Expr) -> exp.Expr:
    """What a call of LISTAGG stands for."""
    call, condition, order = unwrapped_call(node)
    arguments = list(call.expressions)
    distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    arguments = list(arguments[0].expressions) if distinct else arguments
    if not 1 <= len(arguments) <= 2:
        raise ArityMismatch(f"{call.name.lower()} takes a value and a delimiter, not {len(arguments)} arguments", span=span_of(node))
    value, delimiter = arguments[0], arguments[1] if len(arguments) > 1 else exp.null()
    if delimiter.find(exp.Column) is not None:
        raise TypeMismatch(f"the delimiter of {call.name.lower()} is a constant", span=span_of(delimiter))

    def chosen(tree: exp.Expr) -> exp.Expr:
        return at_place(tree if condition is None else exp.Filter(this=tree, expression=exp.Where(this=condition.copy())), node)

    text = at_place(exp.Anonymous(this="concat", expressions=[value.copy(), exp.Literal.string("")]), value)
    if distinct:
        listed = _once(value, order, chosen(_call("collect_set", [value], node)))
    elif order:
        keys = exp.Order(expressions=[key.copy() for key in order])
        listed = chosen(exp.WithinGroup(this=_call("collect_list", [text], node), expression=keys))
    else:
        listed = chosen(_call("collect_list", [text], node))
    between = _call("coalesce", [_call("concat", [delimiter, exp.Literal.string("")], node), exp.Literal.string("")], node)
    joined = _call("array_join", [listed, between], node)
    is_some = exp.GT(this=chosen(_call("count", [value], node)), expression=exp.Literal.number(0))
    return at_place(exp.Case(ifs=[exp.If(this=is_some, true=joined)]), node)


def _once(value: exp.Expr, order: Sequence[exp.Ordered], values: exp.Expr) -> exp.Expr:
    """The values of a set as texts."""
    if any(canonical(key.this) != canonical(value) for key in order):
        raise TypeMismatch("with DISTINCT the list is ordered by the value itself", span=span_of(order[0]))
    if order and order[0].args.get("desc"):
        values = _call("reverse", [values], value)
    return at_place(exp.cast(values, "ARRAY<STRING>", dialect="spark"), value)


def _call(name: str, arguments: list[exp.Expr], place: exp.Expr) -> exp.Anonymous:
    return at_place(exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments]), place)
