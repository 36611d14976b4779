"""The sink that writes to PostgreSQL, on a real server."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import ConfigInvalid
from millstream.runtime.sinks import postgres as module
from postgres_server import PASSWORD
from unit.sinks.workload import DDL, QUERY, feed


def rows_of(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, options="-c TimeZone=UTC") as connection:
        return connection.execute(sql).fetchall()  # type: ignore[call-overload,no-any-return]


def troubles(db: Database) -> list[tuple[str, str | None]]:
    return [(row["state"], row["error"]) for row in db.execute("SHOW SINKS").to_pylist()]  # type: ignore[union-attr]


def test_both_modes_say_what_the_query_says(postgres: str, tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}")
        db.execute(f"CREATE SINK c FROM q INTO 'postgres' OPTIONS (url '{postgres}', table 'both_c')")
        db.execute(f"CREATE SINK u FROM q INTO 'postgres' OPTIONS (URL '{postgres}', table 'both_u', mode 'UPSERT')")
        feed(db)
        assert troubles(db) == [("running", None)] * 2
        told = rows_of(postgres, "SELECT instant, diff, k, v FROM both_c")
        changes, result = db.query("q").changes(), db.query("q").result()
        assert Counter(told) == Counter(tuple(row.values()) for row in changes.to_pylist())
        assert Counter(rows_of(postgres, "SELECT k, v FROM both_u")) == Counter(tuple(row.values()) for row in result.to_pylist())
        assert max(Counter(rows_of(postgres, "SELECT k, v FROM both_u")).values()) >= 1


def test_types_names_and_odd_values(postgres: str, tmp_path: Path) -> None:
    table, long = 'o"dd; DROP TABLE x --', "n" * 70
    with open_inline(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, b BOOLEAN, t TINYINT, n BIGINT, f FLOAT, x DOUBLE, d DECIMAL(38,10), k STRING,"
                   " bin BINARY, day DATE, ntz TIMESTAMP_NTZ, a ARRAY<INT>) TIMESTAMP BY ts")  # fmt: skip
        db.execute(
            f"CREATE QUERY q AS SELECT *, k AS k, k AS `we\"ird 'name'`, INTERVAL 90 SECONDS AS i,"
            f" n AS {long}1, n AS {long}2, n AS diff, 1 AS net, 2 AS had, 3 AS number FROM s"
        )
        for mode in ("changes", "upsert"):
            escaped = (table + mode).replace("'", "''")
            db.execute(f"CREATE SINK {mode} FROM q INTO 'postgres' OPTIONS (url '{postgres}', table '{escaped}', mode '{mode}')")
        full = (
            1, True, -128, 2**63 - 1, 1.5, 0.1, Decimal("1234567890123456789012345678.0123456789"), "it's \"q\", \\ and\nü\t\u2028",
            b"\x00\xff'", dt.date(2024, 2, 29), dt.datetime(1, 1, 1), [1, None],
        )  # fmt: skip
        db.insert("s", [full, (2, *[None] * 11), (3, None, None, None, float("inf"), float("nan"), None, "", b"", None, None, [])])
        db.advance(3)
        db.flush()
        assert troubles(db) == [("running", None)] * 2
    quoted = table.replace('"', '""')
    instant = dt.datetime(1970, 1, 1, microsecond=1, tzinfo=dt.UTC)
    for mode, place in (("changes", 2), ("upsert", 0)):
        first, second, third = rows_of(postgres, f'SELECT * FROM "{quoted}{mode}" ORDER BY ts')
        assert first[place : place + 12] == (instant, *full[1:])
        assert first[place + 12 : place + 15] == (full[7], full[7], dt.timedelta(seconds=90))
        assert first[place + 15 : place + 18] == (2**63 - 1,) * 3
        assert second[place + 1 : place + 12] == (None,) * 11
        assert (third[place + 4], str(third[place + 5]), third[place + 7], third[place + 8]) == (float("inf"), "nan", "", b"")


@pytest.mark.parametrize("table", ["x'::text;drop table victim;commit;--", "it's", "50%s of %", "{table}", "Ünï \\"])
@pytest.mark.parametrize("mode", ["changes", "upsert"])
def test_a_table_may_have_any_name_and_none_is_run_as_sql(postgres: str, tmp_path: Path, table: str, mode: str) -> None:
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS victim (n int)")
    name = f"{mode} {table}"
    literal = name.replace("\\", "\\\\").replace("'", "''")
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; CREATE QUERY q AS SELECT k, v AS `100%s {{own}}`, v AS `it's` FROM s")
        db.execute(f"CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{postgres}', table '{literal}', mode '{mode}')")
        feed(db)
        assert troubles(db) == [("running", None)]
        expected = db.query("q").changes().num_rows if mode == "changes" else db.query("q").result().num_rows
    assert rows_of(postgres, "SELECT count(*) FROM victim") == [(0,)]
    quoted = name.replace('"', '""')
    assert rows_of(postgres, f'SELECT count(*) FROM "{quoted}"') == [(expected,)]
    assert rows_of(postgres, f"SELECT column_name FROM information_schema.columns WHERE table_name = '{name.replace(chr(39), chr(39) * 2)}'"
                             " AND column_name LIKE '100%'") == [("100%s {own}",)]  # fmt: skip


@pytest.mark.parametrize("mode", ["changes", "upsert"])
def test_a_schema_may_have_any_name_too(postgres: str, tmp_path: Path, mode: str) -> None:
    with psycopg.connect(postgres) as connection:
        connection.execute(f'CREATE SCHEMA "{mode} a%sb %% {{notes}}"'.encode())
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; CREATE QUERY q AS SELECT k, v AS `100%s` FROM s")
        options = f"url '{postgres}', schema '{mode} a%sb %% {{notes}}', table 't%s', mode '{mode}'"
        db.execute(f"CREATE SINK o FROM q INTO 'postgres' OPTIONS ({options})")
        feed(db)
        assert troubles(db) == [("running", None)]
        expected = db.query("q").changes().num_rows if mode == "changes" else db.query("q").result().num_rows
    assert rows_of(postgres, f'SELECT count(*) FROM "{mode} a%sb %% {{notes}}"."t%s"') == [(expected,)]


def test_decimals_inside_of_others_keep_their_digits(postgres: str, tmp_path: Path) -> None:
    great = "1234567890123456789012345678.1234567891"
    with open_inline(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, d DECIMAL(38,10)) TIMESTAMP BY ts; CREATE QUERY q AS SELECT array(d) AS a FROM s")
        db.execute(f"CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{postgres}', table 'digits')")
        db.insert("s", [(1, Decimal(great))])
        db.advance(1)
        db.flush()
    assert rows_of(postgres, "SELECT a::text FROM digits") == [(f"[{great}]",)]


def test_nested_values_that_json_has_no_number_for_are_texts(postgres: str, tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, x DOUBLE) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT array(x, 1.5D) AS a, named_struct('x', x, 'at', ts) AS st FROM s")
        db.execute(f"CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{postgres}', table 'not_numbers')")
        db.insert("s", [(1, float("nan")), (2, float("-inf"))])
        db.advance(2)
        db.flush()
        assert troubles(db) == [("running", None)]
    assert rows_of(postgres, "SELECT a, st FROM not_numbers ORDER BY instant") == [
        (["NaN", 1.5], {"x": "NaN", "at": "1970-01-01T00:00:00.000001Z"}),
        (["-Infinity", 1.5], {"x": "-Infinity", "at": "1970-01-01T00:00:00.000002Z"}),
    ]


@pytest.mark.parametrize("column", ["ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"])
def test_system_columns_are_refused(column: str, tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; CREATE QUERY q AS SELECT k AS {column} FROM s")
        with pytest.raises(ConfigInvalid, match=f'cannot write column "{column}"'):
            db.execute("CREATE SINK o FROM q INTO 'postgres' OPTIONS (url 'postgresql://h/d', table 't')")


relations = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b", "", None]), st.one_of(st.none(), st.integers(0, 2))), max_size=6), min_size=1, max_size=5
)


@settings(max_examples=8)
@given(relations)
def test_a_bag_that_changes_at_random_is_kept_exactly(
    postgres: str, tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str | None, int | None]]]
) -> None:
    """Equal rows, NULLs, rows that go and come in one batch: the table is the relation after every flush."""
    table = f"bag_{tmp_path_factory.mktemp('bag').name}"
    with open_inline(tmp_path_factory.mktemp("db")) as db:
        db.execute("CREATE STREAM clock (ts TIMESTAMP) TIMESTAMP BY ts; CREATE RELATION r (k STRING, v INT)")
        db.execute("CREATE QUERY q AS SELECT k, v FROM r")
        db.execute(f"CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{postgres}', table '{table}', mode 'upsert')")
        before: list[tuple[str | None, int | None]] = []
        for t, rows in enumerate(steps):
            if before:
                db.delete("r", before)
            if rows:
                db.insert("r", rows)
            before = rows
            db.advance("clock", 10 * t + 10)
            db.flush()
            assert troubles(db) == [("running", None)]
            there = rows_of(postgres, f"SELECT k, v FROM {table}") if t else None
            assert there is None or Counter(there) == Counter(rows)


def test_a_relation_table_with_rows_of_others_is_refused(postgres: str, tmp_path: Path) -> None:
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE taken (k text, v int, _millstream_row bytea, _millstream_copy bigint)")
        connection.execute("INSERT INTO taken VALUES ('mine', 1)")
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{postgres}', table 'taken', mode 'upsert')")
        feed(db)
        ((state, error),) = troubles(db)
        assert state == "stopped"
        assert "not its own" in str(error)
    assert rows_of(postgres, "SELECT k FROM taken") == [("mine",)]


def test_a_table_that_somebody_changed_is_noticed(postgres: str, tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{postgres}', table 'meddled', mode 'upsert')")
        feed(db)
        with psycopg.connect(postgres) as connection:
            connection.execute("DELETE FROM meddled")
        db.advance(200)
        db.flush()
        ((state, error),) = troubles(db)
        assert state == "retrying"
        assert "changed by somebody else" in str(error)


def test_two_sinks_that_believe_to_be_the_same_deliver_once(postgres: str, tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{postgres}', table 'twins')")
        feed(db)
        sinks = db._statements.sinks
        ((entry, _),) = sinks
        running = db._engine.queries["q"]
        target = sinks._target(entry, running)
        first, second = module.PostgresSink(target), module.PostgresSink(target)
        batch = running.changelog.read().slice(0, 3)
        count = len(rows_of(postgres, "SELECT 1 FROM twins"))
        first.deliver(batch, first.position() + 1)
        with pytest.raises(Exception, match="changed by somebody else"):
            second.deliver(batch, second.position() + 1)
        assert len(rows_of(postgres, "SELECT 1 FROM twins")) == count + 3
        assert module.PostgresSink(target).position() == first.position()


def test_a_wrong_password_shows_in_show_sinks_and_nowhere_what_it_was(
    postgres: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = postgres.split("?")[1]
    monkeypatch.setenv("MILLSTREAM_TEST_PASSWORD", PASSWORD)
    wrong = f"postgresql://millstream:wr0ng-pass@localhost/postgres?{host}"
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{wrong}', table 'never')")
        feed(db)
        ((state, error),) = troubles(db)
        assert state == "retrying"
        assert "password authentication failed" in str(error)
        assert "wr0ng-pass" not in str(error) + caplog.text + str(db.execute("DESCRIBE o")) + str(db.definition("o"))
        # the password comes from the environment: nothing on disk holds it
        right = f"postgresql://millstream:${{env:MILLSTREAM_TEST_PASSWORD}}@localhost/postgres?{host}"
        db.execute(f"DROP SINK o; CREATE SINK o FROM q INTO 'postgres' OPTIONS (url '{right}', table 'from_environment')")
        db.flush()
        assert troubles(db) == [("running", None)]
    assert len(rows_of(postgres, "SELECT 1 FROM from_environment")) > 50
    held = b"".join(path.read_bytes() for path in (tmp_path / "db").rglob("*") if path.is_file())
    assert PASSWORD.encode() not in held
    assert b"it%27s" not in held


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ("table 't'", 'needs the option "url"'),
        ("url 'postgresql://h/d'", 'needs the option "table"'),
        ("url 'postgresql://h/d', table 't', mode 'sideways'", 'no mode "sideways"'),
        ("url 'postgresql://h/d', tabel 't'", 'no option "tabel"'),
        (f"url 'postgresql://h/d', table '{'t' * 64}'", "PostgreSQL cannot hold"),
        ("url 'postgresql://h/d', table 'millstream_sinks'", "keeps its own notes"),
        ("url 'postgresql://h/d', table 'millstream_net', schema 'other'", "keeps its own notes"),
    ],
)
def test_wrong_options_are_refused(options: str, match: str, tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}")
        with pytest.raises(ConfigInvalid, match=match):
            db.execute(f"CREATE SINK o FROM q INTO 'postgres' OPTIONS ({options})")


def test_without_the_driver_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_driver", False)
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}")
        with pytest.raises(ConfigInvalid, match="psycopg") as caught:
            db.execute("CREATE SINK o FROM q INTO 'postgres' OPTIONS (url 'postgresql://h/d', table 't')")
        assert "millstream[postgres]" in str(caught.value.hint)
