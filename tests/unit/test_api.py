"""The public surface, without a JVM."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from inline import open_inline
from millstream.api import Change, Database, connect
from millstream.core.errors import (
    AlreadyExists,
    ArityMismatch,
    ConfigInvalid,
    InstantPassed,
    InUse,
    LocationInUse,
    MillstreamError,
    NotSupported,
    QueryNotFound,
    StreamNotFound,
    TypeMismatch,
)
from millstream.core.instant import BEGINNING, to_datetime

DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
SUMS = "SELECT k, sum(v) AS total FROM s [RANGE 10 MICROSECONDS] GROUP BY k"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = open_inline(tmp_path / "db")
    database.execute(DDL)
    yield database
    database.close()


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def test_changes_have_the_promised_columns(db: Database) -> None:
    q = db.execute(SUMS)
    db.insert("s", [(0, "a", 5), (4, "a", 7)])
    db.advance(4)
    db.flush()
    changes = q.changes()
    assert changes.schema == pa.schema(
        [("instant", pa.timestamp("us", "UTC")), ("diff", pa.int8()), ("k", pa.string()), ("total", pa.int64())]
    )
    assert changes.column("diff").to_pylist() == [1, -1, 1]
    assert q.changes(since=0).num_rows == 2
    assert q.changes(since=to_datetime(4)).num_rows == 0


def test_result_at_an_earlier_instant(db: Database) -> None:
    q = db.execute(SUMS)
    unbounded = db.execute("SELECT k, v FROM s [UNBOUNDED]")
    db.insert("s", [(0, "a", 5), (4, "a", 7), (6, "b", 1)])
    db.advance(30)
    db.flush()
    assert rows(q.result()) == []
    assert rows(q.result(at=5)) == [("a", 12)]
    assert rows(q.result(at=to_datetime(11))) == [("a", 7), ("b", 1)]
    assert rows(q.result(at=-1)) == []
    assert rows(unbounded.result(at=4)) == [("a", 5), ("a", 7)]


def test_names_may_repeat_and_go_by_position(db: Database) -> None:
    q = db.execute("SELECT k, v, v AS k FROM s [UNBOUNDED]")
    db.insert("s", [(0, "a", 5)])
    db.advance(0)
    db.flush()
    assert q.changes().column_names == ["instant", "diff", "k", "v", "k"]
    assert rows(q.result()) == [("a", 5, 5)]
    assert [field.name for field in q.schema] == ["k", "v", "k"]


def test_a_global_aggregate_answers_before_any_event(db: Database) -> None:
    q = db.execute("SELECT count(*) AS n, sum(v) AS t FROM s [RANGE 5 MICROSECONDS]")
    assert q.changes().to_pylist() == [{"instant": to_datetime(BEGINNING), "diff": 1, "n": 0, "t": None}]
    assert rows(q.result()) == [(0, None)]


def test_a_query_created_late_answers_at_once_and_goes_on_exactly(db: Database) -> None:
    db.insert("s", [(0, "a", 5), (4, "a", 7), (20, "b", 1)])
    db.flush()
    late = db.execute(SUMS)
    everything = db.execute("SELECT k, v FROM s")
    assert rows(late.result()) == []
    db.insert("s", [(21, "b", 2), (40, "c", 1)])
    db.flush()
    instants = late.changes().column("instant").cast(pa.int64()).to_pylist()
    assert list(zip(instants, late.changes().column("diff").to_pylist(), late.changes().column("total").to_pylist(), strict=True)) == [
        (20, 1, 1), (21, -1, 1), (21, 1, 3), (31, -1, 3), (31, 1, 2), (32, -1, 2),
    ]  # fmt: skip
    assert rows(everything.result()) == [("b", 1), ("b", 2)]


def test_subscribe_sees_the_past_and_the_future_and_ends_with_the_query(db: Database) -> None:
    q = db.execute("SELECT v FROM s")
    db.insert("s", [(0, "a", 1), (1, "a", 2)])
    db.flush()
    seen: list[Change] = []
    first = threading.Event()

    def listen() -> None:
        for change in q.subscribe():
            seen.append(change)
            first.set()

    listener = threading.Thread(target=listen)
    listener.start()
    assert first.wait(10)
    db.insert("s", [(2, "a", 3)])
    db.advance(2)
    db.flush()
    q.stop()
    listener.join(10)
    assert not listener.is_alive()
    assert [(change.diff, change.row) for change in seen] == [(1, (1,)), (1, (2,)), (1, (3,))]
    assert seen[2].instant == dt.datetime(1970, 1, 1, 0, 0, 0, 2, tzinfo=dt.UTC)
    assert q.changes().num_rows == 3, "a stopped query can still be read"
    assert db.queries() == []


def test_a_statement_that_fails_leaves_nothing_behind(db: Database, tmp_path: Path) -> None:
    for wrong, error in [
        ("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts", AlreadyExists),
        ("CREATE QUERY s AS SELECT v FROM s", AlreadyExists),
        ("CREATE QUERY q AS SELECT w FROM s", MillstreamError),
        ("CREATE QUERY q AS SELECT k FROM s WHERE sum(v) OVER (ORDER BY ts) > 1", NotSupported),
        ("CREATE SINK o FROM q INTO 'console'", QueryNotFound),
        ("DROP STREAM t", StreamNotFound),
    ]:
        with pytest.raises(error):
            db.execute(wrong)
    db.execute(f"CREATE QUERY q AS {SUMS}")
    db.close()
    again = open_inline(tmp_path / "db")
    assert [stream.name for stream in again.streams()] == ["s"]
    assert [query.name for query in again.queries()] == ["q"]
    again.close()


def test_what_is_in_use_cannot_be_dropped(db: Database) -> None:
    db.execute(f"CREATE QUERY q AS {SUMS}")
    with pytest.raises(InUse, match="in use by q"):
        db.execute("DROP STREAM s")
    db.execute("DROP QUERY q; DROP STREAM s; DROP STREAM IF EXISTS s")
    assert db.streams() == []
    db.execute(DDL)
    db.execute(f"CREATE QUERY q AS {SUMS}")
    assert db.query("Q").changes().num_rows == 0, "a query of the same name begins anew"


def test_insert_into_a_strict_stream_is_all_or_nothing(db: Database) -> None:
    db.execute("DROP STREAM s")
    db.execute(f"{DDL} ON ERROR FAIL")
    with pytest.raises(TypeMismatch):
        db.insert("s", [(0, "a", 1), (1, "b", "two")])
    with pytest.raises(TypeMismatch, match="cannot be NULL"):
        db.insert("s", [(0, "a", 1), (None, "b", 2)])
    assert db.streams()[0].rows == 0
    with pytest.raises(StreamNotFound, match='"t"'):
        db.insert("t", [])


def test_two_openers_of_one_location(db: Database, tmp_path: Path) -> None:
    with pytest.raises(LocationInUse):
        open_inline(tmp_path / "db")


def test_a_closed_database_says_so(tmp_path: Path) -> None:
    with open_inline(tmp_path / "other") as database:
        pass
    with pytest.raises(ConfigInvalid, match="closed"):
        database.execute("SHOW STREAMS")
    database.close()


def test_everything_says_that_the_database_is_closed(db: Database) -> None:
    q = db.execute(f"CREATE QUERY q AS {SUMS}")
    db.insert("s", [(0, "a", 5)])
    db.flush()
    db.close()
    calls = [
        db.streams, db.queries, db.check, db.flush, q.changes, q.result, q.subscribe, q.explain,
        lambda: db.query("q"), lambda: db.explain(SUMS), lambda: db.definition("q"), lambda: db.advance(5), lambda: db.insert("s", []),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ConfigInvalid, match="closed"):
            call()
    q.stop()
    assert "q: relation" in repr(q)


def test_wrong_arguments_are_errors_of_ours(db: Database) -> None:
    q = db.execute(f"CREATE QUERY q AS {SUMS}")
    db.execute("CREATE RELATION r (k STRING)")
    for call in (
        lambda: db.insert(None, []),
        lambda: db.delete(None, []),
        lambda: db.query(None),
        lambda: db.definition(5),
        lambda: db.insert("r", [("a",)], at="x"),
        lambda: q.changes(since="x"),
        lambda: q.result(at="x"),
        lambda: q.subscribe(since="x"),
        lambda: db.advance("s"),
        lambda: db.advance(None),
        lambda: db.advance(None, 1),
        lambda: db.advance("s", dt.date(1970, 1, 1)),
        lambda: db.advance("s", "1970-01-01"),
        lambda: db.advance("s", 1.5),
        lambda: db.advance("s", True),
        lambda: db.advance("s", -(2**70)),
        lambda: db.execute(None),
        lambda: db.execute(b"SHOW STREAMS"),
        lambda: db.explain(None),
        lambda: db.stream("s", 5),
    ):
        with pytest.raises(TypeMismatch):
            call()
    for arguments in ((), ("s", 1, 2)):
        with pytest.raises(ArityMismatch):
            db.advance(*arguments)
    assert db.streams()[0].frontier < BEGINNING, "nothing was advanced"


@pytest.mark.parametrize(
    "options",
    [
        {"buckets": "a"},
        {"buckets": 0},
        {"buckets": True},
        {"location": 5},
        {"tick_interval": -1},
        {"tick_interval": 0},
        {"tick_interval": "1"},
    ],
)
def test_wrong_options_are_refused_before_anything_starts(options: dict[str, object]) -> None:
    with pytest.raises(ConfigInvalid):
        connect(**options)  # type: ignore[arg-type]


def test_a_sink_that_cannot_be_written_leaves_nothing_behind(db: Database) -> None:
    db.execute(f"CREATE QUERY q AS {SUMS}")
    with pytest.raises(ConfigInvalid, match="/proc/foo"):
        db.execute("CREATE SINK o FROM q INTO 'csv' OPTIONS (path '/proc/foo')")
    assert db.execute("SHOW SINKS").num_rows == 0


def test_an_answer_is_known_from_the_beginning_of_its_query_to_its_frontier(db: Database, tmp_path: Path) -> None:
    db.insert("s", [(0, "a", 5), (20, "b", 1)])
    q = db.execute(f"CREATE QUERY q AS {SUMS}")
    elements = db.execute("SELECT v FROM s")
    db.advance(25)
    db.flush()
    assert rows(q.result(at=19)) == []
    assert rows(q.result(at=25)) == [("b", 1)]
    for query in (q, elements):
        with pytest.raises(NotSupported, match=r"final only up to 1970-01-01T00:00:00.000025Z, not at 1970-01-01T00:00:00.000026Z"):
            query.result(at=26)
        with pytest.raises(InstantPassed, match=r"began at 1970-01-01T00:00:00.000019Z"):
            query.result(at=18)
    db.close()
    with open_inline(tmp_path / "db") as again, pytest.raises(InstantPassed, match="began at"):
        again.query("q").result(at=18)


def test_an_idle_stream_follows_the_wall_clock_in_flush(db: Database) -> None:
    db.execute("CREATE STREAM t (ts TIMESTAMP, v INT) TIMESTAMP BY ts IDLE TIMEOUT 1 SECOND")
    q = db.execute("SELECT v FROM t")
    db.insert("t", [(5, 7)])
    db.flush()
    assert q.result().num_rows == 0, "it has not been silent for long enough"
    db._engine.streams["t"].last_arrival -= 2
    db.flush()
    assert rows(q.result()) == [(7,)]


def test_the_page_of_a_query_shows_its_sql_as_text(db: Database) -> None:
    page = db.execute("SELECT k FROM s [NOW] WHERE k < '<script>'")._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_refused_queries_use_up_no_numbers(db: Database) -> None:
    for _ in range(3):
        with pytest.raises(MillstreamError):
            db.execute("SELECT w FROM s")
    assert [db.execute(SUMS).name, db.execute(SUMS).name] == ["query_1", "query_2"]
    db.queries()[0].stop()
    assert db.execute(SUMS).name == "query_3"


def test_relations(db: Database) -> None:
    db.execute("CREATE RELATION r (k STRING PRIMARY KEY, n INT)")
    db.execute("INSERT INTO r VALUES ('a', 1), ('b', 2), ('a', 3)")
    assert rows(db.execute("SELECT k, n FROM r")) == [("a", 3), ("b", 2)]
    db.execute("UPDATE r SET n = n + 10 WHERE k = 'b'; DELETE FROM r WHERE n = 3")
    assert rows(db.execute("SELECT * FROM r")) == [("b", 12)]
    db.insert("s", [(100, "a", 1)])
    db.insert("r", [("c", 7)], at=1_000)
    assert rows(db.execute("SELECT k FROM r")) == [("b",)], "not yet"
    db.advance(1_000)
    assert rows(db.execute("SELECT k FROM r")) == [("b",), ("c",)]
    with pytest.raises(InstantPassed):
        db.insert("r", [("d", 1)], at=500)
    with pytest.raises(InstantPassed):
        db.execute("DELETE FROM r AT TIMESTAMP '1970-01-01T00:00:00Z'")


def test_show_describe_explain(db: Database) -> None:
    db.execute(f"CREATE QUERY q AS {SUMS}")
    assert db.execute("SHOW STREAMS").column("name").to_pylist() == ["s", "SYS"]
    assert db.execute("SHOW QUERIES").column("state").to_pylist() == ["running"]
    assert db.execute("DESCRIBE s").to_pylist()[0] == {"column": "ts", "type": "TIMESTAMP", "note": "timestamp"}
    plan = "\n".join(db.execute(f"EXPLAIN {SUMS}").column("plan").to_pylist())
    assert "Window [RANGE 10 MICROSECONDS]" in plan
    assert plan == db.query("q").explain()


def test_session_queries_leave_no_files(db: Database, tmp_path: Path) -> None:
    db.execute(SUMS)
    db.flush()
    db.close()
    open_inline(tmp_path / "db").close()
    assert list((tmp_path / "db" / "queries").glob("*")) == []


def test_unknown_rule_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="push_filter_below_windows"):
        connect(rules_off=["push_filter_below_windows"])
