"""Rows of a table or view of PostgreSQL, all of them in one statement: what was true there at one moment.

They come as `COPY ... TO STDOUT` and are parsed in columns.  Values go by what they say: `12` in a text is a number where the relation
has one, `1.5` is no INT.  The connection is kept from one time to the next, and may not write.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

import pyarrow as pa

from millstream.core.errors import ColumnNotFound, ConfigInvalid, NotSupported, did_you_mean
from millstream.core.schema import TIMESTAMP, Field, Schema, type_name
from millstream.plan.duckdb_connection import DuckDb
from millstream.runtime.csv_rows import CsvReader
from millstream.runtime.pulls.origin import Origin

try:
    import psycopg
    from psycopg.sql import SQL, Composed, Identifier
except ImportError:
    _has_driver = False
else:
    _has_driver = True

OPTIONS = ("url", "table", "schema", "user", "password")
_URL = "OPTIONS (url 'postgresql://user:${env:PGPASSWORD}@host:5432/database', table 'name')."
_SETTINGS = "-c TimeZone=UTC -c DateStyle=ISO -c extra_float_digits=1 -c bytea_output=hex -c default_transaction_read_only=on"


def check_postgres(origin: Origin) -> None:
    """What can be told without asking the server."""
    if not _has_driver:
        raise ConfigInvalid(
            f'relation "{origin.relation}" needs the driver of PostgreSQL, psycopg', hint="Install it: pip install 'millstream[postgres]'."
        )
    for key in origin.options:
        if key.lower() not in OPTIONS:
            hint = did_you_mean(key, OPTIONS) or f"It takes {', '.join(OPTIONS)}."
            raise ConfigInvalid(f'a relation from "postgres" has no option "{key}"', hint=hint)
    origin.needed("url", _URL)
    origin.needed("table", _URL)
    for field in origin.schema:
        if pa.types.is_nested(field.type) or pa.types.is_duration(field.type):
            raise NotSupported(
                f'relation "{origin.relation}": column "{field.name}" of type {type_name(field.type)} cannot be read from PostgreSQL',
                hint="Declare it as STRING: it then holds the text that PostgreSQL shows.",
            )


class PostgresReader:
    def __init__(self, origin: Origin, timeout_s: float) -> None:
        check_postgres(origin)
        schema = origin.option("schema")
        self._schema = origin.schema
        self._table = Identifier(*([schema] if schema else []), origin.option("table"))
        self._connection = _connected(origin, timeout_s)
        self._statement = self._copied(self._columns_there())
        # of binary values the text, until it is decoded
        texts = Schema(tuple(Field(field.name, pa.string() if _is_binary(field) else field.type) for field in origin.schema))
        self._parser = CsvReader(texts)
        self._duck = DuckDb()

    def read(self) -> pa.Table:
        with self._connection.cursor() as cursor, cursor.copy(self._statement) as copy:
            data = b"".join(bytes(block) for block in copy)
        if not data:
            return self._schema.to_arrow().empty_table()
        return self._decoded(self._parser.table(pa.BufferReader(data)))

    def interrupt(self) -> None:
        """Whoever waits for an answer is told that the line is dead; the number of the socket stays the connection's own."""
        # it may have been closed meanwhile, by either side
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()

    def _columns_there(self) -> dict[str, str]:
        """By name in small letters.  PostgreSQL's own names have a case, ours have not."""
        cursor = self._connection.execute(SQL("SELECT * FROM {} LIMIT 0").format(self._table))
        names = [column.name for column in cursor.description or ()]
        return {name.lower(): name for name in reversed(names)} | {name: name for name in names if name in self._schema.names}

    def _copied(self, there: dict[str, str]) -> Composed:
        columns = []
        for field in self._schema:
            name = there.get(field.name) or there.get(field.name.lower())
            if name is None:
                given = sorted(set(there.values()))
                hint = did_you_mean(field.name, given) or f"It has: {', '.join(given)}."
                raise ColumnNotFound(f'the table has no column "{field.name}"', hint=hint)
            columns.append(_as_text(name, field))
        return SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(SQL(", ").join(columns), self._table)

    def _decoded(self, rows: pa.Table) -> pa.Table:
        binary = [field.name for field in self._schema if _is_binary(field)]
        if not binary:
            return rows
        columns = [
            f"unhex(substr({_quoted(name)}, 3)) AS {_quoted(name)}" if name in binary else _quoted(name) for name in rows.column_names
        ]
        decoded = self._duck.connection.from_arrow(rows).project(", ".join(columns)).to_arrow_table()
        for name in binary:
            place = rows.column_names.index(name)
            rows = rows.set_column(place, name, decoded.column(name).cast(pa.binary()))
        return rows


def _is_binary(field: Field) -> bool:
    return bool(pa.types.is_binary(field.type))


def _as_text(name: str, field: Field) -> Composed:
    """As pyarrow reads it.  Nothing is cut off: PostgreSQL itself would round."""
    if field.type == TIMESTAMP:
        return SQL("(({}::timestamp with time zone) AT TIME ZONE 'UTC')::text").format(Identifier(name))
    if pa.types.is_decimal(field.type):
        return SQL("trim_scale({}::numeric)::text").format(Identifier(name))
    return SQL("{}::text").format(Identifier(name))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _connected(origin: Origin, timeout_s: float) -> psycopg.Connection[tuple[Any, ...]]:
    """Errors say the driver's own words: the pull takes the secrets out of them."""
    given: dict[str, Any] = {name: value for name in ("user", "password") if (value := origin.option(name))}
    # it is the server that should give up first: then the connection can be used again
    settings = f"{_SETTINGS} -c statement_timeout={max(1, int(timeout_s * 800))}"
    given |= {"connect_timeout": max(2, int(timeout_s)), "options": settings, "application_name": "millstream"}
    return psycopg.connect(origin.option("url"), autocommit=True, **given)
