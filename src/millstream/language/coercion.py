"""Which types meet in which: Spark SQL's ANSI rules, over Arrow types.

    common_type      what two branches of a CASE, or two sides of a comparison, become
    widened          the same for any number of types
    accepts          whether a function's parameter takes a type, and as what
    decimal rules    precision and scale of +, -, *, /, %

Nothing here touches a syntax tree: types in, types out.  How a cast is computed is `scalar_casts`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types as is_

from millstream.core.schema import INTERVAL, TIMESTAMP, TIMESTAMP_NTZ, type_name
from millstream.plan.duckdb_sql import MONTHS

BOOLEAN, INT, BIGINT, FLOAT, DOUBLE = pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64()
TINYINT, SMALLINT = pa.int8(), pa.int16()
STRING, BINARY, DATE, VOID = pa.string(), pa.binary(), pa.date32(), pa.null()

INTEGRAL = (TINYINT, SMALLINT, INT, BIGINT)
MAX_PRECISION = 38
_LEAST_SCALE_KEPT = 6
_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}


def is_decimal(type_: pa.DataType) -> bool:
    return bool(is_.is_decimal(type_))


def is_integral(type_: pa.DataType) -> bool:
    return type_ in INTEGRAL


def is_float(type_: pa.DataType) -> bool:
    return type_ in (FLOAT, DOUBLE)


def is_numeric(type_: pa.DataType) -> bool:
    return is_integral(type_) or is_float(type_) or is_decimal(type_)


def is_timestamp(type_: pa.DataType) -> bool:
    return type_ in (TIMESTAMP, TIMESTAMP_NTZ)


def is_datetime(type_: pa.DataType) -> bool:
    return type_ == DATE or is_timestamp(type_)


def is_interval(type_: pa.DataType) -> bool:
    return type_ in (INTERVAL, MONTHS)


def is_array(type_: pa.DataType) -> bool:
    return bool(is_.is_list(type_))


def is_map(type_: pa.DataType) -> bool:
    return bool(is_.is_map(type_))


def is_struct(type_: pa.DataType) -> bool:
    return bool(is_.is_struct(type_))


def is_nested(type_: pa.DataType) -> bool:
    return is_array(type_) or is_map(type_) or is_struct(type_)


def is_atomic(type_: pa.DataType) -> bool:
    return not is_nested(type_) and type_ != VOID


def holds(type_: pa.DataType, wanted: pa.DataType) -> bool:
    """`type_` is `wanted`, or has it somewhere inside."""
    if is_array(type_):
        return holds(type_.value_type, wanted)
    if is_map(type_):
        return holds(type_.key_type, wanted) or holds(type_.item_type, wanted)
    if is_struct(type_):
        return any(holds(field.type, wanted) for field in type_)
    return bool(type_ == wanted)


def is_orderable(type_: pa.DataType) -> bool:
    """`<` and min/max work on it; a map has no order, nor has anything that holds one."""
    if is_map(type_):
        return False
    if is_array(type_):
        return is_orderable(type_.value_type)
    if is_struct(type_):
        return all(is_orderable(field.type) for field in type_)
    return True


def named(type_: pa.DataType) -> str:
    """The type as an error message says it."""
    return "INTERVAL YEAR TO MONTH" if type_ == MONTHS else type_name(type_)


# --- decimals ---------------------------------------------------------------------------------


def decimal_of(type_: pa.DataType) -> pa.Decimal128Type:
    """The decimal that holds every value of a whole-number type; a decimal is itself."""
    return type_ if is_decimal(type_) else pa.decimal128(_DIGITS[type_], 0)


def bounded(precision: int, scale: int) -> pa.Decimal128Type:
    """At most 38 digits: digits behind the point give way first, down to 6 of them."""
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _LEAST_SCALE_KEPT)))


def wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.Decimal128Type:
    """The decimal that holds the values of both, as far as 38 digits go."""
    left, right = decimal_of(left), decimal_of(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale <= MAX_PRECISION:
        return pa.decimal128(whole + scale, scale)
    return pa.decimal128(MAX_PRECISION, max(0, min(scale, MAX_PRECISION - whole)))


def decimal_result(operator: str, left: pa.Decimal128Type, right: pa.Decimal128Type) -> pa.Decimal128Type:
    """Spark's result type of decimal arithmetic."""
    (p1, s1), (p2, s2) = (left.precision, left.scale), (right.precision, right.scale)
    scale = max(s1, s2)
    match operator:
        case "+" | "-":
            return bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return bounded(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(6, s1 + p2 + 1)
            return bounded(p1 - s1 + s2 + scale, scale)
        case _:
            return bounded(min(p1 - s1, p2 - s2) + scale, scale)


# --- two types become one ---------------------------------------------------------------------


def common_type(left: pa.DataType, right: pa.DataType, *, from_text: bool = True) -> pa.DataType | None:
    """The type in which values of both can meet; None if there is none.  Strings follow the other side, if `from_text`."""
    if left == right:
        return left
    if left == VOID or right == VOID:
        return right if left == VOID else left
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if is_datetime(left) and is_datetime(right):
        return TIMESTAMP if TIMESTAMP in (left, right) else TIMESTAMP_NTZ
    if STRING in (left, right):
        return _with_string(right if left == STRING else left) if from_text else None
    return _common_nested(left, right, from_text=from_text)


def widened(types: Iterable[pa.DataType], *, from_text: bool = True) -> pa.DataType | None:
    """The common type of all.  Strings come last, as in Spark: they follow what the others agree on."""
    result: pa.DataType | None = VOID
    for type_ in sorted(types, key=lambda t: t == STRING):
        result = common_type(result, type_, from_text=from_text)
        if result is None:
            return None
    return result


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_decimal(left) or is_decimal(right):
        return DOUBLE if is_float(left) or is_float(right) else wider_decimal(left, right)
    if is_integral(left) and is_integral(right):
        return max(left, right, key=INTEGRAL.index)
    return DOUBLE


def _with_string(other: pa.DataType) -> pa.DataType | None:
    if is_integral(other):
        return BIGINT
    if is_numeric(other):
        return DOUBLE
    return other if is_atomic(other) else None


def _common_nested(left: pa.DataType, right: pa.DataType, *, from_text: bool) -> pa.DataType | None:
    if is_array(left) and is_array(right):
        item = common_type(left.value_type, right.value_type, from_text=from_text)
        return pa.list_(item) if item is not None else None
    if is_map(left) and is_map(right):
        key = common_type(left.key_type, right.key_type, from_text=from_text)
        value = common_type(left.item_type, right.item_type, from_text=from_text)
        return pa.map_(key, value) if key is not None and value is not None else None
    if is_struct(left) and is_struct(right) and [f.name.lower() for f in left] == [f.name.lower() for f in right]:
        types = [common_type(a.type, b.type, from_text=from_text) for a, b in zip(left, right, strict=True)]
        if all(type_ is not None for type_ in types):
            return pa.struct([(field.name, type_) for field, type_ in zip(left, types, strict=True)])
    return None


# --- parameters -------------------------------------------------------------------------------


def implicitly(source: pa.DataType, target: pa.DataType) -> bool:
    """A function that wants `target` takes `source` and casts it."""
    if source in (target, VOID):
        return True
    if source == STRING:
        return is_atomic(target)
    if target == STRING:
        return is_atomic(source)
    if is_numeric(source) and is_numeric(target):
        return True
    if is_datetime(source) and is_datetime(target):
        return True
    if is_array(source) and is_array(target):
        return implicitly(source.value_type, target.value_type)
    if is_map(source) and is_map(target):
        return implicitly(source.key_type, target.key_type) and implicitly(source.item_type, target.item_type)
    return False
