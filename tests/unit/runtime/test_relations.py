"""Changes of relations as users make them: in the order of their instants, true to the primary key, refused with the place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import (
    AlreadyExists,
    ArityMismatch,
    ColumnNotFound,
    DuplicateColumn,
    InstantPassed,
    MillstreamError,
    TypeMismatch,
)
from millstream.operators.evaluator import Evaluator
from millstream.state.relation_log import RelationLog
from millstream.state.scheduled import ScheduledChanges

S = 1_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = open_inline(tmp_path / "db")
    database.execute("CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts")
    database.execute("CREATE RELATION n (k STRING, v INT)")
    database.execute("CREATE RELATION r (k INT PRIMARY KEY, v INT)")
    database.execute("CREATE RELATION t (ts TIMESTAMP, i INT, x DOUBLE)")
    yield database
    database.close()


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    table = db.execute(sql)
    assert isinstance(table, pa.Table)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def underlined(error: MillstreamError) -> str:
    assert error.sql is not None
    assert error.span is not None
    return error.sql[error.span.start : error.span.end]


# --- order of instants


def test_a_change_may_come_before_one_that_waits_for_its_instant(db: Database) -> None:
    db.insert("n", [("a", 1)])
    db.advance(0)
    db.execute("DELETE FROM n WHERE k = 'a' AT TIMESTAMP '1970-01-01T00:00:20Z'")
    db.execute("UPDATE n SET v = v + 1 AT TIMESTAMP '1970-01-01T00:00:10Z'")
    db.insert("n", [("a", 5), ("b", 1)])
    assert rows(db, "SELECT * FROM n") == [("a", 1), ("a", 5), ("b", 1)]
    db.advance(10 * S)
    assert rows(db, "SELECT * FROM n") == [("a", 2), ("a", 6), ("b", 2)]
    db.insert("n", [("a", 7)])
    db.advance(20 * S)
    db.insert("n", [("a", 8)])
    assert rows(db, "SELECT * FROM n") == [("a", 8), ("b", 2)]


def test_an_upsert_that_waited_takes_the_place_of_the_row_that_is_there_then(db: Database) -> None:
    db.insert("r", [(1, 1)])
    db.advance(0)
    db.insert("r", [(1, 20)], at=20 * S)
    db.insert("r", [(1, 10)], at=10 * S)
    db.insert("r", [(1, 2), (2, 2)])
    for until, expected in ((5, [(1, 2), (2, 2)]), (15, [(1, 10), (2, 2)]), (25, [(1, 20), (2, 2)])):
        db.advance(until * S)
        assert rows(db, "SELECT * FROM r") == expected


def test_what_waits_outlives_a_restart_and_happens_once(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts")
        db.execute("CREATE RELATION n (k STRING, v INT)")
        db.advance(0)
        db.insert("n", [("a", 1)], at=60 * S)
        db.execute("UPDATE n SET v = CAST(v AS STRING) AT TIMESTAMP '1970-01-01T00:01:01Z'")
        db.execute("UPDATE n SET v = v * 10 WHERE k = 'a' AT TIMESTAMP '1970-01-01T00:01:01Z'")
        db.delete("n", [("b", 2)], at=62 * S)
    with open_inline(tmp_path) as db:
        db.insert("n", [("b", 2), ("b", 3)])
        db.advance(61 * S)
        assert rows(db, "SELECT * FROM n") == [("a", 10), ("b", 2), ("b", 3)]
    with open_inline(tmp_path) as db:
        db.advance(70 * S)
        assert rows(db, "SELECT * FROM n") == [("a", 10), ("b", 3)]
    with open_inline(tmp_path) as db:
        assert rows(db, "SELECT * FROM n") == [("a", 10), ("b", 3)]


def test_a_crash_before_the_end_of_its_file_repeats_no_change(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts")
        db.execute("CREATE RELATION n (k STRING, v INT)")
        db.advance(0)
        db.insert("n", [("a", 1)], at=60 * S)
        db.insert("n", [("b", 1)], at=80 * S)
        db.advance(70 * S)
        with patch.object(ScheduledChanges, "remove"):
            assert rows(db, "SELECT * FROM n") == [("a", 1)]
    with open_inline(tmp_path) as db:
        db.advance(90 * S)
        assert rows(db, "SELECT * FROM n") == [("a", 1), ("b", 1)]


def test_an_update_that_cannot_be_made_at_its_instant_changes_nothing(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    db.insert("r", [(1, 1)])
    db.advance(0)
    db.execute("UPDATE r SET k = 2 WHERE k = 1 AT TIMESTAMP '1970-01-01T00:00:20Z'")
    db.insert("r", [(2, 2)])
    db.advance(20 * S)
    assert rows(db, "SELECT * FROM r") == [(1, 1), (2, 2)]
    assert [record.levelname for record in caplog.records if "at its instant" in record.message] == ["ERROR"]


def test_a_mistake_in_a_change_that_waits_is_told_at_once(db: Database) -> None:
    db.insert("r", [(1, 1), (2, 2)])
    db.advance(0)
    with pytest.raises(AlreadyExists, match="more than one row with the primary key k = 7"):
        db.execute("UPDATE r SET k = 7 AT TIMESTAMP '1970-01-01T00:00:20Z'")
    with pytest.raises(TypeMismatch, match="cannot be NULL"):
        db.insert("r", [(None, 1)], at=20 * S)
    assert db.delete("r", [(1, 1), (5, 5)], at=20 * S) == 1
    db.advance(20 * S)
    assert rows(db, "SELECT * FROM r") == [(2, 2)]


def test_changes_of_one_instant_see_each_other(db: Database) -> None:
    db.advance(0)
    at = "AT TIMESTAMP '1970-01-01T00:00:20Z'"
    db.execute(f"INSERT INTO n VALUES ('a', 1) {at}")
    db.execute(f"UPDATE n SET v = v + 1 {at}")
    db.execute(f"UPDATE n SET v = v * 10 {at}")
    db.advance(20 * S)
    assert rows(db, "SELECT * FROM n") == [("a", 20)]


def test_the_default_instant_may_be_named(db: Database) -> None:
    db.advance(10 * S)
    with pytest.raises(InstantPassed, match=r"00:10Z has passed: a change takes effect at 1970-01-01T00:00:10\.000001Z at the earliest"):
        db.insert("n", [("a", 1)], at=10 * S)
    db.insert("n", [("a", 1)], at=10 * S + 1)
    db.insert("n", [("b", 1)])
    assert rows(db, "SELECT k FROM n") == [("a",), ("b",)]


# --- primary keys


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("UPDATE r SET k = 1", "more than one row with the primary key k = 1"),
        ("UPDATE r SET k = 2 WHERE v = 10", "more than one row with the primary key k = 2"),
        ("UPDATE r SET k = 7 WHERE k > 1", "more than one row with the primary key k = 7"),
    ],
)
def test_an_update_cannot_make_two_rows_of_one_key(db: Database, update: str, message: str) -> None:
    db.insert("r", [(1, 10), (2, 20), (3, 30)])
    with pytest.raises(AlreadyExists, match=message):
        db.execute(update)
    assert rows(db, "SELECT * FROM r") == [(1, 10), (2, 20), (3, 30)]


def test_an_update_may_shift_keys(db: Database) -> None:
    db.insert("r", [(1, 10), (2, 20), (3, 30)])
    db.execute("UPDATE r SET k = k + 1")
    db.execute("UPDATE r SET v = 0 WHERE k = 2")
    assert rows(db, "SELECT * FROM r") == [(2, 0), (3, 20), (4, 30)]


@pytest.mark.parametrize("change", ["INSERT INTO r VALUES (NULL, 1)", "INSERT INTO r (v) VALUES (1)", "UPDATE r SET k = NULL WHERE k = 1"])
def test_a_primary_key_is_never_null(db: Database, change: str) -> None:
    db.insert("r", [(1, 10)])
    with pytest.raises(TypeMismatch, match='column "k" of "r" is in its PRIMARY KEY and cannot be NULL'):
        db.execute(change)
    with pytest.raises(TypeMismatch):
        db.insert("r", [(2, 20), (None, 1)])
    assert rows(db, "SELECT * FROM r") == [(1, 10)]


def test_the_relation_is_read_once_however_many_upserts_come(db: Database) -> None:
    db.insert("r", [(k, 0) for k in range(100)])
    with patch.object(RelationLog, "contents", autospec=True, side_effect=RelationLog.contents) as read:
        for k in range(5):
            db.insert("r", [(k, 1), (100 + k, 1)])
            db.delete("r", [(50 + k, 0)])
            db.execute(f"UPDATE r SET k = k + 1000 WHERE k = {k}")
    assert read.call_count <= 1
    assert rows(db, "SELECT count(*), sum(v), max(k) FROM r") == [(100, 10, 1004)]


def test_keys_that_are_equal_but_not_the_same_bits_are_one_key(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts; CREATE RELATION d (k DOUBLE PRIMARY KEY, v INT)")
        db.advance(0)
        for k in (0.0, -0.0, 0.0, float("nan"), float("nan")):
            db.insert("d", [(k, 1)])
        assert rows(db, "SELECT count(*) FROM d") == [(2,)]
    with open_inline(tmp_path) as db:
        db.insert("d", [(-0.0, 2)])
        assert rows(db, "SELECT v FROM d") == [(1,), (2,)]


# --- values


def test_an_update_refuses_what_does_not_fit(db: Database) -> None:
    db.insert("r", [(1, 10), (2, 20)])
    with pytest.raises(TypeMismatch, match="column \"v\" takes INT, not 'x'") as raised:
        db.execute("UPDATE r SET v = 'x' WHERE k = 1")
    assert underlined(raised.value) == "'x'"
    with pytest.raises(TypeMismatch, match='column "v" takes INT, not concat'):
        db.execute("UPDATE r SET v = concat(k, CASE WHEN k = 2 THEN 'y' ELSE '' END)")
    assert rows(db, "SELECT * FROM r") == [(1, 10), (2, 20)]


def test_an_update_takes_what_fits_and_null(db: Database) -> None:
    db.insert("r", [(1, 10), (2, 20)])
    db.execute("UPDATE r SET v = '7' WHERE k = 1")
    db.execute("UPDATE r SET v = NULL WHERE k = 2")
    assert rows(db, "SELECT k, coalesce(v, -1) AS v FROM r") == [(1, 7), (2, -1)]
    db.execute("UPDATE r SET v = 1 / 0 WHERE k = 1")  # what cannot be computed is NULL
    assert rows(db, "SELECT k, coalesce(v, -1) AS v FROM r") == [(1, -1), (2, -1)]


def test_an_insert_names_a_column_once(db: Database) -> None:
    with pytest.raises(DuplicateColumn, match='column "k" is named twice') as raised:
        db.execute("INSERT INTO r (k, K) VALUES (1, 2)")
    assert underlined(raised.value) == "K"
    assert rows(db, "SELECT * FROM r") == []


def test_an_update_of_an_unknown_column_underlines_its_name(db: Database) -> None:
    with pytest.raises(ColumnNotFound) as raised:
        db.execute("UPDATE r SET v = 2, zz = 1")
    assert underlined(raised.value) == "zz"
    assert raised.value.hint == "Columns: k INT, v INT."
    with pytest.raises(ColumnNotFound) as raised:
        db.execute("UPDATE t SET ii = 1")
    assert raised.value.hint == 'Did you mean "i"?'


@pytest.mark.parametrize(
    ("values", "message", "place"),
    [
        ("'x', 1, 1.5", "column \"ts\" takes TIMESTAMP, not 'x'", "'x'"),
        ("NULL, 'y', 1.5", "column \"i\" takes INT, not 'y'", "'y'"),
        ("NULL, 3000000000 + 1, 1.5", 'column "i" takes INT, not 3000000000 + 1', "3000000000 + 1"),
    ],
)
def test_an_insert_shows_the_value_as_it_was_written(db: Database, values: str, message: str, place: str) -> None:
    with pytest.raises(TypeMismatch) as raised:
        db.execute(f"INSERT INTO t VALUES (NULL, 1, 2.5), ({values})")
    assert raised.value.message == message
    assert underlined(raised.value) == place
    assert rows(db, "SELECT * FROM t") == []


def test_values_are_counted_in_english(db: Database) -> None:
    with pytest.raises(ArityMismatch, match="1 value for 3 columns"):
        db.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(ArityMismatch, match="2 values for 1 column"):
        db.execute("INSERT INTO t (i) VALUES (1, 2)")


def test_rows_beyond_one_query_of_constants_stay_in_order(db: Database) -> None:
    values = ", ".join(f"({i}, {i * 2})" for i in range(700))
    db.execute(f"INSERT INTO r (k, v) VALUES {values}")
    assert rows(db, "SELECT * FROM r") == [(i, i * 2) for i in range(700)]


# --- cost


def test_inserts_share_a_connection_and_ask_once(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("INSERT INTO t VALUES (NULL, 1, 2.5)")
    asked: list[int] = []
    constants = Evaluator.constants

    def counted(self: Evaluator, cells: Any) -> list[pa.Array]:
        asked.append(len(cells))
        return constants(self, cells)

    monkeypatch.setattr(Evaluator, "constants", counted)
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: pytest.fail("a connection for each statement"))
    for i in range(3):
        db.execute(f"INSERT INTO t VALUES (NULL, {i}, 2.5), (NULL, {i}, 3.5)")
    assert asked == [6, 6, 6]


def test_databases_in_many_threads_share_the_evaluator(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def fill(number: int) -> None:
        try:
            with open_inline(tmp_path / str(number)) as db:
                db.execute("CREATE RELATION r (k INT PRIMARY KEY, v INT)")
                for i in range(10):
                    db.execute(f"INSERT INTO r VALUES ({i}, {number})")
                assert rows(db, "SELECT * FROM r") == [(i, number) for i in range(10)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_time_does_not_go_back_with_a_dropped_stream(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts; CREATE RELATION r (k INT, v INT)")
        db.advance(10_000_000)
        db.insert("r", [(1, 1)])
        db.execute("DROP STREAM s")
        db.insert("r", [(2, 2)])
    with open_inline(tmp_path) as db:
        db.insert("r", [(3, 3)])
        rows = db.execute("SELECT k FROM r ORDER BY k")
        assert isinstance(rows, pa.Table)
        assert rows.column("k").to_pylist() == [1, 2, 3]


def test_what_was_told_of_the_beginning_stays_told_after_a_restart(tmp_path: Path) -> None:
    """A query that answered before there was any frontier went back behind its answer when the database was closed."""
    with open_inline(tmp_path / "told") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts")
        db.execute("CREATE RELATION n (k STRING, v INT)")
        db.execute("CREATE QUERY q AS SELECT k FROM n")
        db.insert("n", [("a", 1)])
        told = db.query("q").changes().to_pylist()
        db.insert("n", [("b", 1)])
    with open_inline(tmp_path / "told") as db:
        db.insert("n", [("c", 1)])
        db.insert("s", [(5 * S, 1), (6 * S, 1)])
        db.flush()
        changes = db.query("q").changes().to_pylist()
    assert changes[: len(told)] == told
    assert [(row["k"], row["instant"] > told[0]["instant"]) for row in changes] == [("a", False), ("b", True), ("c", True)]
