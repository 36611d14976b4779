"""Literals: the type that Spark gives to a number or an interval as written, and the value as DuckDB reads it."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.core.instant import UNITS
from millstream.core.schema import INTERVAL, type_name
from millstream.language.coercion import BIGINT, BINARY, BOOLEAN, DOUBLE, INT, MAX_PRECISION, STRING, VOID
from millstream.plan.constant_folding import folded
from millstream.plan.duckdb_sql import MONTHS, duckdb_type, in_template, lowered, text
from millstream.plan.expression import Expr

DAYS_ONLY = "days_only"
_LENGTH = "length"
"""Meta key: an interval written in whole days, so that a DATE plus it is a DATE again."""

_MICROS = {**UNITS, "WEEK": 7 * UNITS["DAY"]}
_MONTHS = {"YEAR": 12, "MONTH": 1}


def literal(node: exp.Expr) -> Expr:
    """A string, number, boolean, NULL or X'..' of the syntax tree."""
    match node:
        case exp.Null():
            return Expr(lowered(exp.Null(), "CAST(NULL AS INTEGER)"), VOID)
        case exp.Boolean():
            return Expr(lowered(exp.Boolean(this=node.this), "TRUE" if node.this else "FALSE"), BOOLEAN)
        case exp.HexString():
            return _binary(str(node.this))
        case exp.RawString():
            return string(str(node.this))
        case exp.Concat():
            return string(_adjacent(node))
        case exp.Literal() if node.is_string:
            return string(str(node.this))
    return number(str(node.this))


def string(value: str) -> Expr:
    return Expr(lowered(exp.Literal.string(value), in_template(text(value))), STRING)


def integer(value: int, type_: pa.DataType = INT) -> Expr:
    return Expr(_signed(str(value), f"CAST({value} AS {duckdb_type(type_)})"), type_)


def number(written: str) -> Expr:
    """`1` is INT, `3000000000` BIGINT, `1.5` DECIMAL(2,1), `1e3` DOUBLE; a leading minus belongs to the literal."""
    type_ = number_type(written)
    return Expr(
        _signed(written, written if type_ == INT and written.isdigit() else f"CAST({text(written)} AS {duckdb_type(type_)})"), type_
    )


def _signed(written: str, template: str) -> exp.Expr:
    digits = exp.Literal(this=written.removeprefix("-"), is_string=False)
    return lowered(exp.Neg(this=digits) if written.startswith("-") else digits, template)


def number_type(written: str) -> pa.DataType:
    if re.search(r"[eE]", written):
        return DOUBLE
    try:
        value = Decimal(written)
    except InvalidOperation:
        raise TypeMismatch(f"{written} is not a number") from None
    if "." not in written:
        for type_, bits in ((INT, 31), (BIGINT, 63)):
            if -(2**bits) <= int(value) < 2**bits:
                return type_
    return decimal_type(value, written)


def decimal_type(value: Decimal, written: str) -> pa.Decimal128Type:
    """The smallest decimal that holds the number as written."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits), scale)
    if precision > MAX_PRECISION:
        raise TypeMismatch(f"{written} has more than {MAX_PRECISION} digits", hint="Write it with an exponent to make it a DOUBLE.")
    return pa.decimal128(precision, scale)


def whole_number(operand: Expr) -> int | None:
    """The value, if the operand is a whole number written in the query."""
    tree, sign = operand.tree.unnest(), 1
    if isinstance(tree, exp.Neg):
        tree, sign = tree.this, -1
    if isinstance(tree, exp.Literal) and not tree.is_string and re.fullmatch(r"\d+", str(tree.this)):
        return sign * int(tree.this)
    return None


def constant_text(operand: Expr) -> str | None:
    """The value, if the operand is a string written in the query."""
    tree = operand.tree.unnest()
    return str(tree.this) if isinstance(tree, exp.Literal) and tree.is_string else None


def constant_truth(operand: Expr) -> bool | None:
    """The value, if the operand is TRUE or FALSE."""
    tree = operand.tree.unnest()
    return bool(tree.this) if isinstance(tree, exp.Boolean) else None


def readable(value: Expr, written: str) -> Expr:
    """A literal of a type, such as DATE '2020-01-31', unless its text is none: a cast would be NULL, a literal is a mistake."""
    if not isinstance(folded(value).tree, exp.Null):
        return value
    shapes = {"DATE": "DATE '2024-01-31'", "TIMESTAMP": "TIMESTAMP '2024-01-31T12:00:00Z'"}
    name = type_name(value.type)
    hint = f"Write it as {shapes[name]}." if name in shapes else None
    raise TypeMismatch(f"'{written[:60]}' is no {name}", hint=hint)


def _binary(digits: str) -> Expr:
    even = digits if len(digits) % 2 == 0 else "0" + digits
    escaped = "".join(f"\\x{even[i : i + 2].upper()}" for i in range(0, len(even), 2))
    return Expr(lowered(exp.HexString(this=even), f"'{escaped}'::BLOB"), BINARY)


def _adjacent(node: exp.Concat) -> str:
    """Strings that stand side by side are one string: `'a' 'b'` is `ab`."""
    parts = node.expressions
    if not all(isinstance(part, exp.Literal) and part.is_string for part in parts):
        raise TypeMismatch("only string literals can stand side by side")
    return "".join(str(part.this) for part in parts)


# --- intervals --------------------------------------------------------------------------------


def interval(node: exp.Interval) -> Expr:
    """`INTERVAL '5' MINUTE`, `INTERVAL 5 MINUTES`, `INTERVAL '1 02:03:04' DAY TO SECOND`, `INTERVAL '1-2' YEAR TO MONTH`."""
    written = node.this.name if node.this is not None else ""
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _span(node, written, unit.this.name.upper(), unit.expression.name.upper())
    if unit is None:
        return _in_words(node, written)
    return _counted(node, [(written, unit.name)])


def _in_words(node: exp.Interval, written: str) -> Expr:
    """`INTERVAL '1 day 2 hours'`."""
    parts = re.findall(r"([+-]?\s*\d+(?:\.\d+)?)\s*([a-zA-Z]+)", written)
    if not parts or re.sub(r"([+-]?\s*\d+(?:\.\d+)?)\s*([a-zA-Z]+)", "", written).strip():
        raise TypeMismatch(f"'{written}' is not an interval", hint="Write for example INTERVAL '5' MINUTE.")
    return _counted(node, [(count.replace(" ", ""), unit) for count, unit in parts])


def _counted(node: exp.Interval, parts: list[tuple[str, str]]) -> Expr:
    units = [unit.upper().removesuffix("S") for _, unit in parts]
    for unit in units:
        if unit not in _MICROS and unit not in _MONTHS:
            raise TypeMismatch(f'"{unit}" is not a unit of time')
    if all(unit in _MONTHS for unit in units):
        return _interval(node, sum(int(_count(count)) * _MONTHS[unit] for (count, _), unit in zip(parts, units, strict=True)), MONTHS)
    if any(unit in _MONTHS for unit in units):
        raise NotSupported("an interval cannot mix months with days", hint="Add the two intervals one after the other.")
    micros = sum(_count(count) * _MICROS[unit] for (count, _), unit in zip(parts, units, strict=True))
    return _interval(node, int(micros), INTERVAL, days_only=set(units) <= {"DAY", "WEEK"})


def _count(written: str) -> Decimal:
    try:
        return Decimal(written)
    except InvalidOperation:
        raise TypeMismatch(f"'{written}' is not a number of units") from None


def _span(node: exp.Interval, written: str, first: str, last: str) -> Expr:
    if first == "YEAR" and last == "MONTH":
        match = re.fullmatch(r"([+-]?)(\d+)-(\d+)", written.strip())
        if match:
            return _interval(node, int(match[1] + "1") * (int(match[2]) * 12 + int(match[3])), MONTHS)
    order = ["DAY", "HOUR", "MINUTE", "SECOND"]
    if first in order and last in order and order.index(first) < order.index(last):
        return _interval(node, _clock(written.strip(), order[order.index(first) : order.index(last) + 1]), INTERVAL)
    raise TypeMismatch(f"'{written}' is not an interval {first} TO {last}")


def _clock(written: str, units: list[str]) -> int:
    pieces = re.fullmatch(r"([+-]?)(\d+(?:[ :]\d+)*(?:\.\d{1,9})?)", written)
    values = re.split(r"[ :]", pieces[2]) if pieces else []
    if pieces is None or len(values) != len(units):
        raise TypeMismatch(f"'{written}' is not an interval {units[0]} TO {units[-1]}")
    micros = sum(Decimal(value) * UNITS[unit] for value, unit in zip(values, units, strict=True))
    return int(micros) * int(pieces[1] + "1")


def _interval(node: exp.Interval, value: int, type_: pa.DataType, *, days_only: bool = False) -> Expr:
    tree = lowered(exp.Interval(this=node.this.copy(), unit=unit.copy() if (unit := node.args.get("unit")) else None),
                   f"CAST({value} AS {duckdb_type(type_)})")  # fmt: skip
    tree.meta[DAYS_ONLY] = days_only
    tree.meta[_LENGTH] = value
    return Expr(tree, type_)


def interval_us(node: exp.Interval) -> int | None:
    """The length of an interval in microseconds; None if it is one in months."""
    found = interval(node)
    return int(found.tree.meta[_LENGTH]) if found.type == INTERVAL else None
