"""Does a CREATE STREAM or CREATE RELATION make sense in itself?  Types, repeated columns, columns that clauses name.

Names are compared without case; what is kept is the spelling of the column's definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from millstream.core.errors import ColumnNotFound, DuplicateColumn, NotSupported, Span, TypeMismatch, did_you_mean
from millstream.core.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema, type_from_name, type_name
from millstream.language.statements import ColumnDefinition, CreateQuery, CreateRelation, CreateSink, CreateStream, Register

_TYPE_WORDS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "VARCHAR", "CHAR", "BINARY",
    "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL", "ARRAY", "MAP", "STRUCT",
)  # fmt: skip


def checked_stream(statement: CreateStream) -> tuple[Schema, str, tuple[str, ...]]:
    """The schema, and the columns of TIMESTAMP BY and PARTITION BY as they are spelt in it."""
    schema = _schema(statement)
    timestamp = _column(statement, schema, "timestamp_by", None, statement.timestamp_by)
    if timestamp.type not in (TIMESTAMP, TIMESTAMP_NTZ):
        raise TypeMismatch(
            f'TIMESTAMP BY needs a TIMESTAMP column, but "{timestamp.name}" is {type_name(timestamp.type)}',
            span=statement.place("timestamp_by"),
            sql=statement.text,
        )
    return schema, timestamp.name, _columns(statement, schema, "partition_by", statement.partition_by)


def checked_relation(statement: CreateRelation) -> tuple[Schema, tuple[str, ...]]:
    """The schema and the primary key, as it is spelt in the schema."""
    schema = _schema(statement)
    return schema, _columns(statement, schema, "primary_key", statement.primary_key)


def check_name(statement: CreateStream | CreateRelation | CreateQuery | CreateSink | Register) -> None:
    _refuse_reserved(statement.name, statement.place("name"), statement.text)


def _refuse_reserved(name: str, place: Span | None, text: str) -> None:
    if name.startswith("_"):
        raise NotSupported(f'the name "{name}" is reserved', hint="Names that start with _ are kept for the system.", span=place, sql=text)


def _schema(statement: CreateStream | CreateRelation) -> Schema:
    fields: dict[str, Field] = {}
    for i, column in enumerate(statement.columns):
        place = statement.place("columns", i)
        _refuse_reserved(column.name, place, statement.text)
        if column.name.lower() in fields:
            raise DuplicateColumn(f'column "{column.name}" is defined twice', span=place, sql=statement.text)
        fields[column.name.lower()] = Field(column.name, _type(statement, i, column))
    return Schema(tuple(fields.values()))


def _type(statement: CreateStream | CreateRelation, index: int, column: ColumnDefinition) -> pa.DataType:
    try:
        return type_from_name(column.type_name)
    except (ValueError, RecursionError) as error:
        words = re.findall(r"\w+", column.type_name)
        unknown = next((word for word in words if word.upper() not in _TYPE_WORDS), "")
        reason = str(error) if isinstance(error, ValueError) else "the type is nested too deeply"
        hint = did_you_mean(unknown, _TYPE_WORDS) or "Types are those of Spark SQL: INT, DECIMAL(10,2), STRING, TIMESTAMP, ARRAY<INT>."
        place = statement.place("columns", index, "type")
        raise TypeMismatch(f'column "{column.name}": {reason}', hint=hint, span=place, sql=statement.text) from None


def _columns(statement: CreateStream | CreateRelation, schema: Schema, part: str, names: Iterable[str]) -> tuple[str, ...]:
    """The columns that a clause names, each once."""
    found: list[str] = []
    for i, name in enumerate(names):
        column = _column(statement, schema, part, i, name)
        if column.name in found:
            raise DuplicateColumn(f'column "{name}" is named twice', span=statement.place(part, i), sql=statement.text)
        found.append(column.name)
    return tuple(found)


def _column(statement: CreateStream | CreateRelation, schema: Schema, part: str, index: int | None, name: str) -> Field:
    for column in schema:
        if column.name.lower() == name.lower():
            return column
    kind = "stream" if isinstance(statement, CreateStream) else "relation"
    raise ColumnNotFound(
        f'column "{name}" does not exist in {kind} "{statement.name}"',
        hint=did_you_mean(name, schema.names),
        span=statement.place(part, index),
        sql=statement.text,
    )
