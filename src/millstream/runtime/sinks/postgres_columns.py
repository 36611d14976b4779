"""A query's columns in PostgreSQL: their names, their types, and their values as COPY reads them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from millstream.core.schema import TIMESTAMP, TIMESTAMP_NTZ, Field
from millstream.plan.duckdb_connection import DuckDb
from millstream.runtime.sinks.column_text import plain_columns

LONGEST_NAME = 63
"""Bytes; PostgreSQL cuts longer names off, and two of them may then be the same."""
SYSTEM_COLUMNS = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
"""A table can have no other columns of these names."""

_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean", pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint",
    pa.float32(): "real", pa.float64(): "double precision", pa.string(): "text", pa.binary(): "bytea", pa.date32(): "date",
    TIMESTAMP: "timestamp with time zone", TIMESTAMP_NTZ: "timestamp without time zone", pa.duration("us"): "interval", pa.null(): "text",
}  # fmt: skip


def postgres_type(arrow: pa.DataType) -> str:
    """Nested types are `jsonb`.

    >>> postgres_type(pa.decimal128(10, 2)), postgres_type(pa.list_(pa.int32()))
    ('numeric(10,2)', 'jsonb')
    """
    if isinstance(arrow, pa.Decimal128Type):
        return f"numeric({arrow.precision},{arrow.scale})"
    return "jsonb" if pa.types.is_nested(arrow) else _TYPES[arrow]


def column_names(fields: tuple[Field, ...], taken: tuple[str, ...]) -> list[str]:
    """The columns' own names as far as they are distinct, short enough, and not taken."""
    used, names = set(taken), []
    for field in fields:
        plain = field.name.replace("\0", "") or "column"
        name, count = _shortened(plain, ""), 1
        while name in used:
            count += 1
            name = _shortened(plain, f"_{count}")
        used.add(name)
        names.append(name)
    return names


def _shortened(name: str, suffix: str) -> str:
    return name.encode()[: LONGEST_NAME - len(suffix)].decode(errors="ignore") + suffix


def copy_text(rows: pa.Table, duck: DuckDb) -> bytes:
    """What `COPY ... FROM STDIN (FORMAT csv)` takes: texts in quotes, so that an empty one is not NULL."""
    told = plain_columns(rows, duck)
    columns = [
        _interval(column) if pa.types.is_duration(field.type) else column for field, column in zip(rows.schema, told.columns, strict=True)
    ]
    buffer = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=False)
    pa.csv.write_csv(pa.Table.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))]), buffer, options)
    return buffer.getvalue()


def _interval(micros: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(micros.cast(pa.string()), "microseconds", " ")
