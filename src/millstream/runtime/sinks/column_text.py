"""Columns as text formats can hold them: nested values as JSON, the rest by whole columns.

Arrow's own CSV writer does almost everything; what it does not know goes through DuckDB, a column at a time.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millstream.plan.duckdb_connection import DuckDb


def plain_columns(rows: pa.Table, duck: DuckDb) -> pa.Table:
    """Nested values become JSON, binary ones hexadecimal digits behind `\\x`, lengths of time microseconds."""
    return pa.Table.from_arrays([_plain(column, duck) for column in rows.columns], names=rows.column_names)


def json_lines(rows: pa.Table, duck: DuckDb) -> bytes:
    """An object for each row.  Decimals keep their digits, instants are ISO-8601 in UTC.

    What JSON has no number for is a text: nan, inf, -inf.
    """
    told = pa.Table.from_arrays([_told(column) for column in rows.columns], names=rows.column_names)
    members = ", ".join(f"{_quoted(name)} := {_quoted(name)}" for name in told.column_names)
    lines = _through(duck, told, f"to_json(struct_pack({members}))::VARCHAR")
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def distinct_names(names: list[str]) -> list[str]:
    """Result columns may share names; in a file they may not.

    >>> distinct_names(["a", "b", "a", "a_2"])
    ['a', 'b', 'a_2', 'a_2_2']
    """
    taken: list[str] = []
    for name in names:
        unique, count = name, 1
        while unique in taken:
            count += 1
            unique = f"{name}_{count}"
        taken.append(unique)
    return taken


def _plain(column: pa.ChunkedArray, duck: DuckDb) -> pa.ChunkedArray:
    if pa.types.is_nested(column.type):
        return _through(duck, pa.table({"c": column}), "to_json(c)::VARCHAR")
    if pa.types.is_binary(column.type):
        return _through(duck, pa.table({"c": column}), r"'\x' || lower(hex(c))")
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64())
    return column


def _told(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%S" + ("Z" if column.type.tz else ""))
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64())
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column), min_count=0).as_py():
        return column.cast(pa.string())
    return column


def _through(duck: DuckDb, rows: pa.Table, expression: str) -> pa.ChunkedArray:
    connection = duck.connection
    connection.register("_rows", rows)
    try:
        return connection.sql(f"SELECT {expression} AS told FROM _rows").to_arrow_table().column(0)
    finally:
        connection.unregister("_rows")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
