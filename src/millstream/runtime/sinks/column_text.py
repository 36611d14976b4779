"""Columns as text formats can hold them: nested values as JSON, the rest by whole columns.

Arrow's own CSV writer does almost everything; what it does not know goes through DuckDB, a column at a time.

JSON is the same at the top and inside of arrays, maps and structs: instants are ISO-8601, in UTC behind `Z`; lengths of time are
microseconds; binary values are hexadecimal digits behind `\\x`; decimals keep their digits.  What JSON has no number for is a text:
"NaN", "Infinity", "-Infinity".

It is put together as text: DuckDB's own JSON has no numbers but integers and DOUBLEs.
"""

from __future__ import annotations

import json

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
    members = [_member(name, own, field.type) for own, name, field in zip(names, rows.column_names, rows.schema, strict=True)]
    lines = _through(duck, rows.rename_columns(names), _object(members))
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
        return _through(duck, pa.table({"c": column}), _json("c", column.type))
    if pa.types.is_binary(column.type):
        return _through(duck, pa.table({"c": column}), _HEXADECIMAL.format("c"))
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64())
    return column


def _json(value: str, type_: pa.DataType, depth: int = 0) -> str:
    """The expression of DuckDB that gives this one's JSON as text, NULL for NULL; `depth` is that of the lambda it stands in."""
    if isinstance(type_, pa.StructType):
        fields = [type_[i] for i in range(len(type_))]
        members = [_member(field.name, f"struct_extract_at({value}, {i + 1})", field.type, depth) for i, field in enumerate(fields)]
        return f"CASE WHEN {value} IS NOT NULL THEN {_object(members)} END"
    if isinstance(type_, pa.MapType):
        key, item = f"x{depth}.key", f"x{depth}.value"
        entry = f"{_quoted(_key(key, type_.key_type, depth + 1))} || ':' || {_or_null(_json(item, type_.item_type, depth + 1))}"
        return f"'{{' || array_to_string(list_transform(map_entries({value}), lambda x{depth}: {entry}), ',') || '}}'"
    if pa.types.is_nested(type_):
        element = _or_null(_json(f"x{depth}", type_.value_type, depth + 1))
        return f"'[' || array_to_string(list_transform({value}, lambda x{depth}: {element}), ',') || ']'"
    if pa.types.is_floating(type_):
        return f"CASE WHEN isfinite({value}) THEN to_json({value})::VARCHAR ELSE {_quoted(_key(value, type_, depth))} END"
    if pa.types.is_decimal(type_) or pa.types.is_integer(type_) or pa.types.is_boolean(type_) or pa.types.is_duration(type_):
        return _key(value, type_, depth)
    return _quoted(_key(value, type_, depth))


def _key(value: str, type_: pa.DataType, depth: int) -> str:
    """The expression that gives this one's text as it stands in JSON, without quotes: JSON's keys are texts, whatever a map's are."""
    if pa.types.is_floating(type_):
        return (
            f"CASE WHEN isnan({value}) THEN 'NaN' WHEN isfinite({value}) THEN to_json({value})::VARCHAR"
            f" WHEN {value} > 0 THEN 'Infinity' WHEN {value} < 0 THEN '-Infinity' END"
        )
    if pa.types.is_decimal(type_):  # DuckDB leaves out the zero where a type has no digits before the point
        return rf"regexp_replace({value}::VARCHAR, '^(-?)\.', '\10.')"
    if pa.types.is_timestamp(type_):
        return f"strftime(make_timestamp(epoch_us({value})), '{_INSTANT}{'Z' if type_.tz else ''}')"
    if pa.types.is_duration(type_):
        return f"epoch_us({value})::VARCHAR"
    if pa.types.is_binary(type_):
        return _HEXADECIMAL.format(value)
    return _json(value, type_, depth) if pa.types.is_nested(type_) else f"{value}::VARCHAR"


def _member(name: str, value: str, type_: pa.DataType, depth: int = 0) -> str:
    return f"{_literal(json.dumps(name, ensure_ascii=False))} || ':' || {_or_null(_json(value, type_, depth))}"


def _object(members: list[str]) -> str:
    """By one call, not by `||`: a thousand of those are deeper than DuckDB goes."""
    between = ", ',', ".join(members)
    return f"concat('{{', {between}, '}}')"


def _or_null(text: str) -> str:
    return f"coalesce({text}, 'null')"


def _quoted(text: str) -> str:
    return f"to_json({text})::VARCHAR"


def _through(duck: DuckDb, rows: pa.Table, expression: str) -> pa.ChunkedArray:
    connection = duck.connection
    connection.register("_rows", rows)
    try:
        return connection.sql(f"SELECT {expression} AS told FROM _rows").to_arrow_table().column(0)
    finally:
        connection.unregister("_rows")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
