"""What users hand to `insert` (tuples, dicts, Arrow, pandas, polars) as a table of the target's own types.

    any form ─► columns in the order of the schema ─► a table of its types

Values fit or are refused in row_values.py; what a stream does with rows that do not fit is sorting_out.py's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.errors import ArityMismatch, ColumnNotFound, DuplicateColumn, TypeMismatch, did_you_mean
from millstream.core.schema import Schema
from millstream.runtime.row_values import REFUSALS, array_of, cast_column, shown

_FORMS = "Give a list of tuples or dicts, a pyarrow.Table, or a pandas or polars DataFrame."


@dataclass(frozen=True)
class Columns:
    """As they were given, in the order of the schema; None for one that was not."""

    columns: Sequence[pa.ChunkedArray | list[Any] | None]
    count: int


def table_of(rows: object, schema: Schema, target: str) -> pa.Table:
    """`rows` with exactly the columns of `schema`, or an error that names the column and the value."""
    return typed(columns_of(rows, schema, target), schema, target)


def is_list_of_rows(rows: object) -> bool:
    return isinstance(rows, Sequence) and not isinstance(rows, (str, bytes))


def columns_of(rows: object, schema: Schema, target: str) -> Columns:
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _from_table(rows, schema, target)
    if hasattr(rows, "__arrow_c_stream__"):  # polars, pandas 2.2+, DuckDB relations, and whatever else speaks Arrow
        return _from_frame(rows, schema, target)
    if isinstance(rows, Mapping):
        return _from_columns(rows, schema, target)
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return transposed([values_of(row, schema, target, i) for i, row in enumerate(rows)], schema)
    raise TypeMismatch(f'cannot insert a {type(rows).__name__} into "{target}"', hint=_FORMS)


# --- forms ------------------------------------------------------------------------------------


def _from_frame(frame: Any, schema: Schema, target: str) -> Columns:
    is_pandas = hasattr(frame, "notna") and hasattr(frame, "columns")
    if is_pandas:
        _known_columns(frame.columns, schema, target)
    try:
        table = pa.table(frame)
    except MemoryError:
        raise
    except Exception as error:  # the frame is somebody else's code
        if not is_pandas or not isinstance(error, REFUSALS):
            reason = f"it gives no Arrow columns: {shown(error)}"
            raise TypeMismatch(f'cannot insert this {type(frame).__name__} into "{target}": {reason}', hint=_FORMS) from error
        # a column of many types: as values, one by one, it fits or it is named
        return _from_columns({name: _objects(column) for name, column in frame.items()}, schema, target)
    return _from_table(table, schema, target)


def _objects(column: Any) -> list[Any]:
    """A column of pandas as Python's values."""
    objects: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return objects


def _from_table(table: pa.Table, schema: Schema, target: str) -> Columns:
    index = (table.schema.pandas_metadata or {}).get("index_columns", ())
    # pandas numbers the rows that are left of a selection: no column of the user's
    table = table.drop_columns([name for name in index if isinstance(name, str) and name.startswith("__index_level_")])
    _known_columns(table.column_names, schema, target, index)
    given = {name.lower(): _decoded(table.column(i)) for i, name in enumerate(table.column_names)}
    return Columns([given.get(field.name.lower()) for field in schema], table.num_rows)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each value in its place: Arrow does not cast runs of equal values, nor rightly lists that may overlap."""
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    if pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
        return pa.chunked_array(map(_in_order, column.chunks), pa.large_list(column.type.value_type))
    return column


def _in_order(lists: pa.Array) -> pa.Array:
    offsets = np.append(0, np.cumsum(pc.list_value_length(lists).fill_null(0).to_numpy()))
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), lists.flatten(), mask=lists.is_null())


def _from_columns(columns: Mapping[Any, Any], schema: Schema, target: str) -> Columns:
    _known_columns(columns, schema, target)
    for name, values in columns.items():
        if isinstance(values, (str, bytes)) or not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
            raise TypeMismatch(
                f'a dict for "{target}" holds columns, but "{name}" is {shown(values)}',
                hint="Give one row as a list of one dict: [{...}].",
            )
    lengths = {str(name): len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f'{count} in "{name}"' for name, count in lengths.items())
        raise ArityMismatch(f'the columns for "{target}" are not equally long: {counts}', hint="Give a value or None for each row.")
    given = {str(name).lower(): _arrow_or_list(values) for name, values in columns.items()}
    return Columns([given.get(field.name.lower()) for field in schema], next(iter(lengths.values()), 0))


def _arrow_or_list(values: Any) -> pa.ChunkedArray | list[Any]:
    if isinstance(values, Sequence):
        return list(values)
    try:
        array = pa.array(values)
    except REFUSALS:
        return list(values)
    return _decoded(array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]))


def transposed(rows: Sequence[Sequence[Any]], schema: Schema) -> Columns:
    return Columns([list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in schema], len(rows))


def values_of(row: Any, schema: Schema, target: str, i: int) -> Sequence[Any]:
    if isinstance(row, Mapping):
        _known_columns(row, schema, target)
        given = {str(name).lower(): value for name, value in row.items()}
        return [given.get(field.name.lower()) for field in schema]
    if isinstance(row, Sequence) and not isinstance(row, (str, bytes)):
        if len(row) != len(schema):
            values = "1 value" if len(row) == 1 else f"{len(row)} values"
            columns = "1 column" if len(schema) == 1 else f"{len(schema)} columns"
            raise ArityMismatch(f'row {i} has {values}, but "{target}" has {columns}', hint=f"Columns: {schema}.")
        return row
    raise TypeMismatch(f"row {i} is a {type(row).__name__}", hint="Each row is a tuple in column order, or a dict by column name.")


def _known_columns(given: Iterable[Any], schema: Schema, target: str, index: Sequence[Any] = ()) -> None:
    known, seen = {name.lower() for name in schema.names}, set()
    for name in given:
        lower = str(name).lower()
        if lower not in known:
            hint = f"It is the index of the frame: reset_index(drop=True) leaves it out. Columns: {schema}." if name in index else None
            hint = hint or did_you_mean(str(name), schema.names) or f"Columns: {schema}."
            raise ColumnNotFound(f'column "{name}" does not exist in "{target}"', hint=hint)
        if lower in seen:
            raise DuplicateColumn(f'column "{name}" is given twice for "{target}"', hint="Give each column once; case does not matter.")
        seen.add(lower)


def typed(given: Columns, schema: Schema, target: str) -> pa.Table:
    """A column that was not given is one of NULLs."""
    arrays = []
    for column, field in zip(given.columns, schema, strict=True):
        if column is None:
            arrays.append(pa.nulls(given.count, field.type))
        elif isinstance(column, list):
            arrays.append(array_of(column, field, target))
        else:
            arrays.append(cast_column(column, field, target))
    return pa.table(arrays, schema=schema.to_arrow())
