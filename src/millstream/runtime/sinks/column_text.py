"""Columns as text formats can hold them: nested values as JSON, the rest by whole columns.

Arrow's own CSV writer does almost everything; what it does not know goes through DuckDB, a column at a time.

JSON is the same at the top and inside of arrays, maps and structs: instants are ISO-8601, in UTC behind `Z`; lengths of time are
microseconds; binary values are hexadecimal digits behind `\\x`; decimals keep their digits.  What JSON has no number for is a text:
"NaN", "Infinity", "-Infinity".
"""

from __future__ import annotations

import pyarrow as pa

from millstream.plan.duckdb_connection import DuckDb

_INSTANT = "%Y-%m-%dT%H:%M:%S.%f"
_HEXADECIMAL = r"'\x' || lower(hex({}))"


def plain_columns(rows: pa.Table, duck: DuckDb) -> pa.Table:
    """Nested values become JSON, binary ones hexadecimal digits behind `\\x`, lengths of time microseconds."""
    return pa.Table.from_arrays([_plain(column, duck) for column in rows.columns], names=rows.column_names)


def json_lines(rows: pa.Table, duck: DuckDb) -> bytes:
    """An object for each row, with a member for each column: their names must be distinct, but may be so in case only."""
    names = [f"c{i}" for i in range(rows.num_columns)]  # to DuckDB `a` and `A` are the same column
    members = [
        f"{_literal(name)}, {_json(own, field.type)}" for own, name, field in zip(names, rows.column_names, rows.schema, strict=True)
    ]
    lines = _through(duck, rows.rename_columns(names), f"json_object({', '.join(members)})::VARCHAR")
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
        return _through(duck, pa.table({"c": column}), f"({_json('c', column.type)})::VARCHAR")
    if pa.types.is_binary(column.type):
        return _through(duck, pa.table({"c": column}), _HEXADECIMAL.format("c"))
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64())
    return column


def _json(value: str, type_: pa.DataType, depth: int = 0) -> str:
    """The expression of DuckDB that makes JSON of this one; `depth` is that of the lambda it stands in."""
    if pa.types.is_floating(type_):
        return _number(value)
    if pa.types.is_timestamp(type_):
        return f"to_json(strftime(make_timestamp(epoch_us({value})), '{_INSTANT}{'Z' if type_.tz else ''}'))"
    if pa.types.is_duration(type_):
        return f"to_json(epoch_us({value}))"
    if pa.types.is_binary(type_):
        return f"to_json({_HEXADECIMAL.format(value)})"
    if isinstance(type_, pa.StructType):
        members = [
            f"{_literal(type_[i].name)}, {_json(f'struct_extract_at({value}, {i + 1})', type_[i].type, depth)}" for i in range(len(type_))
        ]
        return f"CASE WHEN {value} IS NOT NULL THEN json_object({', '.join(members)}) END"
    if isinstance(type_, pa.MapType):
        keys = _each(f"map_keys({value})", type_.key_type, depth, "->> '$'")
        return f"to_json(map({keys}, {_each(f'map_values({value})', type_.item_type, depth)}))"
    if pa.types.is_nested(type_):
        return f"to_json({_each(value, type_.value_type, depth)})"
    return f"to_json({value})"


def _number(value: str) -> str:
    return (
        f"CASE WHEN isfinite({value}) THEN to_json({value}) WHEN isnan({value}) THEN '\"NaN\"'::JSON"
        f" WHEN {value} > 0 THEN '\"Infinity\"'::JSON WHEN {value} < 0 THEN '\"-Infinity\"'::JSON END"
    )


def _each(values: str, type_: pa.DataType, depth: int, and_then: str = "") -> str:
    element = f"x{depth}"
    return f"list_transform({values}, lambda {element}: ({_json(element, type_, depth + 1)}) {and_then})"


def _through(duck: DuckDb, rows: pa.Table, expression: str) -> pa.ChunkedArray:
    connection = duck.connection
    connection.register("_rows", rows)
    try:
        return connection.sql(f"SELECT {expression} AS told FROM _rows").to_arrow_table().column(0)
    finally:
        connection.unregister("_rows")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
