"""Arrow types as Delta tables can hold them, and the way back.

Almost all types are their own disk type.  INTERVAL becomes BIGINT microseconds, VOID a BOOLEAN that is always
NULL, dictionaries and large strings their plain values.  Readers that know the declared schema get its types back;
tools from outside see the disk types.
"""

from __future__ import annotations

import pyarrow as pa


def disk_type(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(arrow):
        return pa.int64()
    if pa.types.is_null(arrow):
        return pa.bool_()
    if pa.types.is_dictionary(arrow):
        return disk_type(arrow.value_type)
    if pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return pa.string()
    if pa.types.is_large_binary(arrow) or pa.types.is_binary_view(arrow):
        return pa.binary()
    return _nested(arrow)


def _nested(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return pa.list_(disk_type(arrow.value_type))
    if pa.types.is_map(arrow):
        return pa.map_(disk_type(arrow.key_type), disk_type(arrow.item_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, disk_type(field.type)) for field in arrow])
    return arrow


def disk_schema(schema: pa.Schema) -> pa.Schema:
    """Every column nullable, no metadata, disk types."""
    return pa.schema([pa.field(field.name, disk_type(field.type)) for field in schema])


def to_disk(rows: pa.Table) -> pa.Table:
    wanted = disk_schema(rows.schema)
    return rows if rows.schema.equals(wanted, check_metadata=True) else cast_columns(rows, wanted)


def cast_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` by position, each cast if its type differs."""
    columns = [_cast(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type == wanted:
        return column
    if pa.types.is_null(wanted):
        return pa.chunked_array([pa.nulls(len(column))])
    if pa.types.is_dictionary(column.type):
        return _cast(column.cast(column.type.value_type), wanted)
    return column.cast(wanted)
