"""OVER and ORDER BY ... LIMIT recomputed from nothing: rows are sorted, each looks at its frame row by row."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from functools import cmp_to_key, reduce
from operator import xor
from typing import Any

import pyarrow as pa

from millstream.core.schema import Schema
from millstream.plan.logical import AggregateCall
from millstream.plan.ordering import Frame, OverCall, SortKey
from property.histories import History, Row, call_slow, comparable_row, sort_key


def rows_at(history: History, now: int) -> list[Row]:
    """The rows present at an instant, bit by bit: 0.0 is not -0.0."""
    present: dict[str, list[Row]] = {}
    for instant, sign, row in history.changes:
        if instant <= now:
            found = present.setdefault(repr(row), [])
            found.append((sign, row))  # type: ignore[arg-type]
    return [row for found in present.values() for row in [found[0][1]] * sum(sign for sign, _ in found)]


def sorted_slow(rows: Sequence[Row], schema: Schema, order_by: Sequence[SortKey]) -> list[Row]:
    """By the sort keys, then by all columns from left to right, NULL first."""

    def compare(one: Row, other: Row) -> int:
        return compare_keys(one, other, schema, order_by) or _compare_bits(one, other)

    return sorted(rows, key=cmp_to_key(compare))


def compare_keys(one: Row, other: Row, schema: Schema, order_by: Sequence[SortKey]) -> int:
    for key in order_by:
        place = schema.names.index(key.column)
        if found := compare_values(one[place], other[place], key):
            return found
    return 0


def compare_values(one: Any, other: Any, key: SortKey) -> int:
    if one is None or other is None:
        if one is None and other is None:
            return 0
        return -1 if (one is None) == key.nulls_first else 1
    left, right = sort_key(one), sort_key(other)
    found = (left > right) - (left < right)
    return -found if key.descending else found


def _compare_bits(one: Row, other: Row) -> int:
    for left, right in zip(one, other, strict=True):
        left, right = _bits(left), _bits(right)
        if left != right:
            return -1 if left < right else 1
    return 0


def _bits(value: Any) -> Any:
    if value is None:
        return (0,)
    if isinstance(value, float):
        word = struct.unpack("<q", struct.pack("<d", value))[0]
        return (1, word if word >= 0 else -(word & 0x7FFFFFFFFFFFFFFF) - 1)
    if isinstance(value, list | tuple):
        return (1, [_bits(element) for element in value])
    if isinstance(value, dict):
        return (1, [_bits(value[name]) for name in sorted(value)])  # of struct<a, b>: in the order of the fields
    return (1, sort_key(value))


def over_slow(
    rows: Sequence[Row], schema: Schema, partition_by: Sequence[str], order_by: Sequence[SortKey], calls: Sequence[OverCall]
) -> list[Row]:
    result = []
    for members in partitions(rows, schema, partition_by):
        ordered = sorted_slow(members, schema, order_by)
        result += [(*row, *(_result(call, i, ordered, schema, order_by) for call in calls)) for i, row in enumerate(ordered)]
    return result


def top_slow(
    rows: Sequence[Row], schema: Schema, partition_by: Sequence[str], order_by: Sequence[SortKey], limit: int, offset: int, numbered: bool
) -> list[Row]:
    result = []
    for members in partitions(rows, schema, partition_by):
        ordered = sorted_slow(members, schema, order_by)
        for i in range(offset, min(offset + limit, len(ordered))):
            result.append((*ordered[i], i + 1) if numbered else ordered[i])
    return result


def partitions(rows: Sequence[Row], schema: Schema, partition_by: Sequence[str]) -> list[list[Row]]:
    places = [schema.names.index(name) for name in partition_by]
    found: dict[Row, list[Row]] = {}
    for row in rows:
        found.setdefault(comparable_row(tuple(row[i] for i in places)), []).append(row)
    return list(found.values())


def _result(call: OverCall, i: int, rows: list[Row], schema: Schema, order_by: Sequence[SortKey]) -> Any:
    n = len(rows)
    peers = [j for j in range(n) if compare_keys(rows[j], rows[i], schema, order_by) == 0]
    frame = [j for j in range(n) if in_frame(call.frame, i, j, rows, schema, order_by)]
    place = schema.names.index(call.argument) if call.argument else None
    match call.function:
        case "row_number":
            return i + 1
        case "rank":
            return peers[0] + 1
        case "dense_rank":
            return 1 + sum(compare_keys(rows[j], rows[j + 1], schema, order_by) != 0 for j in range(i))
        case "percent_rank":
            return peers[0] / (n - 1) if n > 1 else 0.0
        case "cume_dist":
            return (peers[-1] + 1) / n
        case "ntile":
            sizes = [n // call.parameter + (tile < n % call.parameter) for tile in range(call.parameter)]
            return next(tile + 1 for tile in range(call.parameter) if i < sum(sizes[: tile + 1]))
        case "is_lag" | "is_lead":
            return bool(frame)
        case "lag" | "lead" | "first_value":
            return rows[frame[0]][place] if frame else None
        case "last_value":
            return rows[frame[-1]][place] if frame else None
        case "nth_value":
            return rows[frame[call.parameter - 1]][place] if len(frame) >= call.parameter else None
    column = [rows[j][place] if place is not None else 1 for j in frame]
    present = [value for value in column if value is not None]
    match call.function:
        case "count" if call.distinct:
            return len(set(present))
        case "collect_set":
            return sorted(set(present))
        case "bit_xor":
            return reduce(xor, present) if present else None
        case "percentile_approx":
            return sorted(present)[math.ceil(call.fractions[0] * len(present)) - 1] if present else None
    return call_slow(AggregateCall(call.name, call.function, call.argument, call.type), column)


def in_frame(frame: Frame, i: int, j: int, rows: list[Row], schema: Schema, order_by: Sequence[SortKey]) -> bool:
    if frame.unit == "rows":
        return (frame.start is None or j >= i + frame.start) and (frame.stop is None or j <= i + frame.stop)
    return (frame.start is None or _distance(i, j, frame.start, rows, schema, order_by) >= 0) and (
        frame.stop is None or _distance(i, j, frame.stop, rows, schema, order_by) <= 0
    )


def _distance(i: int, j: int, offset: Any, rows: list[Row], schema: Schema, order_by: Sequence[SortKey]) -> int:
    """Where row j stands, seen from the key that is `offset` behind that of row i."""
    if offset == 0:
        return compare_keys(rows[j], rows[i], schema, order_by)
    (key,) = order_by
    place = schema.names.index(key.column)
    mine, theirs = (_number(rows[k][place], schema[key.column].type) for k in (i, j))
    if mine is not None:
        mine = mine - offset if key.descending else mine + offset
    return compare_values(theirs, mine, key)


def _number(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    return int(value.scaleb(type_.scale)) if isinstance(value, Decimal) else value
