"""Values that Arrow's types hold and SQL's do not, whole columns at once.

Arrow has days and instants of any year, maps with a key twice, and casts that drop what does not fit: a number too great for a
FLOAT becomes infinite, a time of day is cut off a date, a field that a struct does not have is left out.  Spark, Python and most
sinks fail on the first ones, and the others are not what the user said.

Here `given` is a column as it came, `taken` what Arrow's cast made of it, of the same length.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.instant import BEGINNING, LAST, UNITS

Places = npt.NDArray[np.int64]

YEARS = "it is outside the years 1 to 9999"
_DAYS = BEGINNING // UNITS["DAY"], LAST // UNITS["DAY"]


def widened(type_: pa.DataType) -> pa.DataType:
    """The type with DOUBLE for each FLOAT in it: what still tells a great number from an infinite one."""
    if pa.types.is_float32(type_):
        return pa.float64()
    if pa.types.is_map(type_):
        return pa.map_(widened(type_.key_type), widened(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(widened(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, widened(field.type)) for field in type_])
    return type_


def refused(given: pa.Array, taken: pa.Array) -> Iterator[tuple[Places, str]]:
    """Which places hold, at whatever depth, what the type of `taken` does not have, and why; nothing for good columns."""
    type_ = taken.type
    if pa.types.is_struct(type_):
        yield from _in_structs(given, taken)
    elif pa.types.is_map(type_):
        yield from _in_lists(_as_list(given) if pa.types.is_map(given.type) else _as_list(taken), _as_list(taken))
        yield from _places(_with_doubled_keys(_as_list(taken)), "it has a key twice")
    elif pa.types.is_list(type_):
        yield from _in_lists(given if _is_list(given.type) else taken, taken)
    elif pa.types.is_date(type_):
        yield from _places(_beyond(taken.cast(pa.int32()), *_DAYS), YEARS)
        yield from _places(_with_time_of_day(given, taken), "it has a time of day")
    elif pa.types.is_timestamp(type_):
        yield from _places(_beyond(taken.cast(pa.int64()), BEGINNING, LAST), YEARS)
    elif pa.types.is_floating(type_):
        yield from _places(_overflown(given, taken), "it is too great")


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
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def _as_list(maps: pa.Array) -> pa.Array:
    return maps.cast(pa.list_(pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])))


def _parents(lists: pa.Array) -> Places:
    parents: Places = lists.value_parent_indices().to_numpy()
    return parents


def _with_doubled_keys(maps: pa.Array) -> Places:
    keys = maps.flatten().field("key")
    if len(keys) == 0:
        return np.empty(0, np.int64)
    if pa.types.is_nested(keys.type):  # Arrow compares none of these
        keys = pa.array(map(repr, keys.to_pylist()), pa.string())
    codes = keys.dictionary_encode()
    entries = _parents(maps) * len(codes.dictionary) + codes.indices.fill_null(0).to_numpy()
    entries.sort()
    return np.unique(entries[1:][entries[1:] == entries[:-1]] // len(codes.dictionary))


# --- single values ----------------------------------------------------------------------------


def _beyond(numbers: pa.Array, least: int, most: int) -> Places:
    found = pc.min_max(numbers)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is None or (low >= least and high <= most):
        return np.empty(0, np.int64)
    return _where(pc.or_(pc.less(numbers, least), pc.greater(numbers, most)))


def _with_time_of_day(given: pa.Array, taken: pa.Array) -> Places:
    if not pa.types.is_timestamp(given.type):
        return np.empty(0, np.int64)
    local = pc.local_timestamp(given) if given.type.tz else given
    return _where(pc.not_equal(local, pc.floor_temporal(local, unit="day")))


def _overflown(given: pa.Array, taken: pa.Array) -> Places:
    if given.type == taken.type or not pc.any(pc.is_inf(taken)).as_py():
        return np.empty(0, np.int64)
    if pa.types.is_floating(given.type):
        said = pc.is_inf(given)
    elif pa.types.is_string(given.type) or pa.types.is_large_string(given.type):
        said = pc.match_substring(given, "inf", ignore_case=True)
    else:
        said = pa.array(np.zeros(len(given), np.bool_))
    return _where(pc.and_not(pc.is_inf(taken), said))
