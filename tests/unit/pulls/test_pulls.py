"""When a relation from elsewhere is asked, who waits for the answer, and what becomes of troubles."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.errors import MillstreamError
from millstream.state.location import Location
from unit.pulls.other_side import JOINED, OtherSide, answer, shown
from unit.runtime.manual_clock import ManualClock

RELATION = "CREATE RELATION r (k STRING PRIMARY KEY, v INT) FROM 'elsewhere'"


@pytest.fixture
def other(db: Database) -> OtherSide:
    return OtherSide(db, [("a", 1), ("b", 2)])


def test_it_is_asked_when_a_query_begins_to_read_and_when_one_is_due_and_never_otherwise(
    db: Database, other: OtherSide, clock: ManualClock
) -> None:
    db.execute(RELATION)
    db.insert("s", [(1, "a")])
    db.execute("CREATE QUERY unconcerned AS SELECT k FROM s")
    clock.seconds += 100
    db.advance("s", 5)
    db.flush()
    assert other.asked == 0
    db.execute(f"CREATE QUERY q AS {JOINED}")
    assert (other.asked, answer(db, "q")) == (1, [("a", 1)])
    clock.seconds += 100
    db.flush()
    assert other.asked == 1, "nothing is due"
    db.advance("s", 6)
    db.flush()
    assert other.asked == 2


def test_at_most_once_in_a_tick_and_not_more_often_than_told(db: Database, other: OtherSide, clock: ManualClock) -> None:
    db.execute(f"{RELATION} REFRESH EVERY 10 SECONDS")
    db.execute(f"CREATE QUERY q AS {JOINED}; CREATE QUERY p AS {JOINED}")
    for second in range(1, 31):
        clock.seconds += 1
        db.advance("s", second)
        db.flush()
    assert other.asked == 4, "when q began, and every 10 of 30 seconds"


def test_what_changes_there_changes_here_at_the_present_instant(db: Database, other: OtherSide, clock: ManualClock) -> None:
    db.execute(RELATION)
    db.insert("s", [(1, "a"), (2, "b"), (3, "c")])
    db.execute(f"CREATE QUERY q AS {JOINED}")
    db.advance("s", 10)
    db.flush()
    other.rows, clock.seconds = [("a", 1), ("c", 3)], 1.0
    db.advance("s", 20)
    db.flush()
    assert answer(db, "q") == [("a", 1), ("b", 2)], "what became known at 20 holds from the next instant on"
    db.advance("s", 21)
    db.flush()
    assert answer(db, "q") == [("a", 1), ("c", 3)]
    told = db.query("q").changes(since=20).to_pylist()
    assert [(row["instant"].microsecond, row["diff"], row["k"]) for row in told] == [(21, -1, "b"), (21, 1, "c")]


def test_a_question_answered_once_asks_too(db: Database, other: OtherSide, clock: ManualClock) -> None:
    db.execute(RELATION)
    assert db.execute("SELECT count(*) AS n FROM r").to_pylist() == [{"n": 2}]  # type: ignore[union-attr]
    other.rows, clock.seconds = [], 1.0
    assert db.execute("SELECT count(*) AS n FROM r").to_pylist() == [{"n": 0}]  # type: ignore[union-attr]


def test_the_same_rows_in_any_order_are_no_change(db: Database, other: OtherSide, clock: ManualClock) -> None:
    db.execute(f"{RELATION}; SELECT * FROM r")
    log = db._engine.relations.log("r")
    before = log.version
    for rows in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)]):
        other.rows, clock.seconds = rows, clock.seconds + 1
        db.execute("SELECT * FROM r")
    assert (other.asked, log.version) == (3, before)
    other.rows, clock.seconds = [("b", 2)], clock.seconds + 1
    assert db.execute("SELECT * FROM r").to_pylist() == [{"k": "b", "v": 2}]  # type: ignore[union-attr]
    assert log.version > before


def test_who_fails_keeps_the_last_contents_and_is_asked_again(db: Database, other: OtherSide, clock: ManualClock) -> None:
    db.execute(RELATION)
    db.insert("s", [(1, "a"), (2, "z")])
    db.execute(f"CREATE QUERY q AS {JOINED}")
    before = shown(db)["refreshed"]
    other.fails = ConnectionError("no route to host")
    for second, asked in ((10, 2), (10.5, 2), (11, 3), (12, 3), (13, 4), (17, 5)):
        clock.seconds = second
        db.advance("s", int(second * 10))
        db.flush()
        assert (other.asked, answer(db, "q")) == (asked, [("a", 1)]), second
    assert (shown(db)["error"], shown(db)["refreshed"]) == ("ConnectionError: no route to host", before)
    other.fails, other.rows, clock.seconds = None, [("z", 7)], 100.0
    db.advance("s", 1000)
    db.flush()
    db.advance("s", 1001)
    db.flush()
    assert (shown(db)["error"], answer(db, "q")) == (None, [("z", 7)])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [([("a", 1), ("a", 2)], "more than one row with the primary key k = 'a'"), ([(None, 1)], "cannot be NULL")],
)
def test_bad_rows_are_an_error_of_the_question(db: Database, other: OtherSide, rows: list[tuple[object, ...]], reason: str) -> None:
    other.rows = rows
    db.execute(RELATION)
    assert db.execute("SELECT * FROM r").num_rows == 0  # type: ignore[union-attr]
    assert reason in shown(db)["error"]


def test_who_hangs_holds_up_its_readers_once_and_nobody_else(db: Database, other: OtherSide, clock: ManualClock) -> None:
    db._engine.pulls.patience_s = 0.05
    db.execute(RELATION)
    db.execute(f"CREATE QUERY q AS {JOINED}; CREATE QUERY unconcerned AS SELECT k FROM s")
    other.may_answer.clear()
    clock.seconds = 1.0
    db.insert("s", [(1, "a"), (2, "b")])
    report = db._engine.tick()
    assert report is not None
    assert report.queries == 1, "the other one waits"
    assert answer(db, "unconcerned") == [("a",)]
    db.flush()
    assert (answer(db, "q"), shown(db)["error"]) == ([("a", 1)], "no answer for 0.05 s")
    clock.seconds = 2.0
    db.advance("s", 2)
    assert db._engine.tick() is not None
    assert answer(db, "q") == [("a", 1), ("b", 2)], "nobody waits a second time"
    other.rows = [("a", 9)]
    finished = threading.Event()
    db._engine.pulls.answered = finished.set
    other.may_answer.set()
    assert finished.wait(10)
    db.advance("s", 3)
    db.flush()
    assert (answer(db, "q"), shown(db)["error"]) == ([("a", 9)], None)


def test_nobody_holds_the_engines_lock_while_it_waits(db: Database, other: OtherSide, clock: ManualClock) -> None:
    db.execute(RELATION)
    other.may_answer.clear()
    creating = threading.Thread(target=db.execute, args=(f"CREATE QUERY q AS {JOINED}",))
    creating.start()
    db.insert("s", [(1, "a")])
    db.execute("CREATE QUERY p AS SELECT k FROM s")
    assert [row["name"] for row in db.execute("SHOW QUERIES").to_pylist()] == ["p"]  # type: ignore[union-attr]
    other.may_answer.set()
    creating.join(60)
    assert answer(db, "q") == []


def test_ticks_that_come_by_themselves_go_on_with_the_answer(tmp_path: Path) -> None:
    with Database(Location.open(tmp_path / "db", buckets=2), InlineRunner(), tick_interval=0.01) as db:
        other = OtherSide(db, [("a", 1)])
        db.execute(f"CREATE STREAM s (ts TIMESTAMP, k STRING) TIMESTAMP BY ts; {RELATION}; CREATE QUERY q AS {JOINED}")
        changes = db.query("q").subscribe()
        db.insert("s", [(1, "a"), (2, "b")])
        assert next(changes).row == ("a", 1)
        assert other.asked >= 1


def test_it_changes_there_only(db: Database, other: OtherSide) -> None:
    db.execute(RELATION)
    for change in ("INSERT INTO r VALUES ('x', 1)", "DELETE FROM r", "UPDATE r SET v = 2"):
        with pytest.raises(MillstreamError, match='is read from "elsewhere" and changes there only') as refused:
            db.execute(change)
        assert (refused.value.code, refused.value.span is not None) == ("NOT_SUPPORTED", True)
    with pytest.raises(MillstreamError, match="changes there only"):
        db.insert("r", [("x", 1)])
    with pytest.raises(MillstreamError, match="changes there only"):
        db.delete("r", [("x", 1)])


def test_dropped_and_made_anew(db: Database, other: OtherSide) -> None:
    db.execute(f"{RELATION}; SELECT * FROM r; DROP RELATION r")
    other.rows = [("n", 5)]
    db.execute(RELATION)
    assert db.execute("SELECT * FROM r").to_pylist() == [{"k": "n", "v": 5}]  # type: ignore[union-attr]


def test_an_answer_for_a_relation_that_is_gone_is_left_alone(db: Database, other: OtherSide) -> None:
    db._engine.pulls.timeout_s = 0.01
    other.may_answer.clear()
    db.execute(f"{RELATION}; SELECT * FROM r")
    (pull,) = db._engine.pulls
    db.execute(f"DROP RELATION r; {RELATION}")
    finished = threading.Event()
    pull._answered = finished.set
    other.may_answer.set()
    assert finished.wait(10)
    assert (pull.error, shown(db)["refreshed"]) == (None, None)


def test_after_a_restart_the_last_contents_are_there_whatever_the_other_side_says(tmp_path: Path, clock: ManualClock) -> None:
    with open_inline(tmp_path / "db", clock=clock.clock) as db:
        OtherSide(db, [("a", 1)])
        db.execute(f"CREATE STREAM s (ts TIMESTAMP, k STRING) TIMESTAMP BY ts; {RELATION} REFRESH EVERY 5 SECONDS")
        db.execute(f"CREATE QUERY q AS {JOINED}")
        db.insert("s", [(1, "a")])
        db.advance("s", 1)
        db.flush()
    with open_inline(tmp_path / "db", clock=clock.clock) as db:
        other = OtherSide(db, [])
        other.fails = ConnectionError("gone")
        assert answer(db, "q") == [("a", 1)]
        db.advance("s", 2)
        db.flush()
        assert (answer(db, "q"), other.asked) == ([("a", 1)], 1)
        assert (shown(db)["source"], shown(db)["error"]) == ("elsewhere", "ConnectionError: gone")


def test_without_spark_there_are_fewer_formats(db: Database) -> None:
    with pytest.raises(MillstreamError, match="without Spark") as refused:
        db.execute("CREATE RELATION r (k STRING) FROM 'parket' OPTIONS (path '/x')")
    assert (refused.value.code, refused.value.hint) == ("NOT_SUPPORTED", 'Did you mean "parquet"?')
    assert db.execute("SHOW RELATIONS").num_rows == 0  # type: ignore[union-attr]
