"""Functions that choose: by NULL, by truth, by size."""

from __future__ import annotations

from sqlglot import exp

from millstream.language import scalar_predicates as predicates
from millstream.language.coercion import BOOLEAN, DOUBLE, FLOAT, VOID, named
from millstream.language.functions import ANY, Call, Function, Param, common, custom, one_of, placeholders, simple
from millstream.language.scalar_casts import cast, cast_template
from millstream.language.scalar_literals import constant_text, integer, string
from millstream.plan.expression import Expr


def _coalesce(call: Call) -> Expr:
    type_ = common(call, call.args)
    return call.with_args([cast(arg, type_) for arg in call.args]).gives(type_, f"coalesce({placeholders(len(call.args))})")


def _nvl2(call: Call) -> Expr:
    type_ = common(call, call.args[1:])
    typed = call.with_args([call.args[0], *(cast(arg, type_) for arg in call.args[1:])])
    return typed.gives(type_, "CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END")


def _nullif(call: Call) -> Expr:
    left, right = call.args
    type_ = predicates.comparison_type(left, right)
    a = cast_template(left.type, type_)
    b = cast_template(right.type, type_).format("{1}") if right.type != VOID else "NULL"
    return call.gives(left.type, f"CASE WHEN {a} = {b} THEN NULL ELSE {{0}} END")


def _nullifzero(call: Call) -> Expr:
    return _nullif(call.with_args([call.args[0], integer(0)]))


def _zeroifnull(call: Call) -> Expr:
    return _coalesce(call.with_args([call.args[0], integer(0)]))


def _extreme(call: Call) -> Expr:
    type_ = common(call, call.args, from_text=False)
    predicates.check_ordered(type_)
    typed = call.with_args([cast(arg, type_) for arg in call.args])
    return typed.gives(type_, f"{call.name}({placeholders(len(call.args))})")


def _if(call: Call) -> Expr:
    condition = predicates.boolean(call.args[0], "the condition of if")
    type_ = common(call, call.args[1:])
    typed = call.with_args([condition, *(cast(value, type_) for value in call.args[1:])])
    return typed.gives(type_, "CASE WHEN {0} THEN {1} ELSE {2} END")


def _equal_null(call: Call) -> Expr:
    left, right = predicates.comparable(*call.args)
    return call.with_args([left, right]).gives(BOOLEAN, "({0} IS NOT DISTINCT FROM {1})")


def _not(call: Call) -> Expr:
    return Expr(exp.Not(this=predicates.boolean(call.args[0], "NOT", from_text=True).tree), BOOLEAN)


def _like(call: Call) -> Expr:
    operand, pattern = call.args[:2]
    escape = constant_text(call.args[2]) if len(call.args) > 2 else "\\"
    if escape is None:
        raise call.refuse("the escape must be written in the query")
    return predicates.like(operand, pattern, escape, ignoring_case=call.name == "ilike")


def _nanvl(call: Call) -> Expr:
    param = one_of(DOUBLE, FLOAT)
    types = [param.accept(type_) for type_ in call.types]
    if None in types:
        raise call.refuse("takes DOUBLE or FLOAT")
    type_ = FLOAT if types == [FLOAT, FLOAT] else DOUBLE
    typed = call.with_args([cast(arg, type_) for arg in call.args])
    return typed.gives(type_, "CASE WHEN isnan({0}) THEN {1} ELSE {0} END")


def _typeof(call: Call) -> Expr:
    return string(named(call.args[0].type).lower())


_FLOATING = Param("a number", lambda type_: type_ if type_ == FLOAT else DOUBLE if one_of(DOUBLE).accept(type_) is not None else None)

FUNCTIONS: tuple[Function, ...] = (
    custom("coalesce", least=1, most=None, bind=_coalesce),
    custom("nvl", "ifnull", least=2, most=2, bind=_coalesce),
    custom("nvl2", least=3, most=3, bind=_nvl2),
    custom("nullif", least=2, most=2, bind=_nullif),
    custom("nullifzero", least=1, most=1, bind=_nullifzero),
    custom("zeroifnull", least=1, most=1, bind=_zeroifnull),
    custom("greatest", "least", least=2, most=None, bind=_extreme),
    custom("if", least=3, most=3, bind=_if),
    custom("equal_null", least=2, most=2, bind=_equal_null),
    custom("not", least=1, most=1, bind=_not),
    custom("like", "ilike", least=2, most=3, bind=_like),
    custom("nanvl", least=2, most=2, bind=_nanvl),
    custom("typeof", least=1, most=1, bind=_typeof),
    simple("isnull", takes=[ANY], gives=BOOLEAN, duckdb="({0} IS NULL)"),
    simple("isnotnull", takes=[ANY], gives=BOOLEAN, duckdb="({0} IS NOT NULL)"),
    simple("isnan", takes=[_FLOATING], gives=BOOLEAN, duckdb="coalesce(isnan({0}), FALSE)"),
)
