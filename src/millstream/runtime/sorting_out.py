"""The good rows of what users hand to a stream, and the bad ones as dead letters.

Everything is first taken for good, whole columns at once.  Only if that fails are the bad rows looked for, and then
by halving (row_values.misfits), so that good rows cost little beside them.  A mistake of the call as a whole (a column that
the stream does not have, none for its time, columns of unequal length, a type of which no value fits) is an error as ever:
there is no row to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.core.errors import MillstreamError, TypeMismatch
from millstream.core.schema import Schema
from millstream.core.value_text import value_text
from millstream.runtime.dead_letters import DeadLetter, Part, record_text
from millstream.runtime.row_times import RowTimes
from millstream.runtime.row_values import misfits, value_at
from millstream.runtime.rows import Columns, columns_of, is_list_of_rows, transposed, typed, values_of

Reasons = dict[int, str]
"""Why a row is not taken, by its place."""


def sorted_out(rows: object, schema: Schema, times: RowTimes, source: Callable[[int], str]) -> Part:
    """`source` says where the row at a place comes from."""
    if is_list_of_rows(rows):
        assert isinstance(rows, Sequence)
        table, reasons = _of_rows(rows, schema, times)
        return Part(table, [DeadLetter(value_text(rows[i]), reasons[i], source(i)) for i in sorted(reasons)])
    given = columns_of(rows, schema, times.stream)
    if given.columns[schema.names.index(times.timestamp_by)] is None:
        times.check(typed(given, schema, times.stream))
    table, reasons = _of_columns(given, schema, times)
    return Part(table, [DeadLetter(_text(given, schema, i), reasons[i], source(i)) for i in sorted(reasons)])


def _of_rows(rows: Sequence[Any], schema: Schema, times: RowTimes) -> tuple[pa.Table, Reasons]:
    shaped: list[Sequence[Any]] = []
    places: list[int] = []
    reasons: Reasons = {}
    for i, row in enumerate(rows):
        try:
            shaped.append(values_of(row, schema, times.stream, i))
            places.append(i)
        except MillstreamError as error:
            reasons[i] = error.message
    table, more = _of_columns(transposed(shaped, schema), schema, times)
    return table, reasons | {places[i]: reason for i, reason in more.items()}


def _of_columns(given: Columns, schema: Schema, times: RowTimes) -> tuple[pa.Table, Reasons]:
    reasons: Reasons = {}
    try:
        table = typed(given, schema, times.stream)
    except TypeMismatch:
        reasons = _misfits(given, schema, times.stream)
        table = typed(_without(given, reasons), schema, times.stream)
    bad = times.bad(table)
    if len(bad) == 0:
        return table, reasons
    places = np.flatnonzero(_kept(given.count, reasons))
    untimely = {int(places[i]): times.refusal(table, int(i)).message for i in bad}
    return table.filter(pa.array(_kept(table.num_rows, bad.tolist()))), reasons | untimely


def _misfits(given: Columns, schema: Schema, target: str) -> Reasons:
    """A row with several bad values is told all of them."""
    found: dict[int, list[str]] = {}
    for column, field in zip(given.columns, schema, strict=True):
        for place, reason in misfits(column, field, target).items() if column is not None else ():
            found.setdefault(place, []).append(reason)
    return {place: "; ".join(told) for place, told in found.items()}


def _without(given: Columns, places: Collection[int]) -> Columns:
    kept = _kept(given.count, places)
    columns = [
        None if column is None
        else [value for value, keep in zip(column, kept, strict=True) if keep] if isinstance(column, list)
        else column.filter(pa.array(kept))
        for column in given.columns
    ]  # fmt: skip
    return Columns(columns, int(kept.sum()))


def _kept(count: int, places: Collection[int]) -> Any:
    kept = np.ones(count, np.bool_)
    kept[list(places)] = False
    return kept


def _text(given: Columns, schema: Schema, place: int) -> str:
    there = [(field.name, column) for field, column in zip(schema, given.columns, strict=True) if column is not None]
    values = [column[place] if isinstance(column, list) else value_at(column, place) for _, column in there]
    return record_text([name for name, _ in there], values)
