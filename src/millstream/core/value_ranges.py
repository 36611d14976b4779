"""Values that Arrow's types hold and SQL's do not, whole columns at once.

Arrow has days and instants of any year, maps with a key twice, decimals with more digits than their type, and casts that drop what
does not fit: a number too great for a FLOAT becomes infinite, a time of day is cut off a date, a field that a struct does not have is
left out.  Spark, Python and most sinks fail on the first ones, and the others are not what the user said.

Here `given` is a column as it came, `taken` what Arrow's cast made of it, of the same length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.instant import BEGINNING, LAST, UNITS

Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.int64] | npt.NDArray[np.uint64]

YEARS = "it is outside the years 1 to 9999"
TOO_GREAT = "it is too great"
TIME_OF_DAY = "it has a time of day"
_DAYS = BEGINNING // UNITS["DAY"], LAST // UNITS["DAY"]


def widened(type_: pa.DataType) -> pa.DataType:
    """The type with DOUBLE for each FLOAT in it: what still tells a great number from an infinite one."""
    return replaced(type_, pa.float32(), pa.float64())


def replaced(type_: pa.DataType, old: pa.DataType, new: pa.DataType) -> pa.DataType:
    """The type with `new` for each `old` in it."""
    if type_ == old:
        return new
    if pa.types.is_map(type_):
        return pa.map_(replaced(type_.key_type, old, new), replaced(type_.item_type, old, new))
    if pa.types.is_list(type_):
        return pa.list_(replaced(type_.value_type, old, new))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, replaced(field.type, old, new)) for field in type_])
    return type_


def refused(given: pa.Array, taken: pa.Array) -> Iterator[tuple[Places, str]]:
    """Which places hold, at whatever depth, what the type of `taken` does not have, and why; nothing for good columns."""
    type_ = taken.type
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if pa.types.is_struct(type_):
        yield from _in_structs(given, taken)
    elif pa.types.is_map(type_):
        yield from _in_lists(_as_list(given) if pa.types.is_map(given.type) else _as_list(taken), _as_list(taken))
        yield from _places(_with_doubled_keys(_as_list(taken)), "it has a key twice")
    elif pa.types.is_list(type_):
        yield from _in_lists(given if _is_list(given.type) else taken, taken)
    elif pa.types.is_date(type_):
        yield from _places(_beyond(taken.cast(pa.int32()), *_DAYS), YEARS)
        yield from _places(_with_time_of_day(given), TIME_OF_DAY)
    elif pa.types.is_timestamp(type_):
        yield from _places(_beyond(taken.cast(pa.int64()), BEGINNING, LAST), YEARS)
    elif pa.types.is_floating(type_):
        yield from _places(_overflown(given, taken), TOO_GREAT)
    elif pa.types.is_decimal(type_):
        yield from _places(_with_too_many_digits(taken), f"it has more than {type_.precision} digits")


def _places(places: Places, reason: str) -> Iterator[tuple[Places, str]]:
    if len(places):
        yield places, reason


def _where(is_bad: pa.Array) -> Places:
    return np.flatnonzero(is_bad.fill_null(False).to_numpy(zero_copy_only=False))


# --- inside of others -------------------------------------------------------------------------


def _in_structs(given: pa.Array, taken: pa.Array) -> Iterator[tuple[Places, str]]:
    fields = dict(zip(taken.type.names, taken.flatten(), strict=True))
    given_fields = dict(zip(given.type.names, given.flatten(), strict=True)) if pa.types.is_struct(given.type) else fields
    for name, column in fields.items():
        yield from refused(given_fields.get(name, column), column)
    for name in given_fields.keys() - fields.keys():
        yield from _places(_where(given_fields[name].is_valid()), f'there is no field "{name}"')


def _in_lists(given: pa.Array, taken: pa.Array) -> Iterator[tuple[Places, str]]:
    for places, reason in refused(given.flatten(), taken.flatten()):
        yield np.unique(_parents(taken)[places]), reason


def _is_list(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)
    return any(is_kind(type_) for is_kind in kinds)


def _as_list(maps: pa.Array) -> pa.Array:
    return maps.cast(pa.list_(pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])))


def _parents(lists: pa.Array) -> Places:
    """Of the values that `flatten` gives: a list that is NULL has none, even where Arrow keeps some for it."""
    return np.repeat(np.arange(len(lists)), pc.list_value_length(lists).fill_null(0).to_numpy())


def _with_doubled_keys(maps: pa.Array) -> Places:
    keys = maps.flatten().field("key")
    if len(keys) == 0:
        return np.empty(0, np.int64)
    if pa.types.is_nested(keys.type):  # Arrow compares none of these
        keys = pa.array([repr(_with_one_zero(key)) for key in keys.to_pylist()], pa.string())
    elif pa.types.is_floating(keys.type):
        keys = pc.add(keys, pa.scalar(0.0, keys.type))
    codes = keys.dictionary_encode()
    entries = _parents(maps) * len(codes.dictionary) + codes.indices.fill_null(0).to_numpy()
    entries.sort()
    return np.unique(entries[1:][entries[1:] == entries[:-1]] // len(codes.dictionary))


def _with_one_zero(value: Any) -> Any:
    """-0.0 is 0.0: to SQL they are the same key."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {name: _with_one_zero(inner) for name, inner in value.items()}
    return [_with_one_zero(inner) for inner in value] if isinstance(value, list) else value


# --- single values ----------------------------------------------------------------------------


def _beyond(numbers: pa.Array, least: int, most: int) -> Places:
    found = pc.min_max(numbers)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is None or (low >= least and high <= most):
        return np.empty(0, np.int64)
    return _where(pc.or_(pc.less(numbers, least), pc.greater(numbers, most)))


def _with_time_of_day(given: pa.Array) -> Places:
    if not pa.types.is_timestamp(given.type):
        return np.empty(0, np.int64)
    local = pc.local_timestamp(given) if given.type.tz else given
    return _where(pc.not_equal(local, pc.floor_temporal(local, unit="day")))


def _overflown(given: pa.Array, taken: pa.Array) -> Places:
    if given.type == taken.type or not pc.any(pc.is_inf(taken)).as_py():
        return np.empty(0, np.int64)
    if pa.types.is_floating(given.type):
        said = pc.is_inf(given)
    elif pa.types.is_string(given.type) or pa.types.is_large_string(given.type) or pa.types.is_string_view(given.type):
        said = pc.match_substring(given.cast(pa.large_string()), "inf", ignore_case=True)
    else:
        said = pa.array(np.zeros(len(given), np.bool_))
    return _where(pc.and_not(pc.is_inf(taken), said))


def _with_too_many_digits(decimals: pa.Array) -> Places:
    """Arrow keeps any 128 bits under any precision, as two words: the lower one first, the sign in the upper one."""
    _, data = decimals.buffers()
    if data is None or len(decimals) == 0:
        return np.empty(0, np.int64)
    words = np.frombuffer(data, np.uint64, 2 * (decimals.offset + len(decimals)))[2 * decimals.offset :]
    lower, upper = words[::2], words[1::2].view(np.int64)
    limit = 10**decimals.type.precision
    is_bad = _at_least(upper, lower, limit) | ~_at_least(upper, lower, 1 - limit)
    return np.flatnonzero(is_bad & decimals.is_valid().to_numpy(zero_copy_only=False))


def _at_least(upper: Words, lower: Words, least: int) -> npt.NDArray[np.bool_]:
    least_upper, least_lower = np.int64(least >> 64), np.uint64(least & (2**64 - 1))
    is_so: npt.NDArray[np.bool_] = (upper > least_upper) | ((upper == least_upper) & (lower >= least_lower))
    return is_so
