"""Arithmetic operators: how their operands are promoted, and what DuckDB computes.  Overflow and division by zero give NULL."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import TypeMismatch
from millstream.core.schema import INTERVAL, TIMESTAMP
from millstream.language.coercion import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    VOID,
    common_type,
    decimal_of,
    decimal_result,
    is_datetime,
    is_decimal,
    is_float,
    is_integral,
    is_interval,
    is_numeric,
    is_timestamp,
    named,
    wider_decimal,
)
from millstream.language.scalar_casts import cast
from millstream.language.scalar_literals import DAYS_ONLY, whole_number
from millstream.plan.duckdb_sql import MONTHS, duckdb_type, lowered
from millstream.plan.expression import Expr

Build = Callable[[exp.Expr, exp.Expr], exp.Expr]
"""Makes the node of the tree from the two operands' trees."""

_DAY_US = 86_400_000_000


def arithmetic(operator: str, left: Expr, right: Expr, build: Build) -> Expr:
    """left `operator` right, for + - * / % and div."""
    special = _with_time(operator, left, right, build)
    if special is not None:
        return special
    if operator == "div":
        return _integral_division(left, right, build)
    divides = _divides(right)
    left, right = promoted(operator, left, right)
    if operator == "/" and not is_decimal(left.type):
        left, right = cast(left, DOUBLE), cast(right, DOUBLE)
    if is_decimal(left.type):
        return _decimal(operator, left, right, build)
    return _built(build, left, right, left.type, _number_template(operator, left.type, divides=divides))


def negated(operand: Expr, build: Callable[[exp.Expr], exp.Expr]) -> Expr:
    """-operand; the least whole number has no opposite."""
    operand = cast(operand, DOUBLE) if operand.type in (STRING, VOID) else operand
    if not is_numeric(operand.type) and not is_interval(operand.type):
        raise TypeMismatch(f"cannot negate {named(operand.type)}")
    template = f"TRY_CAST(TRY(-{{0}}) AS {duckdb_type(operand.type)})" if not is_float(operand.type) else "(-{0})"
    tree = lowered(build(operand.tree), template)
    tree.meta[DAYS_ONLY] = _days_only(operand)
    return Expr(tree, operand.type)


def _built(build: Build, left: Expr, right: Expr, type_: pa.DataType, template: str) -> Expr:
    return Expr(lowered(build(left.tree, right.tree), template), type_)


def _mismatch(operator: str, left: Expr, right: Expr) -> TypeMismatch:
    return TypeMismatch(f'no operator "{operator}" for {named(left.type)} and {named(right.type)}')


# --- numbers ----------------------------------------------------------------------------------


def promoted(operator: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Both operands as numbers: of one type, or both decimals of whatever precision."""
    types = (left.type, right.type)
    if not all(is_numeric(type_) or type_ in (STRING, VOID) for type_ in types):
        raise _mismatch(operator, left, right)
    if not any(is_numeric(type_) for type_ in types):
        if STRING in types:
            raise _mismatch(operator, left, right)
        type_ = BIGINT if operator == "div" else DOUBLE
        return cast(left, type_), cast(right, type_)
    if operator == "/" and left.type == VOID:
        return cast(left, DOUBLE), cast(right, DOUBLE)
    if any(is_decimal(type_) for type_ in types) and not any(is_float(type_) or type_ == STRING for type_ in types):
        return as_decimal(left, right), as_decimal(right, left)
    type_ = common_type(*types)
    if type_ is None:
        raise _mismatch(operator, left, right)
    return cast(left, type_), cast(right, type_)


def as_decimal(operand: Expr, other: Expr) -> Expr:
    """A whole number that meets a decimal; one written in the query has just the digits it needs."""
    if is_decimal(operand.type):
        return operand
    if operand.type == VOID:
        return cast(operand, other.type)
    value = whole_number(operand)
    if value is not None and operand.type in (INT, BIGINT):
        return cast(operand, pa.decimal128(len(str(abs(value))), 0))
    return cast(operand, decimal_of(operand.type))


def _divides(right: Expr) -> bool:
    """Whether it is written in the query that every whole number can be divided by it: not by zero, nor the least one by -1."""
    return whole_number(right) not in (None, 0, -1)


def _number_template(operator: str, type_: pa.DataType, *, divides: bool) -> str:
    match operator:
        case "/" | "%" if divides:
            return f"({{0}} {operator} {{1}})"
        case "/":
            return "({0} / nullif({1}, 0))"
        case "%" if is_integral(type_):
            # in a wider type, because the least whole number % -1 overflows; HUGEINT takes 94 ns where BIGINT takes 6
            wide = "HUGEINT" if type_ == BIGINT else "BIGINT"
            return f"CAST(CAST({{0}} AS {wide}) % nullif({{1}}, 0) AS {duckdb_type(type_)})"
        case "%":
            return "({0} % nullif({1}, 0))"
        case _:
            return f"({{0}} {operator} {{1}})" if is_float(type_) else f"TRY({{0}} {operator} {{1}})"


def _integral_division(left: Expr, right: Expr, build: Build) -> Expr:
    left, right = promoted("div", left, right)
    if is_float(left.type):
        raise _mismatch("div", left, right)
    if is_decimal(left.type):
        wide = wider_decimal(left.type, right.type)
        left, right = cast(left, wide), cast(right, wide)
        return _built(build, left, right, BIGINT, "TRY_CAST(trunc(TRY({0} // nullif({1}, 0))) AS BIGINT)")
    return _built(build, cast(left, BIGINT), cast(right, BIGINT), BIGINT, "TRY({0} // nullif({1}, 0))")


def _decimal(operator: str, left: Expr, right: Expr, build: Build) -> Expr:
    type_ = decimal_result(operator, left.type, right.type)
    return _built(build, left, right, type_, decimal_template(operator, left.type, right.type, type_))


def decimal_template(operator: str, left: pa.Decimal128Type, right: pa.Decimal128Type, result: pa.Decimal128Type) -> str:
    match operator:
        case "*":
            return _product(left, right, result)
        case "/":
            return _quotient(left, right, result)
    wide = duckdb_type(pa.decimal128(38, max(left.scale, right.scale)))
    second = "nullif({1}, 0)" if operator == "%" else "{1}"
    return f"TRY_CAST(TRY(TRY_CAST({{0}} AS {wide}) {operator} TRY_CAST({second} AS {wide})) AS {duckdb_type(result)})"


def _product(left: pa.Decimal128Type, right: pa.Decimal128Type, result: pa.Decimal128Type) -> str:
    dropped = left.scale + right.scale - result.scale
    if dropped > 0:
        return f"TRY_CAST(millstream_multiply({{0}}, {{1}}, {dropped}, {result.scale}) AS {duckdb_type(result)})"
    # DuckDB multiplies in the wider of the two integers that hold the operands: make that wide enough
    wide = duckdb_type(pa.decimal128(min(38, left.precision + right.precision), left.scale))
    return f"TRY_CAST(TRY(CAST({{0}} AS {wide}) * {{1}}) AS {duckdb_type(result)})"


def _quotient(left: pa.Decimal128Type, right: pa.Decimal128Type, result: pa.Decimal128Type) -> str:
    scale = max(6, left.scale + right.precision + 1)
    if left.precision - left.scale + right.scale + scale <= 38:
        return f"TRY_CAST(TRY(decimal_division({{0}}, nullif({{1}}, 0))) AS {duckdb_type(result)})"
    digits = result.scale + right.scale - left.scale
    return f"TRY_CAST(millstream_divide({{0}}, {{1}}, {digits}, {result.scale}) AS {duckdb_type(result)})"


# --- dates, timestamps, intervals -------------------------------------------------------------


def _with_time(operator: str, left: Expr, right: Expr, build: Build) -> Expr | None:
    """The operators on dates, timestamps and intervals; None if neither operand is one."""
    if not any(is_datetime(operand.type) or is_interval(operand.type) for operand in (left, right)):
        return None
    if VOID in (left.type, right.type):
        left, right = _typed_nulls(operator, left, right)
    if operator in ("+", "-"):
        found = _moved(operator, left, right, build)
        if found is None and operator == "+":
            found = _moved(operator, right, left, lambda a, b: build(b, a), swapped=True)
        if found is None and operator == "-":
            found = _between(left, right, build)
        found = found or _interval_sum(operator, left, right, build)
    elif operator == "div" and left.type == right.type and is_interval(left.type):
        return _built(build, left, right, BIGINT, "CAST(TRY({0} // nullif({1}, 0)) AS BIGINT)")
    else:
        found = _scaled(operator, left, right, build)
    if found is None:
        raise _mismatch(operator, left, right)
    return found


def _days_only(operand: Expr) -> bool:
    return bool(operand.tree.unnest().meta.get(DAYS_ONLY))


def _typed_nulls(operator: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """NULL beside a date, a timestamp or an interval: what Spark takes it for."""
    known = right.type if left.type == VOID else left.type
    if operator == "+":
        wanted = INTERVAL if is_datetime(known) else known
    elif operator in ("-", "div"):
        wanted = known
    else:
        wanted = DOUBLE
    return (cast(left, wanted), right) if left.type == VOID else (left, cast(right, wanted))


def _moved(operator: str, moment: Expr, by: Expr, build: Build, *, swapped: bool = False) -> Expr | None:
    """A date or timestamp plus or minus a length of time."""
    if not is_datetime(moment.type):
        return None
    a, b = ("{1}", "{0}") if swapped else ("{0}", "{1}")
    if moment.type == DATE and by.type in (INT, SMALLINT, TINYINT):
        return _built(build, moment, cast(by, INT), DATE, f"TRY({a} {operator} {b})")
    if by.type == MONTHS:
        shifted = f"TRY({a} {operator} to_months({b}))"
        return _built(build, moment, by, moment.type, f"CAST({shifted} AS DATE)" if moment.type == DATE else shifted)
    if by.type == INTERVAL:
        if moment.type == DATE and _days_only(by):
            return _built(build, moment, by, DATE, f"TRY({a} {operator} CAST({b} // {_DAY_US} AS INTEGER))")
        moment = cast(moment, TIMESTAMP) if moment.type == DATE else moment
        return _built(build, moment, by, moment.type, f"TRY(make_timestamp(epoch_us({a}) {operator} {b}))")
    return None


def _between(left: Expr, right: Expr, build: Build) -> Expr | None:
    """The length of time from `right` to `left`."""
    if left.type == right.type == DATE:
        found = _built(build, left, right, INTERVAL, f"(date_diff('day', {{1}}, {{0}}) * {_DAY_US})")
        found.tree.meta[DAYS_ONLY] = True
        return found
    if is_datetime(left.type) or is_datetime(right.type):
        type_ = common_type(left.type, right.type)
        if type_ == DATE:
            return _between(cast(left, DATE), cast(right, DATE), build)
        if type_ is not None and is_timestamp(type_):
            return _built(build, cast(left, type_), cast(right, type_), INTERVAL, "TRY(epoch_us({0}) - epoch_us({1}))")
    return None


def _interval_sum(operator: str, left: Expr, right: Expr, build: Build) -> Expr | None:
    if left.type != right.type or not is_interval(left.type):
        return None
    found = _built(build, left, right, left.type, f"TRY({{0}} {operator} {{1}})")
    found.tree.meta[DAYS_ONLY] = _days_only(left) and _days_only(right)
    return found


def _scaled(operator: str, left: Expr, right: Expr, build: Build) -> Expr | None:
    """An interval times or divided by a number, rounded half up."""
    if operator == "*" and is_interval(right.type) and not is_interval(left.type):
        return _scaled(operator, right, left, lambda a, b: build(b, a))
    if operator not in ("*", "/") or not is_interval(left.type) or not (is_numeric(right.type) or right.type in (STRING, VOID)):
        return None
    right = cast(right, DOUBLE) if right.type in (STRING, VOID) else right
    to = duckdb_type(left.type)
    if operator == "/":
        if is_integral(right.type):
            return _built(build, left, right, left.type, f"TRY_CAST(millstream_half_up_div({{0}}, {{1}}) AS {to})")
        return _built(build, left, cast(right, DOUBLE), left.type, f"TRY_CAST(round({{0}} / nullif({{1}}, 0)) AS {to})")
    if is_integral(right.type):
        return _built(build, left, right, left.type, f"TRY_CAST(TRY({{0}} * {{1}}) AS {to})")
    if is_decimal(right.type) and right.type.precision <= 18:
        return _built(build, left, right, left.type, f"TRY_CAST(TRY(CAST({{0}} AS DECIMAL(20,0)) * {{1}}) AS {to})")  # rounds half up
    return _built(build, left, cast(right, DOUBLE), left.type, f"TRY_CAST(round({{0}} * {{1}}) AS {to})")
