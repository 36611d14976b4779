"""Values that users give, as a column of the declared type.

A value is taken if the column can hold what it says: whole numbers wherever they fit, any number as the nearest DOUBLE,
instants down to the microsecond.  A fraction is never cut off to fit, and what does not fit is named.  What Arrow would hold, or
make of it, and SQL's type does not have is looked for in value_ranges.py.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Integral
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.errors import MillstreamError, TypeMismatch
from millstream.core.instant import to_micros
from millstream.core.schema import Field, type_name
from millstream.core.value_ranges import TIME_OF_DAY, TOO_GREAT, YEARS, refused, replaced, widened
from millstream.core.value_text import value_text

REFUSALS = (pa.ArrowException, MillstreamError, ArithmeticError, ValueError, TypeError)
"""What Arrow, and we, raise for a value that does not fit."""

_FEW = 8
"""Values among which the bad ones are looked for one by one: to halve so few costs more looks than it saves."""

_TOO_FINE = "it is finer than a microsecond"
_CONVERSION_REFUSALS = (pa.ArrowException, TypeMismatch)


# --- Python's values --------------------------------------------------------------------------


def array_of(values: list[Any], field: Field, target: str) -> pa.Array:
    try:
        return _packed(values, field.type)
    except REFUSALS as error:
        bad, reason = next(((value, why) for value in values if (why := _refusal([value], field.type))), (values, error))
        raise _mismatch(field, target, shown(bad), reason) from error


def misfits(column: list[Any] | pa.ChunkedArray, field: Field, target: str) -> dict[int, str]:
    """Where values do not fit, and why; found by halving, so what fits is looked at in large pieces."""
    if isinstance(column, list):
        places = bad_places(len(column), lambda low, high: _refusal(column[low:high], field.type) is None)
        return {i: _misfit(column[i], field, target) for i in places}
    if not _converts(pa.chunked_array([pa.nulls(0, column.type)]), field.type):  # no value of that type would fit: a mistake of the column
        cast_column(column, field, target)
    places = bad_places(len(column), lambda low, high: _converts(_piece(column, low, high), field.type, in_range=False))
    kept = np.delete(np.arange(len(column)), places)
    beyond = out_of_range(column.take(kept) if places else column, field.type)
    reasons = dict.fromkeys(places) | {int(kept[i]): TypeMismatch(reason) for i, reason in beyond.items()}
    named = _named(column.type)
    return {i: _mismatch(field, target, f"{_shown_at(column, i)} ({named})", reason).message for i, reason in reasons.items()}


def _misfit(value: Any, field: Field, target: str) -> str:
    return _mismatch(field, target, shown(value), _refusal([value], field.type)).message


def bad_places(count: int, fits: Callable[[int, int], bool]) -> list[int]:
    """The places in 0 ... count that do not fit by themselves, in order; `fits` says whether all of [low, high) do."""
    bad, pieces = [], [(0, count)]
    while pieces:
        low, high = pieces.pop()
        if low == high or fits(low, high):
            continue
        if high - low == 1:
            bad.append(low)
            continue
        step = 1 if high - low <= _FEW else (high - low + 1) // 2
        pieces += [(start, min(start + step, high)) for start in range(low, high, step)][::-1]
    return bad


def _packed(values: list[Any], type_: pa.DataType) -> pa.Array:
    if not set(map(type, values)) <= _taken_as_they_are(type_):
        values = _plain(values, type_)
    wide = widened(type_)
    given = pa.array(values, wide)
    taken = given if wide == type_ else given.cast(type_, safe=False)
    _check(given, taken)
    return taken


def _check(given: pa.Array, taken: pa.Array) -> None:
    for _, reason in refused(given, taken):
        raise TypeMismatch(reason)


def _refusal(values: list[Any], type_: pa.DataType) -> Exception | None:
    try:
        _packed(values, type_)
    except REFUSALS as error:
        return error
    return None


def _taken_as_they_are(type_: pa.DataType) -> set[type]:
    """The types of values that Arrow makes nothing else of: what is many goes there without a loop."""
    if pa.types.is_integer(type_):
        return {int, NoneType}
    if pa.types.is_floating(type_):
        return {float, NoneType}
    return {str, bool, bytes, NoneType} if not pa.types.is_nested(type_) else {NoneType}


def _plain(values: Iterable[Any], type_: pa.DataType) -> list[Any]:
    """The values as Arrow takes them without loss; ValueError or the like if one does not fit."""
    convert = next((convert for applies, convert in _CONVERSIONS if applies(type_)), _as_it_is)
    return [None if value is None else convert(_unboxed(value), type_) for value in values]


def _unboxed(value: Any) -> Any:
    """A number of numpy's as one of Python's."""
    return value.item() if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)) else value


def _whole(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, (float, Decimal)):
        if value != int(value):
            raise ValueError(f"{value} has a fraction")
        return int(value)
    return value


def _double(value: Any, type_: pa.DataType) -> Any:
    if not isinstance(value, (int, Decimal, np.longdouble)):
        return value
    nearest = float(value)
    if math.isinf(nearest) and nearest != value:
        raise TypeMismatch(TOO_GREAT)
    return nearest


def _instant(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else to_micros(int(_in_unit(value, "us", None).astype(np.int64)))
    if isinstance(value, dt.datetime) and value != value:  # pandas' NaT
        return None
    return to_micros(value)


def _length(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else int(_in_unit(value, "us", _TOO_FINE).astype(np.int64))
    if isinstance(value, dt.timedelta) and getattr(value, "nanoseconds", False):  # those of pandas have them
        raise TypeMismatch(_TOO_FINE)
    if isinstance(value, (dt.timedelta, Integral)):
        return value
    raise ValueError(f"{value!r} is no length of time")


def _date(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _in_unit(value, "D", TIME_OF_DAY).item()
    if isinstance(value, (float, Decimal)):
        raise ValueError(f"{value!r} is no date")
    if isinstance(value, dt.datetime) and value != value:  # pandas' NaT
        return None
    if isinstance(value, dt.datetime) and (value.time() != dt.time() or getattr(value, "nanosecond", False)):
        raise TypeMismatch(TIME_OF_DAY)
    return value


def _in_unit(value: Any, unit: str, cut: str | None) -> Any:
    """A time of numpy's in another unit: numpy itself counts modulo 2**64, and cuts off what is too small for the unit.  `cut` says
    what that is; None: it may go."""
    there = value.astype(f"{value.dtype.kind}8[{unit}]")
    if there.astype(value.dtype) == value:
        return there
    if np.can_cast(value.dtype, there.dtype):  # from a greater unit to a smaller one
        raise TypeMismatch(YEARS if value.dtype.kind == "M" else TOO_GREAT)
    if cut is not None:
        raise TypeMismatch(cut)
    return there


def _as_it_is(value: Any, type_: pa.DataType) -> Any:
    return value


def _list(value: Any, type_: pa.DataType) -> Any:
    return _plain(value, type_.value_type) if isinstance(value, (list, tuple, np.ndarray)) else value


def _map(value: Any, type_: pa.DataType) -> Any:
    pairs = list(value.items() if isinstance(value, Mapping) else value)
    keys, items = [key for key, _ in pairs], [item for _, item in pairs]
    return list(zip(_plain(keys, type_.key_type), _plain(items, type_.item_type), strict=True))


def _struct(value: Any, type_: pa.DataType) -> Any:
    """A tuple, whatever it was: Arrow takes tuples and dicts, but not both in one column."""
    if isinstance(value, Mapping):
        for name in value:
            if name not in type_.names:
                raise TypeMismatch(f"there is no field {value_text(name)}")
        value = tuple(value.get(field.name) for field in type_)
    if not isinstance(value, tuple) or len(value) != type_.num_fields:
        raise ValueError(f"{value_text(value)} is no struct")
    return tuple(_plain([item], field.type)[0] for item, field in zip(value, type_, strict=True))


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _double),
    (pa.types.is_timestamp, _instant),
    (pa.types.is_duration, _length),
    (pa.types.is_date, _date),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
    (pa.types.is_struct, _struct),
)


# --- Arrow's columns --------------------------------------------------------------------------


def cast_column(column: pa.ChunkedArray, field: Field, target: str) -> pa.ChunkedArray:
    try:
        converted = _converted(column, field.type)
        _check_all(column, converted)
        return converted
    except _CONVERSION_REFUSALS as error:
        bad = _first_refused(column, field.type)
        raise _mismatch(field, target, f"{bad} ({_named(column.type)})" if bad else _named(column.type), error) from error


def out_of_range(column: pa.ChunkedArray, type_: pa.DataType) -> dict[int, str]:
    """Where a column that Arrow casts to the type without an error holds what the type does not have, and why."""
    found, start = dict[int, str](), 0
    for chunk in column.chunks:
        for places, reason in refused(chunk, _cast(chunk, type_)):
            found |= dict.fromkeys((places + start).tolist(), reason)
        start += len(chunk)
    return found


def _converted(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    converted = pa.chunked_array([_cast(chunk, type_) for chunk in column.chunks], type_)
    if _holds_text(type_):
        converted.validate(full=True)  # Arrow does not look whether text is UTF-8 before somebody reads it
    return converted


def _check_all(column: pa.ChunkedArray, converted: pa.ChunkedArray) -> None:
    for given, taken in zip(column.chunks, converted.chunks, strict=True):
        _check(given, taken)


def _holds_text(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_holds_text(field.type) for field in type_)
    if pa.types.is_map(type_):
        return _holds_text(type_.key_type) or _holds_text(type_.item_type)
    return bool(pa.types.is_string(type_) or (pa.types.is_nested(type_) and _holds_text(type_.value_type)))


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_:
        return column
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(type_):
        column = column.cast(pa.timestamp(column.type.unit))  # the same instants; what had no zone is UTC
        if column.type.unit == "ns":
            column = pc.floor_temporal(column, unit="microsecond")
        return column.cast(pa.timestamp("us")).cast(type_)
    return column.cast(type_, safe=not pa.types.is_floating(type_))  # a DOUBLE is the nearest one, as in Spark


def _first_refused(column: pa.ChunkedArray, type_: pa.DataType) -> str | None:
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if _converts(_piece(column, low, middle), type_):
            low = middle
        else:
            high = middle
    return None if low == high else _shown_at(column, low)


def _piece(column: pa.ChunkedArray, low: int, high: int) -> pa.ChunkedArray:
    """Copied if nested: a slice of Arrow's still holds the inner values of all the others, and is judged by them too."""
    return column.take(pa.array(np.arange(low, high))) if pa.types.is_nested(column.type) else column.slice(low, high - low)


def _shown_at(column: pa.ChunkedArray, place: int) -> str:
    return shown(value_at(column, place))


def value_at(column: pa.ChunkedArray, place: int) -> Any:
    """As Python has it; text that is none is bytes."""
    value = column[place]
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return _as_bytes(column.slice(place, 1))
    except (ValueError, OverflowError):  # nanoseconds and far years, which Python's datetime does not have
        if pa.types.is_nested(value.type):
            return " ".join(column.slice(place, 1).to_string().split())
        return f"{value.value} as {value.type}"


def _as_bytes(column: pa.ChunkedArray) -> Any:
    """The one value of the column, with bytes for its texts."""
    try:
        return column.cast(replaced(column.type, pa.string(), pa.binary()))[0].as_py()
    except (pa.ArrowException, UnicodeDecodeError):
        return str(column.type)


def _converts(column: pa.ChunkedArray, type_: pa.DataType, *, in_range: bool = True) -> bool:
    """`in_range`: into values that the type has."""
    try:
        converted = _converted(column, type_)
        if in_range:
            _check_all(column, converted)
    except _CONVERSION_REFUSALS:
        return False
    return True


# --- errors -----------------------------------------------------------------------------------


def _mismatch(field: Field, target: str, given: str, reason: Exception | None = None) -> TypeMismatch:
    """A reason of our own is told; Arrow's words say less than the value itself."""
    told, hint = (f": {reason.message}", reason.hint) if isinstance(reason, MillstreamError) else ("", None)
    return TypeMismatch(
        f'column "{field.name}" of "{target}" takes {type_name(field.type)}, not {given}{told}',
        hint=f"{hint or _what_fits(field.type)} Nothing was inserted.",
    )


def shown(value: Any) -> str:
    text = value_text(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _named(type_: pa.DataType) -> str:
    try:
        return type_name(type_)
    except ValueError:
        return str(type_)


def _what_fits(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        most = 2 ** (type_.bit_width - 1)
        return f"It holds whole numbers from {-most} to {most - 1}."
    if pa.types.is_decimal(type_):
        return f"It holds a Decimal or an int with {type_.precision - type_.scale} digits before the point and {type_.scale} behind it."
    return next((hint for applies, hint in _HINTS if applies(type_)), "Give a value of that type.")


_HINTS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_floating, "It holds numbers."),
    (pa.types.is_timestamp, "It holds datetimes (naive ones are UTC), and integers as microseconds since 1970, of the years 1 to 9999."),
    (pa.types.is_duration, "It holds timedeltas, and integers as microseconds."),
    (pa.types.is_date, "It holds dates, and integers as days since 1970, of the years 1 to 9999."),
    (pa.types.is_string, "It holds strings."),
    (pa.types.is_binary, "It holds bytes."),
    (pa.types.is_boolean, "It holds True and False."),
    (pa.types.is_list, "It holds lists."),
    (pa.types.is_map, "It holds dicts, and lists of pairs with each key once."),
    (pa.types.is_struct, "It holds dicts with the names of its fields."),
)
