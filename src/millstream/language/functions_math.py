"""Arithmetic, rounding, powers, logarithms, trigonometry."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import NotSupported
from millstream.language.coercion import BIGINT, DOUBLE, INT, STRING, is_decimal, is_float, is_integral
from millstream.language.functions import NUMERIC, Call, Function, Param, coerced, custom, same_as, simple
from millstream.language.scalar_arithmetic import arithmetic, negated, promoted
from millstream.language.scalar_casts import cast
from millstream.language.scalar_literals import whole_number
from millstream.plan.duckdb_sql import duckdb_type
from millstream.plan.expression import Expr


def _binary(symbol: str, *names: str) -> Function:
    """A function that is an operator in disguise; ours never raise, so the try_ variants are the operators too."""

    def bind(call: Call) -> Expr:
        left, right = call.args
        return arithmetic(symbol, left, right, lambda a, b: exp.Anonymous(this=call.name, expressions=[a, b]))

    return custom(*names, least=2, most=2, bind=bind)


def _pmod(call: Call) -> Expr:
    """The remainder that has the sign of the divisor."""
    rest = arithmetic("%", call.args[0], call.args[1], lambda a, b: exp.Mod(this=a, expression=b))
    left, right = promoted("%", call.args[0], call.args[1])
    if is_decimal(rest.type):
        scale = max(left.type.scale, right.type.scale)
        wide = duckdb_type(pa.decimal128(38, scale))
        r, n = f"TRY(TRY_CAST({{0}} AS {wide}) % nullif(TRY_CAST({{1}} AS {wide}), 0))", f"TRY_CAST({{1}} AS {wide})"
        body = f"TRY_CAST(CASE WHEN {r} < 0 THEN ({r} + {n}) % {n} ELSE {r} END AS {duckdb_type(rest.type)})"
        return call.with_args([left, right]).gives(rest.type, body)
    if is_float(rest.type):
        body = "CASE WHEN {0} % nullif({1}, 0) < 0 THEN ({0} % {1} + {1}) % {1} ELSE {0} % nullif({1}, 0) END"
        return call.with_args([left, right]).gives(rest.type, body)
    wide = "HUGEINT" if rest.type == BIGINT else "BIGINT"
    r, n = f"(CAST({{0}} AS {wide}) % nullif({{1}}, 0))", f"CAST({{1}} AS {wide})"
    body = f"CAST(CASE WHEN {r} < 0 THEN ({r} + {n}) % {n} ELSE {r} END AS {duckdb_type(rest.type)})"
    return call.with_args([left, right]).gives(rest.type, body)


def _negative(call: Call) -> Expr:
    return negated(call.args[0], lambda inner: exp.Anonymous(this=call.name, expressions=[inner]))


def _to_bigint(rounded: str) -> str:
    """A rounded DOUBLE as BIGINT the way the JVM does it: NaN is 0."""
    return f"CASE WHEN isnan({{0}}) THEN 0 ELSE TRY_CAST({rounded} AS BIGINT) END"


def _ceil_floor(call: Call) -> Expr:
    arg = coerced(call, 0, NUMERIC)
    word = "floor" if call.name == "floor" else "ceil"
    if len(call.args) == 2:
        return _ceil_floor_scaled(call, word)
    typed = call.with_args([arg])
    if is_decimal(arg.type):
        type_ = pa.decimal128(min(38, arg.type.precision - arg.type.scale + (arg.type.scale > 0)), 0)
        return typed.gives(type_, f"CAST({word}({{0}}) AS {duckdb_type(type_)})")
    if is_integral(arg.type):
        return typed.gives(BIGINT, "CAST({0} AS BIGINT)")
    return call.with_args([cast(arg, DOUBLE)]).gives(BIGINT, _to_bigint(f"{word}({{0}})"))


def _ceil_floor_scaled(call: Call, word: str) -> Expr:
    raise NotSupported(f"{word} with a scale is not supported", hint=f"Use {word}(x * 100) / 100.")


def _scale(call: Call) -> int:
    if len(call.args) < 2:
        return 0
    value = whole_number(call.args[1])
    if value is None:
        raise call.refuse("the scale must be a whole number written in the query")
    return value


def _round(call: Call) -> Expr:
    arg, scale = coerced(call, 0, NUMERIC), _scale(call)
    word = "round" if call.name == "round" else "round_even"
    typed = call.with_args([arg, *call.args[1:]])
    if is_decimal(arg.type):
        return _round_decimal(typed, word, scale)
    if is_integral(arg.type):
        if scale >= 0:
            return typed.gives(arg.type, "{0}")
        return typed.gives(arg.type, f"TRY_CAST(TRY({word}(CAST({{0}} AS HUGEINT), {scale})) AS {duckdb_type(arg.type)})")
    # a floating number is rounded as it is written, not as it is stored: 2.675 becomes 2.68
    type_ = duckdb_type(arg.type)
    exact = f"CAST(CAST({word}(CAST(CAST(CAST({{0}} AS DOUBLE) AS VARCHAR) AS DECIMAL(38,18)), {min(scale, 18)}) AS VARCHAR) AS {type_})"
    beyond = "{0}" if scale >= 0 else f"{word}({{0}}, {scale})"
    body = f"CASE WHEN isfinite({{0}}) AND abs({{0}}) < 1e18 THEN {exact} ELSE {beyond} END"
    return typed.gives(arg.type, body)


def _round_decimal(call: Call, word: str, scale: int) -> Expr:
    precision, digits = call.args[0].type.precision, call.args[0].type.scale
    whole = precision - digits + 1
    if scale < 0:
        type_ = pa.decimal128(min(38, max(whole, -scale + 1)), 0)
    else:
        kept = min(digits, scale)
        type_ = pa.decimal128(min(38, whole + kept), kept)
    return call.gives(type_, f"TRY_CAST(TRY({word}({{0}}, {scale})) AS {duckdb_type(type_)})")


def _abs(call: Call) -> Expr:
    arg = coerced(call, 0, NUMERIC)
    body = "abs({0})" if is_float(arg.type) else f"TRY_CAST(TRY(abs({{0}})) AS {duckdb_type(arg.type)})"
    return call.with_args([arg]).gives(arg.type, body)


def _format_number(call: Call) -> Expr:
    """`1,234.50`: thousands apart, so many digits behind the point, a tie to the even digit."""
    arg, digits = coerced(call, 0, NUMERIC), whole_number(call.args[1])
    if digits is None:
        raise NotSupported("format_number: the number of digits must be written in the query")
    typed = call.with_args([arg, call.args[1]])
    if digits < 0:
        return typed.gives(STRING, "CAST(NULL AS VARCHAR)")
    if is_integral(arg.type):
        return typed.gives(STRING, f"(format('{{{{:,d}}}}', {{0}}) || '{'.' * bool(digits)}{'0' * digits}')")
    rounded = f"round_even({{0}}, {digits})"
    # a DOUBLE keeps the sign of a negative zero, a decimal does not have one
    signed = f"CASE WHEN {{0}} < 0 AND {rounded} = 0 THEN CAST('-0.0' AS DOUBLE) ELSE CAST({rounded} AS DOUBLE) END"
    value = signed if is_decimal(arg.type) else "CAST({0} AS DOUBLE)"
    odd = "" if is_decimal(arg.type) else " WHEN isnan({0}) THEN 'NaN' WHEN isinf({0}) THEN CASE WHEN {0} > 0 THEN '∞' ELSE '-∞' END"
    return typed.gives(STRING, f"CASE WHEN {{0}} IS NULL THEN NULL{odd} ELSE format('{{{{:,.{digits}f}}}}', {value}) END")


def _log(call: Call) -> Expr:
    typed = call.with_args([coerced(call, i, _DOUBLE) for i in range(len(call.args))])
    if len(typed.args) == 1:
        return typed.gives(DOUBLE, "ln(CASE WHEN {0} <= 0 THEN NULL ELSE {0} END)")
    return typed.gives(DOUBLE, "(ln(CASE WHEN {1} <= 0 THEN NULL ELSE {1} END) / ln(CASE WHEN {0} <= 0 THEN NULL ELSE {0} END))")


_DOUBLE = Param("a number", lambda found: DOUBLE if NUMERIC.accept(found) is not None else None)


def _real(name: str, duckdb: str | None = None) -> Function:
    """A function from DOUBLE to DOUBLE."""
    return simple(*name.split(), takes=[_DOUBLE], gives=DOUBLE, duckdb=duckdb or f"{name.split()[0]}({{0}})")


FUNCTIONS: tuple[Function, ...] = (
    _binary("+", "try_add"),
    _binary("-", "try_subtract"),
    _binary("*", "try_multiply"),
    _binary("/", "try_divide"),
    _binary("%", "mod", "try_mod"),
    _binary("div", "div"),
    custom("pmod", least=2, most=2, bind=_pmod),
    custom("negative", least=1, most=1, bind=_negative),
    simple("positive", takes=[NUMERIC], gives=same_as(0), duckdb="{0}"),
    custom("abs", least=1, most=1, bind=_abs),
    custom("ceil", "ceiling", "floor", least=1, most=2, bind=_ceil_floor),
    custom("round", "bround", least=1, most=2, bind=_round),
    _real("rint", "round_even({0}, 0)"),
    _real("sign signum", "CASE WHEN isnan({0}) OR {0} = 0 THEN {0} ELSE CAST(sign({0}) AS DOUBLE) END"),
    _real("sqrt"),
    _real("cbrt"),
    _real("exp"),
    _real("expm1", "CASE WHEN abs({0}) > 1 THEN exp({0}) - 1 ELSE 2 * sinh({0} / 2) * exp({0} / 2) END"),
    _real("ln", "ln(CASE WHEN {0} <= 0 THEN NULL ELSE {0} END)"),
    _real("log10", "log10(CASE WHEN {0} <= 0 THEN NULL ELSE {0} END)"),
    _real("log2", "log2(CASE WHEN {0} <= 0 THEN NULL ELSE {0} END)"),
    _real("log1p", "CASE WHEN {0} <= -1 THEN NULL WHEN abs({0}) > 0.5 THEN ln(1 + {0}) ELSE 2 * atanh({0} / (2 + {0})) END"),
    custom("log", least=1, most=2, bind=_log),
    simple("pow", "power", takes=[_DOUBLE, _DOUBLE], gives=DOUBLE, duckdb="pow({0}, {1})"),
    simple("hypot", takes=[_DOUBLE, _DOUBLE], gives=DOUBLE, duckdb="millstream_hypot({0}, {1})"),
    *(_real(name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")),
    *(_real(name) for name in ("degrees", "radians")),
    _real("cot", "(1 / tan({0}))"),
    _real("csc", "(1 / sin({0}))"),
    _real("sec", "(1 / cos({0}))"),
    simple("atan2", takes=[_DOUBLE, _DOUBLE], gives=DOUBLE, duckdb="atan2({0} + CAST(0 AS DOUBLE), {1} + CAST(0 AS DOUBLE))"),
    simple("e", gives=DOUBLE, duckdb="exp(CAST(1 AS DOUBLE))"),
    simple("pi", gives=DOUBLE, duckdb="pi()"),
    custom("format_number", least=2, most=2, bind=_format_number),
    simple("factorial", takes=[INT], gives=BIGINT, duckdb="CASE WHEN {0} BETWEEN 0 AND 20 THEN CAST(factorial({0}) AS BIGINT) END"),
    simple("width_bucket", takes=[_DOUBLE, _DOUBLE, _DOUBLE, BIGINT], gives=BIGINT, duckdb="millstream_width_bucket({0}, {1}, {2}, {3})"),
)
