"""What users hand to `insert` (tuples, dicts, Arrow, pandas, polars) as a table of the stream's own types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.errors import ArityMismatch, ColumnNotFound, TypeMismatch, did_you_mean
from millstream.core.instant import to_micros
from millstream.core.schema import TIMESTAMP, Field, Schema, type_name


def table_of(rows: object, schema: Schema, target: str) -> pa.Table:
    """`rows` with exactly the columns of `schema`, or an error that names the column and the value."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _from_table(rows, schema, target)
    if hasattr(rows, "__arrow_c_stream__"):  # polars, pandas 2.2+, DuckDB relations, and whatever else speaks Arrow
        return _from_table(pa.table(rows), schema, target)
    if isinstance(rows, Mapping):
        return _from_table(pa.table(dict(rows)), schema, target)
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return _from_rows(rows, schema, target)
    raise TypeMismatch(
        f'cannot insert a {type(rows).__name__} into "{target}"',
        hint="Give a list of tuples or dicts, a pyarrow.Table, or a pandas or polars DataFrame.",
    )


def _from_table(table: pa.Table, schema: Schema, target: str) -> pa.Table:
    by_lower = {name.lower(): name for name in table.column_names}
    for name in table.column_names:
        _known_column(name, schema, target)
    columns = []
    for field in schema:
        given = by_lower.get(field.name.lower())
        column = table.column(given) if given is not None else pa.nulls(table.num_rows, field.type)
        columns.append(_cast(column, field, target))
    return pa.table(columns, schema=schema.to_arrow())


def _from_rows(rows: Sequence[Any], schema: Schema, target: str) -> pa.Table:
    columns: list[list[Any]] = [[] for _ in schema]
    for i, row in enumerate(rows):
        for column, value in zip(columns, _values(row, schema, target, i), strict=True):
            column.append(value)
    arrays = [_array(values, field, target) for values, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema.to_arrow())


def _values(row: Any, schema: Schema, target: str, i: int) -> Sequence[Any]:
    if isinstance(row, Mapping):
        given = {str(name).lower(): value for name, value in row.items()}
        for name in row:
            _known_column(str(name), schema, target)
        return [given.get(field.name.lower()) for field in schema]
    if isinstance(row, Sequence) and not isinstance(row, (str, bytes)):
        if len(row) != len(schema):
            raise ArityMismatch(f'row {i} has {len(row)} values, but "{target}" has {len(schema)} columns', hint=f"Columns: {schema}.")
        return row
    raise TypeMismatch(f"row {i} is a {type(row).__name__}", hint="Each row is a tuple in column order, or a dict by column name.")


def _known_column(name: str, schema: Schema, target: str) -> None:
    names = [field.name for field in schema]
    if name.lower() not in {known.lower() for known in names}:
        raise ColumnNotFound(f'column "{name}" does not exist in "{target}"', hint=did_you_mean(name, names) or f"Columns: {schema}.")


def _array(values: list[Any], field: Field, target: str) -> pa.Array:
    if pa.types.is_timestamp(field.type):
        values = [_micros(value) for value in values]
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError, TypeError) as error:
        bad = next((value for value in values if not _fits(value, field)), None)
        raise TypeMismatch(
            f'column "{field.name}" of "{target}" takes {type_name(field.type)}, not {bad!r}',
            hint=f"Arrow says: {error}. Nothing was inserted.",
        ) from error


def _micros(value: Any) -> Any:
    return to_micros(value) if isinstance(value, (dt.datetime, int)) and not isinstance(value, bool) else value


def _fits(value: Any, field: Field) -> bool:
    try:
        pa.array([value], field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError, TypeError):
        return False
    return True


def _cast(column: pa.ChunkedArray, field: Field, target: str) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        if pa.types.is_timestamp(column.type) and column.type.tz is None and field.type == TIMESTAMP:
            column = pc.assume_timezone(column.cast(pa.timestamp(column.type.unit)), "UTC")  # naive is UTC
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeMismatch(
            f'column "{field.name}" of "{target}" takes {type_name(field.type)}, not {column.type}',
            hint=f"Arrow says: {error}. Nothing was inserted.",
        ) from error
