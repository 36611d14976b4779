"""Changes in a table of PostgreSQL, each batch in one transaction with a note of how far it goes.

    millstream_sinks        sink (primary key), target, mode, batch, delivered_at

    mode 'changes'          the table gets a row for each change: instant, diff, then the query's columns
    mode 'upsert'           the table holds the query's relation as it stands

A relation is a bag: rows may be equal, and no column need be a key.  So in mode `upsert` each row carries a hash of itself and the
number of its copy, together the primary key: taking one of three equal rows away deletes the third.  Selecting the query's own
columns gives the relation exactly.

The note is locked first and must stand where the batch begins: of two processes that believe to be the same sink one finds
the other's batch done.
"""

from __future__ import annotations

from typing import Any, LiteralString

import pyarrow as pa

from millstream.core.errors import ConfigInvalid, SinkFailed
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.plan.duckdb_connection import DuckDb
from millstream.runtime.sinks.postgres_columns import LONGEST_NAME, SYSTEM_COLUMNS, column_names, copy_text, postgres_type
from millstream.runtime.sinks.sink import SinkTarget, batch_number, batch_of
from millstream.state.fault import fault_point

try:
    import psycopg
    from psycopg.sql import SQL, Composed, Identifier
except ImportError:
    _has_driver = False
else:
    _has_driver = True

OPTIONS = ("url", "table", "schema", "mode", "user", "password")
MODES = ("changes", "upsert")
_NOTES = "millstream_sinks"
_OWN_TABLES = (_NOTES, "millstream_pending", "millstream_net")
_ROW, _COPY = "_millstream_row", "_millstream_copy"
_SERVICE = (_ROW, _COPY, "_millstream_diff", "_millstream_n", "_millstream_had", "_millstream_new")
"""Names that statements of ours need beside those of the query's columns."""
_CONNECT_S = 10
# rows are hashed as the text that PostgreSQL shows of them, which must not depend on a user's settings
_SETTINGS = (
    "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex -c client_min_messages=warning"
)


class PostgresSink:
    def __init__(self, target: SinkTarget) -> None:
        check_postgres(target)
        self._target = target
        self._mode = target.options.get("mode", "changes").lower()
        self._columns = column_names(target.fields, ("instant", "diff") if self._mode == "changes" else _SERVICE)
        self._table = _qualified(target, target.options["table"])
        self._duck = DuckDb()
        self._connection = _connected(target)
        try:
            self._prepare()
            self._position = self._noted()
        except BaseException:
            self._connection.close()
            raise

    def position(self) -> Micros:
        return self._position

    def deliver(self, changes: pa.Table, batch: Micros) -> None:
        with self._connection.transaction():
            self._lock_note()
            fault_point("sink.before_write")
            if self._mode == "changes":
                self._copy(self._table, ["instant", "diff", *self._columns], changes)
            else:
                self._maintain(changes)
            self._run("UPDATE {notes} SET batch = %s, delivered_at = now() WHERE sink = %s", batch_number(batch), self._target.owner)
            fault_point("sink.after_write")
        fault_point("sink.after_commit")
        self._position = batch

    def close(self) -> None:
        self._connection.close()

    # --- the tables

    def _prepare(self) -> None:
        with self._connection.transaction():
            # CREATE IF NOT EXISTS of two sinks at once may fail
            self._run("SELECT pg_advisory_xact_lock(hashtext('millstream_sinks'))")
            self._run(
                "CREATE TABLE IF NOT EXISTS {notes} (sink text PRIMARY KEY, target text NOT NULL, mode text NOT NULL,"
                " batch bigint NOT NULL, delivered_at timestamp with time zone)"
            )
            self._run("CREATE TABLE IF NOT EXISTS {table} ({declared})")
            if self._note_of_this() is None:
                self._begin()
        if self._mode == "upsert":
            self._run("CREATE TEMPORARY TABLE millstream_pending (_millstream_diff smallint, {own}) ON COMMIT DELETE ROWS")
            self._run("CREATE TEMPORARY TABLE millstream_net ({own}, {row} bytea, _millstream_n bigint) ON COMMIT DELETE ROWS")

    def _begin(self) -> None:
        """The first time: a relation's table must be empty, and nobody else's."""
        ((place,),) = self._run("SELECT %s::regclass::oid::text", self._table.as_string(self._connection))
        others = self._run("SELECT mode FROM {notes} WHERE target = %s", place)
        maintained = [mode for (mode,) in others if "upsert" in (mode, self._mode)]
        if maintained or (self._mode == "upsert" and self._run("SELECT 1 FROM {table} LIMIT 1")):
            raise ConfigInvalid(
                f'sink "{self._target.name}" cannot write to table "{self._target.options["table"]}": it holds rows that are not its own',
                hint="Choose another table. A sink that is dropped and created again goes on under its old name, on the same query.",
            )
        self._run("INSERT INTO {notes} VALUES (%s, %s, %s, 0, now())", self._target.owner, place, self._mode)

    def _note_of_this(self) -> int | None:
        found = self._run("SELECT batch FROM {notes} WHERE sink = %s", self._target.owner)
        return int(found[0][0]) if found else None

    def _noted(self) -> Micros:
        number = self._note_of_this()
        assert number is not None
        return batch_of(number) if number else NEVER_BEFORE

    def _lock_note(self) -> None:
        found = self._run("SELECT batch FROM {notes} WHERE sink = %s FOR UPDATE", self._target.owner)
        if not found or int(found[0][0]) != batch_number(self._position):
            raise SinkFailed(f'sink "{self._target.name}": its note in {_NOTES} was changed by somebody else')

    # --- a batch

    def _copy(self, table: Composed, columns: list[str], rows: pa.Table) -> None:
        listed = SQL(", ").join(map(Identifier, columns))
        with self._connection.cursor() as cursor, cursor.copy(
            SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table, listed)
        ) as copy:  # fmt: skip
            copy.write(copy_text(rows, self._duck))

    def _maintain(self, changes: pa.Table) -> None:
        """The net of the batch: copies that go, copies that come."""
        rows = changes.select(list(range(1, changes.num_columns)))
        self._copy(SQL("{}").format(Identifier("millstream_pending")), ["_millstream_diff", *self._columns], rows)
        self._run(
            "INSERT INTO millstream_net SELECT DISTINCT ON ({row}) {names}, {row}, _millstream_n FROM ("
            "SELECT {names}, {row}, sum(_millstream_diff) OVER (PARTITION BY {row}) AS _millstream_n FROM ("
            "SELECT *, sha256(convert_to(ROW({names})::text, 'UTF8')) AS {row} FROM millstream_pending) AS hashed) AS summed"
            " WHERE _millstream_n <> 0"
        )
        there = "(SELECT count(*) FROM {table} AS there WHERE there.{row} = net.{row})"
        gone = self._count(
            "DELETE FROM {table} AS t USING (SELECT net.{row}, net._millstream_n + " + there + " AS kept FROM millstream_net AS net"
            " WHERE _millstream_n < 0) AS d WHERE t.{row} = d.{row} AND t.{copy} > d.kept"
        )
        come = self._count(
            "INSERT INTO {table} ({names}, {row}, {copy}) SELECT {names}, {row}, _millstream_had + _millstream_new FROM"
            " (SELECT net.*, " + there + " AS _millstream_had FROM millstream_net AS net WHERE _millstream_n > 0) AS new,"
            " generate_series(1, _millstream_n) AS added (_millstream_new)"
        )
        wanted = self._run(
            "SELECT coalesce(sum(greatest(-_millstream_n, 0)), 0), coalesce(sum(greatest(_millstream_n, 0)), 0) FROM millstream_net"
        )
        if (gone, come) != tuple(map(int, wanted[0])):
            raise SinkFailed(
                f'the table "{self._target.options["table"]}" of sink "{self._target.name}" was changed by somebody else',
                hint="Rows that are to go are not there. Drop the sink and create it with another table.",
            )

    # --- SQL

    def _run(self, template: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(self._sql(template, percent="%%" if values else "%"), values or None)
        return cursor.fetchall() if cursor.description else []

    def _count(self, template: LiteralString) -> int:
        return self._connection.execute(self._sql(template)).rowcount

    def _sql(self, template: LiteralString, percent: str = "%") -> Composed:
        """Names are quoted by the driver, never put together as text.  Only beside values a `percent` of theirs would be one for it."""

        def quoted(name: str) -> Identifier:
            return Identifier(name.replace("%", percent))

        types = [SQL(postgres_type(field.type)) for field in self._target.fields]
        own = [SQL("{} {}").format(quoted(name), type_) for name, type_ in zip(self._columns, types, strict=True)]
        before = [SQL("instant timestamp with time zone NOT NULL"), SQL("diff smallint NOT NULL")]
        behind = [SQL(f"{_ROW} bytea NOT NULL"), SQL(f"{_COPY} bigint NOT NULL"), SQL(f"PRIMARY KEY ({_ROW}, {_COPY})")]
        declared = [*before, *own] if self._mode == "changes" else [*own, *behind]
        comma = SQL(", ")
        table, notes = (_qualified(self._target, name, percent) for name in (self._target.options["table"], _NOTES))
        return SQL(template).format(
            table=table, notes=notes, own=comma.join(own), declared=comma.join(declared), row=Identifier(_ROW),
            copy=Identifier(_COPY), names=comma.join(map(quoted, self._columns)),
        )  # fmt: skip


def check_postgres(target: SinkTarget) -> None:
    """What can be told without asking the server."""
    if not _has_driver:
        raise ConfigInvalid(
            f'sink "{target.name}" needs the driver of PostgreSQL, psycopg', hint="Install it: pip install 'millstream[postgres]'."
        )
    options = target.options
    for wanted in ("url", "table"):
        if not options.get(wanted):
            raise ConfigInvalid(
                f'sink "{target.name}" needs the option "{wanted}"',
                hint="OPTIONS (url 'postgresql://user:${env:PGPASSWORD}@host:5432/database', table 'name').",
            )
    for named in ("table", "schema"):
        name = options.get(named, "x")
        if not name or "\0" in name or len(name.encode()) > LONGEST_NAME:
            raise ConfigInvalid(f'sink "{target.name}" has a {named} whose name PostgreSQL cannot hold', hint="At most 63 bytes, no NUL.")
    if options["table"] in _OWN_TABLES:
        raise ConfigInvalid(
            f'sink "{target.name}" cannot write to table "{options["table"]}": Millstream keeps its own notes there',
            hint="Choose another table.",
        )
    for field in target.fields:
        if field.name in SYSTEM_COLUMNS:
            raise ConfigInvalid(
                f'sink "{target.name}" cannot write column "{field.name}": every table of PostgreSQL has a system column of that name',
                hint="Give the query's column another name with AS.",
            )
    if options.get("mode", "changes").lower() not in MODES:
        raise ConfigInvalid(f'sink "{target.name}": no mode "{options["mode"]}"', hint="Modes are changes and upsert.")


def _qualified(target: SinkTarget, name: str, percent: str = "%") -> Composed:
    schema = target.options.get("schema")
    return SQL("{}").format(Identifier(*(part.replace("%", percent) for part in (schema, name) if part)))


def _connected(target: SinkTarget) -> psycopg.Connection[tuple[Any, ...]]:
    """Errors say the driver's own words: the delivery takes the secrets out of them."""
    given: dict[str, Any] = {name: target.options[name] for name in ("user", "password") if name in target.options}
    given |= {"connect_timeout": _CONNECT_S, "options": _SETTINGS, "application_name": "millstream"}
    return psycopg.connect(target.options["url"], autocommit=True, **given)
