"""Relations out of files, Delta tables and PostgreSQL: the same rows whatever they come from."""

from __future__ import annotations

import datetime as dt
import json
import socket
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from millstream.api import Database
from millstream.core.errors import MillstreamError
from millstream.core.schema import Schema
from millstream.core.secrets import Options
from millstream.runtime.pulls.origin import Origin
from millstream.runtime.pulls.postgres import PostgresReader
from postgres_server import PASSWORD
from unit.pulls.other_side import JOINED, answer, shown
from unit.runtime.manual_clock import ManualClock

Rows = list[tuple[Any, ...]]
Write = Callable[[Rows], None]
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def lines(rows: Rows) -> str:
    return "".join(f"{'' if k is None else json.dumps(k)},{'' if v is None else v}\n" for k, v in rows)


@pytest.fixture(params=["parquet", "csv", "json", "delta", "postgres"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Write]]:
    """The FROM clause, and what changes the other side."""
    path = tmp_path / "r"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS r; CREATE TABLE r (v bigint, K text)")

            def insert(rows: Rows) -> None:
                with connection.transaction(), connection.cursor() as cursor:
                    cursor.execute("DELETE FROM r")
                    cursor.executemany("INSERT INTO r (k, v) VALUES (%s, %s)", rows)

            yield f"FROM 'postgres' OPTIONS (url '{url}', table 'r')", insert
        return
    write: dict[str, Write] = {
        "parquet": lambda rows: pq.write_table(table(rows), path),
        "csv": lambda rows: path.write_text(lines(rows)) and None,
        "json": lambda rows: path.write_text("".join(json.dumps({"k": k, "v": v, "more": 1}) + "\n" for k, v in rows)) and None,
        "delta": lambda rows: write_deltalake(str(path), table(rows), mode="overwrite"),
    }
    yield f"FROM '{request.param}' OPTIONS (path '{path}')", write[request.param]


def test_rows_come_from_there_and_follow_it(db: Database, clock: ManualClock, elsewhere: tuple[str, Write]) -> None:
    clause, write = elsewhere
    db.execute(f"CREATE RELATION r (k STRING, v INT) {clause}")
    db.insert("s", [(1, "a"), (2, "b"), (3, "")])
    write([("a", 1), ("a", 1), ("", None), (None, 4)])
    db.execute(f"CREATE QUERY q AS {JOINED}")
    db.advance("s", 10)
    db.flush()
    assert shown(db)["error"] is None
    assert sorted(map(str, answer_of(db))) == ["('', None)", "('a', 1)", "('a', 1)"]
    write([("a", 1), ("b", 2)])
    clock.seconds += 1
    for second in (11, 12):
        db.advance("s", second)
        db.flush()
    assert answer(db, "q") == [("a", 1), ("b", 2)]
    write([])
    clock.seconds += 1
    for second in (13, 14):
        db.advance("s", second)
        db.flush()
    assert (answer(db, "q"), shown(db)["error"]) == ([], None)


def answer_of(db: Database) -> Rows:
    return [tuple(row.values()) for row in db.query("q").result().to_pylist()]


def test_a_number_that_does_not_fit_is_an_error_and_the_last_contents_stay(
    db: Database, clock: ManualClock, elsewhere: tuple[str, Write]
) -> None:
    clause, write = elsewhere
    write([("a", 1)])
    db.execute(f"CREATE RELATION r (k STRING PRIMARY KEY, v INT) {clause}; SELECT * FROM r")
    write([("a", 2**31)])
    clock.seconds += 1
    assert rows_of(db) == [{"k": "a", "v": 1}]
    assert "2147483648" in shown(db)["error"]


def rows_of(db: Database) -> list[dict[str, Any]]:
    answered = db.execute("SELECT * FROM r")
    assert isinstance(answered, pa.Table)
    return answered.to_pylist()


def test_a_directory_of_files(db: Database, clock: ManualClock, tmp_path: Path) -> None:
    directory = tmp_path / "files"
    options = f"path '{directory}', header true, sep ';', nullValue '-'"
    db.execute(f"CREATE RELATION r (k STRING, at TIMESTAMP) FROM 'csv' OPTIONS ({options}); SELECT * FROM r")
    assert "No such file" in shown(db)["error"]
    directory.mkdir()
    (directory / "one").write_text("at;k;x\n2024-01-01T00:00:00Z;a;1\n")
    (directory / "two").write_text("k;at\n-;2024-01-01 01:00:00\n")
    (directory / "_hidden").write_text("no")
    (directory / "empty").write_text("")
    clock.seconds += 2
    midnight = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    assert sorted(rows_of(db), key=str) == [{"k": None, "at": midnight + dt.timedelta(hours=1)}, {"k": "a", "at": midnight}][::-1]
    (directory / "two").write_text("k\nz\n")
    clock.seconds += 1
    assert len(rows_of(db)) == 2
    assert str(directory / "two") in shown(db)["error"]


@pytest.mark.parametrize("time", ["2024-01-01T02:00:00+02:00", "2024-01-01 00:00:00"])
def test_times_in_json(db: Database, tmp_path: Path, time: str) -> None:
    (tmp_path / "r.json").write_text(json.dumps({"at": time}))
    db.execute(f"CREATE RELATION r (at TIMESTAMP) FROM 'json' OPTIONS (path '{tmp_path}/*.json')")
    assert rows_of(db) == [{"at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}]


@pytest.mark.parametrize(
    ("clause", "error"),
    [
        ("FROM 'csv'", 'needs the option "path"'),
        ("FROM 'csv' OPTIONS (path '/x', separator ';')", 'no option "separator"'),
        ("FROM 'csv' OPTIONS (path '/x', sep ';;')", "one character"),
        ("FROM 'parquet' OPTIONS (path 's3://x')", "only Spark reads"),
        ("FROM 'delta'", 'needs the option "path"'),
        ("FROM 'postgres' OPTIONS (table 'x')", 'needs the option "url"'),
        ("FROM 'postgres' OPTIONS (url 'x')", 'needs the option "table"'),
        ("FROM 'postgres' OPTIONS (url 'x', table 't', pasword 'y')", "no option"),
        ("FROM 'postgres' OPTIONS (url '${env:NOT_THERE}', table 't')", "NOT_THERE, which is not set"),
    ],
)
def test_what_can_be_told_at_once(db: Database, clause: str, error: str) -> None:
    with pytest.raises(MillstreamError, match=error) as refused:
        db.execute(f"CREATE RELATION r (k STRING) {clause}")
    assert refused.value.hint
    assert db.execute("SHOW RELATIONS").num_rows == 0  # type: ignore[union-attr]


# --- PostgreSQL


def test_every_type_of_postgres(db: Database, postgres: str) -> None:
    columns = {
        "b": ("boolean", "BOOLEAN", True), "t": ("smallint", "TINYINT", -128), "n": ("bigint", "BIGINT", 2**63 - 1),
        "f": ("real", "FLOAT", 1.5), "x": ("double precision", "DOUBLE", float("inf")),
        "d": ("numeric", "DECIMAL(38,10)", Decimal("1234567890123456789012345678.0123456789")), "k": ("text", "STRING", "it's\n\"q\", ü"),
        "bin": ("bytea", "BINARY", b"\x00\xff'"), "day": ("date", "DATE", dt.date(2024, 2, 29)),
        "at": ("timestamp with time zone", "TIMESTAMP", dt.datetime(2024, 1, 1, microsecond=1, tzinfo=dt.UTC)),
        "ntz": ("timestamp", "TIMESTAMP_NTZ", dt.datetime(1, 1, 1)), "number": ("text", "INT", "7"),
    }  # fmt: skip
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS typed; CREATE TABLE typed ("
                           + ", ".join(f"{name} {there}" for name, (there, _, _) in columns.items()) + ")")  # type: ignore[call-overload]  # fmt: skip
        values = [value for _, _, value in columns.values()]
        marks = ", ".join(["%s"] * len(values))
        connection.execute(f"INSERT INTO typed VALUES ({marks})", values)  # type: ignore[call-overload]
        connection.execute(f"INSERT INTO typed VALUES ({marks})", [None] * len(values))  # type: ignore[call-overload]
    declared = ", ".join(f"{name} {here}" for name, (_, here, _) in columns.items())
    db.execute(f"CREATE RELATION r ({declared}) FROM 'postgres' OPTIONS (url '{postgres}', table 'typed')")
    first, second = rows_of(db)
    assert first == {name: value for name, (_, _, value) in columns.items()} | {"number": 7}
    assert set(second.values()) == {None}


def test_a_view_that_takes_too_long_is_given_up(db: Database, postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE OR REPLACE VIEW slow AS SELECT 'a' AS k, pg_sleep(60)::text AS v")
    db._engine.pulls.timeout_s = 1.0
    db.execute(f"CREATE RELATION r (k STRING, v STRING) FROM 'postgres' OPTIONS (url '{postgres}', table 'slow')")
    assert rows_of(db) == []
    assert "statement timeout" in shown(db)["error"]


def test_a_server_that_stops_in_the_middle_is_given_up(db: Database, postgres: str) -> None:
    """Its statement time-out does not help: what the connection waits for never comes."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE OR REPLACE VIEW slow AS SELECT 'a' AS k, pg_sleep(60)::text AS v")
    origin = Origin("r", "postgres", Options(url=postgres, table="slow"), Schema.of(k="STRING", v="STRING"))
    reader = PostgresReader(origin, timeout_s=60)
    late = threading.Timer(0.1, reader.interrupt)
    late.start()
    with pytest.raises(psycopg.OperationalError):
        reader.read()
    reader.close()
    reader.interrupt()  # too late: nothing happens


def test_a_server_that_never_answers_is_given_up(db: Database, clock: ManualClock) -> None:
    db._engine.pulls.timeout_s = 0.05
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        url = f"postgresql://u:{'s3cret-word'}@localhost:{port}/x"
        db.execute(f"CREATE RELATION r (k STRING) FROM 'postgres' OPTIONS (url '{url}', table 't')")
        finished = threading.Event()
        db._engine.pulls.answered = finished.set
        assert rows_of(db) == []
        assert "no answer" in shown(db)["error"]
        assert finished.wait(30)
    assert "s3cret" not in shown(db)["error"]


def test_secrets_are_not_shown(db: Database, postgres: str) -> None:
    wrong = "postgresql://millstream:wr0ng-secret@localhost/postgres?" + postgres.split("?")[1]
    db.execute(f"CREATE RELATION r (k STRING) FROM 'postgres' OPTIONS (url '{wrong}', table 't'); SELECT * FROM r")
    assert "password authentication failed" in shown(db)["error"]
    for text in (str(shown(db)), str(db.definition("r"))):
        assert "wr0ng" not in text


def test_user_and_password_may_be_options_of_their_own(db: Database, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_TEST_PASSWORD", PASSWORD)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA IF NOT EXISTS "Own"; DROP TABLE IF EXISTS "Own"."it\'s"; CREATE TABLE "Own"."it\'s" ("K" text)')
        connection.execute('INSERT INTO "Own"."it\'s" VALUES (\'a\')')
    url = "postgresql://localhost/postgres?" + postgres.split("?")[1]
    options = f"url '{url}', schema 'Own', table 'it''s', user 'millstream', password '${{env:MILLSTREAM_TEST_PASSWORD}}'"
    db.execute(f"CREATE RELATION r (k STRING) FROM 'postgres' OPTIONS ({options})")
    assert rows_of(db) == [{"k": "a"}]


def test_a_column_that_is_not_there(db: Database, postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS other; CREATE TABLE other (kk text)")
    db.execute(f"CREATE RELATION r (k STRING) FROM 'postgres' OPTIONS (url '{postgres}', table 'other'); SELECT * FROM r")
    assert shown(db)["error"] == 'the table has no column "k"'
