"""SYS: a stream that every database has, that the engine alone writes, and that costs nothing while nobody reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database, Query, connect
from millstream.core.errors import AlreadyExists, ConfigInvalid, MillstreamError, NotSupported, RelationNotFound
from millstream.core.instant import UNITS
from millstream.runtime.clock import Clock
from millstream.state.location import Location
from unit.runtime.manual_clock import STARTED, ManualClock

SECOND = 1_000_000
MONITOR = "CREATE QUERY m AS SELECT kind, query, entity, property, value FROM SYS [RANGE 1 MINUTE]"


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    with open_inline(tmp_path, clock=clock.clock) as database:
        database.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        database.execute("CREATE QUERY q AS SELECT k, sum(v) AS n FROM s [RANGE 10 SECONDS] GROUP BY k")
        yield database


def feed(db: Database, at: int) -> None:
    db.insert("s", [(at * SECOND, "a", 1), (at * SECOND, "b", 2)])
    db.advance(at * SECOND)
    db.flush()


def told(db: Database) -> dict[tuple[str, str, str], float]:
    """What the monitor knows, by kind, entity and property; the last report only."""
    rows = db.query("m").result().to_pylist()
    return {(row["kind"], row["entity"], row["property"]): row["value"] for row in rows}


def rows_on_sys(db: Database) -> int:
    shown = db.execute("SHOW STREAMS")
    assert isinstance(shown, pa.Table)
    return dict(zip(shown.column("name").to_pylist(), shown.column("rows").to_pylist(), strict=True))["SYS"]


def reports(db: Database) -> int:
    return len(db.query("m").changes().filter(pa.compute.field("property") == "tick_seconds"))


def test_it_says_what_stats_says(db: Database) -> None:
    db.execute(MONITOR)
    feed(db, 1)
    stats, said = db.query("q").stats(), told(db)
    assert said["query", "q", "rows_in"] == stats["rows_in"] == 2
    assert said["query", "q", "state_bytes"] == stats["state_bytes"] > 0
    assert said["query", "q", "output_delay_max"] == stats["output_delay"]["max"]
    for operator in stats["operators"]:
        entity = f"{operator['fragment']}.{operator['place']} {operator['operator']}"
        assert said["operator", entity, "rows_in+"] == operator["rows_in"]["+"]
        assert said["operator", entity, "rows_out-"] == operator["rows_out"]["-"]
        assert said["operator", entity, "selectivity"] == operator["selectivity"]
        queue = entity.replace(" ", ".0 ", 1)
        assert {name: said["queue", queue, name] for name in ("put", "taken", "waiting", "most_waiting")} == operator["queues"][0]
    assert said["stream", "s", "rows"] == 2
    assert said["stream", "s", "frontier"] == 1.0
    assert said["engine", "engine", "queries"] == 2


def test_nobody_reads_nobody_pays(db: Database, tmp_path: Path) -> None:
    feed(db, 1)
    assert not (tmp_path / "streams" / "SYS").exists(), "not even a file"
    assert rows_on_sys(db) == 0
    db.execute(MONITOR)
    feed(db, 2)
    some = rows_on_sys(db)
    assert some > 0
    db.query("m").stop()
    feed(db, 3)
    assert rows_on_sys(db) == some, "a stopped query is no reader"


def test_it_does_not_feed_itself(db: Database, clock: ManualClock) -> None:
    db.execute(MONITOR)
    feed(db, 1)
    rows = rows_on_sys(db)
    for _ in range(3):
        clock.seconds += 10.0
        db.flush()
    assert rows_on_sys(db) == rows
    assert db._engine.tick() is None


def test_nor_through_a_query_that_also_reads_other_streams(db: Database, clock: ManualClock) -> None:
    db.execute("CREATE QUERY m AS SELECT y.property, y.value FROM SYS [RANGE 1 HOUR] AS y, s [RANGE 1 HOUR] AS x WHERE x.v = 1")
    db.insert("s", [(2 * STARTED, "a", 1)])
    db.flush()
    rows = rows_on_sys(db)
    for _ in range(3):
        clock.seconds += 10.0
        db.flush()
    assert rows_on_sys(db) == rows > 0


def test_queries_over_queries_are_told_of_when_all_is_done(db: Database) -> None:
    db.execute("CREATE QUERY q2 AS SELECT count(*) AS groups FROM q")
    db.execute("CREATE QUERY q3 AS SELECT groups + 1 AS more FROM q2")
    db.execute(MONITOR)
    feed(db, 1)
    said = told(db)
    for name in ("q", "q2", "q3"):
        assert said["query", name, "changes"] == db.query(name).stats()["changes"] > 0


def test_at_most_one_report_in_an_interval(tmp_path: Path, clock: ManualClock) -> None:
    """As with a ticker, which is not started here."""
    db = Database(Location.open(tmp_path, buckets=1), InlineRunner(), tick_interval=1e9, sys_interval=1.0, clock=clock.clock)
    with db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT k FROM s [NOW]")
        db.execute(MONITOR)
        for i in range(1, 4):
            feed(db, i)
        assert reports(db) == 1
        clock.seconds = 0.9
        feed(db, 4)
        assert reports(db) == 1
        clock.seconds = 1.0
        db.flush()
        assert reports(db) == 2, "what was left to tell"
        clock.seconds = 9.0
        db.flush()
        assert reports(db) == 2


def test_under_load_reports_do_not_wait_for_its_end(tmp_path: Path, clock: ManualClock) -> None:
    db = Database(Location.open(tmp_path, buckets=1), InlineRunner(), tick_interval=1e9, sys_interval=1.0, clock=clock.clock)
    with db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT k FROM s [NOW]")
        db.execute(MONITOR)
        db.flush()
        for i in range(1, 4):
            db.insert("s", [(i * SECOND, "a", 1)])
            clock.seconds += 1.0
            assert db._engine.tick() is not None  # there is always something due when it is looked
        assert reports(db) >= 3


def test_with_an_interval_of_none_there_are_no_reports(tmp_path: Path) -> None:
    with open_inline(tmp_path, sys_interval=None) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        db.execute(MONITOR)
        feed(db, 1)
        assert rows_on_sys(db) == 0


@pytest.mark.parametrize("interval", [0, -1, "1", True, float("inf")])
def test_intervals_that_are_none(interval: Any) -> None:
    with pytest.raises(ConfigInvalid, match="sys_interval"):
        connect(sys_interval=interval)


def test_a_clock_that_goes_back_makes_no_row_late(db: Database, clock: ManualClock) -> None:
    db.execute(MONITOR)
    feed(db, 1)
    clock.set_back_s = 100.0
    feed(db, 2)
    assert reports(db) == 2
    assert [row["late"] for row in db.execute("SHOW STREAMS").to_pylist()] == [0, 0]


def test_it_survives_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    with open_inline(tmp_path, clock=clock.clock) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        db.execute("CREATE QUERY m AS SELECT kind, query, entity, property, value FROM sys [RANGE 1 MINUTE] WHERE kind = 'stream'")
        feed(db, 1)
        before = db.query("m").result()
        assert len(before)
    with open_inline(tmp_path, clock=clock.clock) as db:
        assert db.query("m").result().equals(before)
        assert rows_on_sys(db) > 0
        clock.seconds = 1.0
        feed(db, 2)
        assert reports_of(db.query("m"), "rows") == 2
        late = db.execute("CREATE QUERY late AS SELECT count(*) AS n FROM Sys [RANGE 1 MINUTE] WHERE entity = 's' AND property = 'rows'")
        assert isinstance(late, Query)
        assert late.result().to_pylist() == [{"n": 2}], "a new query sees what is retained, those before the restart included"


def reports_of(query: Query, property_: str) -> int:
    return len({row["value"] for row in query.changes().to_pylist() if row["property"] == property_ and row["entity"] == "s"})


def test_it_is_kept_for_an_hour(db: Database, clock: ManualClock) -> None:
    db.execute("CREATE QUERY m AS SELECT kind, entity, property, value FROM SYS [NOW]")
    feed(db, 1)
    first = rows_in_log(db)
    clock.seconds = 2 * UNITS["HOUR"] / SECOND
    feed(db, 2)
    with db._engine.lock:
        db._engine.rounds.run([db._engine.queries["m"]], snapshot=True)  # replays start here: nothing before is needed
    db._engine.maintain()
    assert rows_in_log(db) < 2 * first


def rows_in_log(db: Database) -> int:
    return db._engine.streams["SYS"].log.rows_total


def test_the_time_of_the_data_is_its_own(db: Database) -> None:
    """Neither do relations change by SYS's clock, nor does SYS move with the data's."""
    db.execute("CREATE RELATION r (v INT)")
    db.execute("CREATE QUERY of_r AS SELECT v FROM r")
    db.execute(MONITOR)
    feed(db, 1)
    db.insert("r", [(1,)])
    db.advance(20 * SECOND)
    db.flush()
    assert db.query("of_r").changes().column("instant").cast(pa.int64()).to_pylist() == [SECOND + 1]
    frontier = db._engine.streams["SYS"].frontier
    db.advance(10 * STARTED)
    db.await_drained()
    assert db._engine.streams["SYS"].frontier - frontier < 10, "only reports move it"


@pytest.mark.parametrize("name", ["SYS", "sys", "Sys"])
def test_its_name_is_taken_and_it_is_not_the_users(db: Database, name: str) -> None:
    refused: list[tuple[type[MillstreamError], str]] = [
        (AlreadyExists, f"CREATE STREAM {name} (ts TIMESTAMP) TIMESTAMP BY ts"),
        (AlreadyExists, f"CREATE STREAM IF NOT EXISTS {name} (ts TIMESTAMP) TIMESTAMP BY ts"),
        (AlreadyExists, f"CREATE RELATION {name} (v INT)"),
        (AlreadyExists, f"CREATE QUERY {name} AS SELECT v FROM s"),
        (AlreadyExists, f"CREATE SINK {name} FROM q INTO 'console'"),
        (NotSupported, f"DROP STREAM {name}"),
        (NotSupported, f"DROP STREAM IF EXISTS {name}"),
        (NotSupported, f"INSERT INTO {name} VALUES (TIMESTAMP '2026-01-01', 'query', 'q', 'q', 'rows', 1.0)"),
        (RelationNotFound, f"DELETE FROM {name}"),
    ]
    for kind, sql in refused:
        with pytest.raises(kind, match="SYS") as caught:
            db.execute(sql)
        assert caught.value.hint or kind is RelationNotFound, sql
    for call in (lambda: db.insert(name, []), lambda: db.advance(name, 0)):
        with pytest.raises(NotSupported, match="only the engine"):
            call()
    assert db.execute("SHOW STREAMS").column("name").to_pylist() == ["s", "SYS"]


def test_it_is_described(db: Database) -> None:
    described = db.execute("DESCRIBE sys").to_pylist()
    assert [(row["column"], row["type"]) for row in described] == [
        ("ts", "TIMESTAMP"), ("kind", "STRING"), ("query", "STRING"), ("entity", "STRING"), ("property", "STRING"), ("value", "DOUBLE"),
    ]  # fmt: skip


def test_views_over_it(db: Database) -> None:
    db.execute(
        "CREATE QUERY selectivities AS SELECT query, entity, max(value) AS most "
        "FROM SYS [RANGE 1 MINUTE] WHERE property = 'selectivity' GROUP BY query, entity"
    )
    db.execute("CREATE QUERY of_q AS SELECT count(*) AS n FROM selectivities WHERE query = 'q'")
    feed(db, 1)
    assert db.query("of_q").result().to_pylist() == [{"n": 4}]  # its source and three operators
    assert db.execute("SELECT count(*) AS late FROM SYS.late").to_pylist() == [{"late": 0}]


def test_a_ticker_reports_by_itself(tmp_path: Path) -> None:
    """The real clock, and nobody calls flush."""
    db = Database(Location.open(tmp_path, buckets=1), InlineRunner(), tick_interval=0.01, sys_interval=0.01, clock=Clock())
    with db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT k FROM s [NOW]")
        monitor = db.execute("SELECT ISTREAM(value) FROM SYS [NOW] WHERE query = 'q' AND property = 'changes'")
        assert isinstance(monitor, Query)
        seen: list[float] = []
        done = threading.Event()

        def watch() -> None:
            for change in monitor.subscribe():
                seen.append(change.row[0])
                if change.row[0] == 2.0:
                    done.set()
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        db.insert("s", [(SECOND, "a", 1), (SECOND, "b", 1)])
        db.advance(SECOND)
        assert done.wait(60), f"SYS has told {seen}"
        monitor.stop()
        watcher.join(60)
