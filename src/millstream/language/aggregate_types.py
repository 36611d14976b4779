"""The types of aggregates, by Spark SQL's rules.

aggregate_type           what an aggregate gives
aggregate_argument_cast  what its argument must be cast to first
refuse_nested            what it cannot keep
"""

from __future__ import annotations

import pyarrow as pa

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.language.coercion import (
    BIGINT,
    DOUBLE,
    MAX_PRECISION,
    STRING,
    VOID,
    is_atomic,
    is_datetime,
    is_decimal,
    is_float,
    is_integral,
    is_nested,
    is_numeric,
    named,
)

_ADDED_UP = frozenset(["sum", "avg"])
_AS_DOUBLES = frozenset(["var_samp", "var_pop", "stddev_samp", "stddev_pop", "percentile"])
_KEPT = frozenset(["first", "last", "min_by", "max_by", "mode"])
_COLLECTED = frozenset(["collect_list", "collect_ordered", "collect_set"])
_NESTED_HINT = "Take a part of it, as in x[0] or x.field, or its text, CAST(x AS STRING)."


def aggregate_argument_cast(function: str, type_: pa.DataType) -> pa.DataType | None:
    """The type that the argument of an aggregate is cast to before it is added up; None: as it is."""
    if function.lower() in _ADDED_UP and type_ in (STRING, VOID):
        return DOUBLE
    if function.lower() in _AS_DOUBLES and type_ != DOUBLE and (is_numeric(type_) or type_ in (STRING, VOID)):
        return DOUBLE
    return None


def aggregate_type(function: str, argument: pa.DataType | None) -> pa.DataType:
    """The type of function(argument); `argument` is None for count(*)."""
    function = function.lower()
    if function == "count":
        return BIGINT
    if argument is None:
        raise TypeMismatch(f"{function} takes an argument", hint="Only count(*) counts rows.")
    type_ = _type(function, argument)
    if type_ is None:
        hint = _NESTED_HINT if is_nested(argument) else None
        raise TypeMismatch(f"{function} cannot be computed over {named(argument)}", hint=hint)
    return type_


def refuse_nested(written: str, function: str, argument: pa.DataType) -> None:
    """Aggregates that keep values keep them as keys that have an order, which arrays, maps and structs do not have yet."""
    if function in _KEPT | _COLLECTED and is_nested(argument):
        raise NotSupported(f"{written} over {named(argument)} is not supported in a continuous query yet", hint=_NESTED_HINT)


def _type(function: str, argument: pa.DataType) -> pa.DataType | None:
    if function in ("min", "max"):
        return argument if is_atomic(argument) or argument == VOID else None
    if function in _KEPT:
        return argument
    if function in _COLLECTED:
        return pa.list_(argument)
    if function in ("bit_and", "bit_or", "bit_xor"):
        return argument if is_integral(argument) else None
    if function == "percentile_approx":
        return argument if is_numeric(argument) or is_datetime(argument) else None
    if function in _AS_DOUBLES:
        return DOUBLE if (aggregate_argument_cast(function, argument) or argument) == DOUBLE else None
    if function in _ADDED_UP:
        return _summed(function, aggregate_argument_cast(function, argument) or argument)
    return None


def _summed(function: str, argument: pa.DataType) -> pa.DataType | None:
    if is_decimal(argument):
        if function == "sum":
            return pa.decimal128(min(MAX_PRECISION, argument.precision + 10), argument.scale)
        return pa.decimal128(min(MAX_PRECISION, argument.precision + 4), min(MAX_PRECISION, argument.scale + 4))
    if is_float(argument):
        return DOUBLE
    if is_integral(argument):
        return BIGINT if function == "sum" else DOUBLE
    return None
