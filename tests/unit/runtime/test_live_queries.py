"""Queries that come, change and pause while rows flow: what the scripts in tests/scripts/live do not show."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.errors import FunctionFailed, InstantPassed, NotSupported
from millstream.runtime import beside, engine
from millstream.runtime.messages import StageResult, StageTask

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts RETAIN 10 SECONDS"
SUM = "SELECT sum(v) AS n FROM s"


def fill(db: Database, first: int, last: int) -> None:
    """A row of value 1 each second."""
    db.insert("s", [(second * SECOND, 1) for second in range(first, last)])
    db.advance("s", (last - 1) * SECOND)
    db.flush()


def total(db: Database, name: str) -> int:
    return db.query(name).result()["n"][0].as_py()


# --- partial answers


def test_a_window_longer_than_the_past_that_is_kept_is_partial_until_it_has_filled(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute(STREAM)
        for first in range(0, 40, 5):
            fill(db, first, first + 5)
        db._engine.maintain()
        whole_from = db._engine.streams["s"].log.whole_from
        assert 0 < whole_from <= 29 * SECOND
        db.execute(f"CREATE QUERY short AS {SUM} [RANGE 5 SECONDS]; CREATE QUERY long AS {SUM} [RANGE 30 SECONDS]")
        short, long = db.query("short"), db.query("long")
        assert (short.is_partial, short.complete_from) == (False, None)
        assert long.is_partial
        assert long.complete_from == whole_from + 30 * SECOND + 1
        assert total(db, "long") >= 39 - whole_from // SECOND + 1
        shown = {row["name"]: row["complete_from"] for row in db.execute("SHOW QUERIES").to_pylist()}
        assert shown["short"] == ""
        assert shown["long"].startswith("1970-01-01T00:0")
    with open_inline(tmp_path) as db:
        assert db.query("long").is_partial
        fill(db, 40, 90)
        assert not db.query("long").is_partial
        assert total(db, "long") == 31


def test_nobody_can_say_when_a_window_without_an_end_is_complete(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute(STREAM)
        for first in range(0, 40, 5):
            fill(db, first, first + 5)
        db._engine.maintain()
        kept = sum(chunk.rows for chunk in db._engine.streams["s"].log.chunks_after(-1))
        for name, window in [("everything", "UNBOUNDED"), ("few", "ROWS 3"), ("many", f"ROWS {kept + 9}")]:
            db.execute(f"CREATE QUERY {name} AS {SUM} [{window}]")
        db.execute("CREATE QUERY elements AS SELECT v FROM s WHERE v > 0")
        assert [db.query(name).is_partial for name in ("everything", "few", "many", "elements")] == [True, False, True, False]
        assert db.query("everything").complete_from is None
        db.execute("CREATE QUERY above AS SELECT n + 1 AS m FROM everything; CREATE QUERY now START NOW AS SELECT count(*) AS n FROM s")
        assert db.query("above").is_partial
        assert not db.query("now").is_partial


def test_a_query_cannot_start_before_what_its_relation_knows(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts; CREATE RELATION r (v INT PRIMARY KEY, w INT)")
        for second in range(0, 20, 5):
            fill(db, second, second + 5)
            db.insert("r", [(1, second)])
        db.flush()
        db._engine.relations.log("r").fold(12 * SECOND, even_if_small=True)
        with pytest.raises(InstantPassed, match='"r" keeps its past from'):
            db.execute("CREATE QUERY q START AT TIMESTAMP '1970-01-01T00:00:05Z' AS SELECT w FROM s [RANGE 9 SECONDS] JOIN r ON s.v = r.v")
        assert "q" not in db._engine.queries
        db.execute("CREATE QUERY q START AT TIMESTAMP '1970-01-01T00:00:15Z' AS SELECT w FROM s [NOW] JOIN r ON s.v = r.v")
        assert db.query("q").result(at=15 * SECOND).to_pylist() == [{"w": 10}]


@pytest.mark.parametrize("other", ["[RANGE 5 SECONDS]", "[RANGE 40 SECONDS]", "[ROWS 7]"])
def test_a_query_that_starts_in_the_past_does_not_share_rows_that_it_lacks(tmp_path: Path, other: str) -> None:
    """It read the log up to where it began, and gave that for all that there is to a store that was further."""
    answers = []
    for share in (True, False):
        with open_inline(tmp_path / str(share), share_windows=share) as db:
            db.execute(f"CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts; CREATE QUERY other AS {SUM} {other}")
            for first in range(0, 60, 15):
                fill(db, first, first + 15)
            db.execute(f"CREATE QUERY q START AT TIMESTAMP '1970-01-01T00:00:25Z' AS {SUM} [RANGE 9 SECONDS]")
            db.flush()
            answers.append(db.query("q").changes())
    assert answers[0].equals(answers[1])
    assert set(answers[0]["n"].to_pylist()) == {9, 10}


# --- queries that would hold others up


class Gate(InlineRunner):
    """Its other lane stops before every stage until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.came, self.open = threading.Semaphore(0), threading.Semaphore(0)

    def beside(self) -> InlineRunner:
        return _Gated(self)


class _Gated(InlineRunner):
    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        self._gate.came.release()
        assert self._gate.open.acquire(timeout=60)
        return super().run_stage(tasks)


def test_a_query_that_catches_up_does_not_hold_up_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MANY_ROWS", 10)
    gate = Gate()
    with open_inline(tmp_path, runner=gate) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        db.execute(f"CREATE QUERY base AS {SUM} [RANGE 9 SECONDS]")
        fill(db, 0, 30)
        new = "CREATE QUERY newcomer START AT TIMESTAMP '1970-01-01T00:00:03Z' AS SELECT sum(v) AS n FROM s [RANGE 9 SECONDS]"
        creating = threading.Thread(target=db.execute, args=(new,))
        creating.start()
        assert gate.came.acquire(timeout=60)  # its workers are at it
        db.insert("s", [(30 * SECOND, 5)])
        db.advance("s", 31 * SECOND)
        while db._engine.tick() is not None:
            pass
        assert db.query("base").frontier == 31 * SECOND
        assert total(db, "base") == 13
        assert creating.is_alive()
        gate.open.release(1_000)
        creating.join(60)
        db.flush()
        caught_up, base = db.query("newcomer"), db.query("base")
        assert caught_up.changes(since=3 * SECOND).equals(base.changes(since=3 * SECOND))
        assert db.query("newcomer").frontier == 31 * SECOND


def test_a_dropped_query_is_waited_for_while_it_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MANY_ROWS", 10)
    gate = Gate()
    with open_inline(tmp_path, runner=gate) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        db.execute(f"CREATE QUERY base AS {SUM} [RANGE 9 SECONDS]")
        fill(db, 0, 30)
        gate.open.release(1)  # its first round
        db.execute(f"CREATE QUERY newcomer START AT TIMESTAMP '1970-01-01T00:00:03Z' AS {SUM} [RANGE 9 SECONDS]")
        db._engine.let_others_go_on()
        for _ in range(2):
            assert gate.came.acquire(timeout=60)
        dropping = threading.Thread(target=db.execute, args=("DROP QUERY newcomer",))
        dropping.start()
        gate.open.release(1_000)
        dropping.join(60)
        assert [query.name for query in db.queries()] == ["base"]
        assert not db._location.query_dir("newcomer").exists()


def test_a_heavy_query_goes_on_beside_the_others_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEAVY_S", 0.0)
    monkeypatch.setattr(engine, "HEAVY_SHARE", 0.0)
    monkeypatch.setattr(engine, "HEAVY_ROUNDS", 2)
    monkeypatch.setattr(beside, "LIGHT_ROWS", -1)
    with open_inline(tmp_path) as db, open_inline(tmp_path / "alone") as alone:
        for each in (db, alone):
            each.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
            each.execute(f"CREATE QUERY one AS {SUM} [RANGE 9 SECONDS]")
        db.execute(f"CREATE QUERY other AS {SUM} [RANGE 3 SECONDS]")
        for first in range(0, 60, 5):
            fill(db, first, first + 5)
            fill(alone, first, first + 5)
        lanes = {query.name: query.lane for query in db._engine.queries.values()}
        assert "beside" in lanes.values()
        assert db.query("one").changes().equals(alone.query("one").changes())
        monkeypatch.setattr(beside, "LIGHT_ROWS", 1_000)
        monkeypatch.setattr(beside, "LIGHT_S", 60.0)
        monkeypatch.setattr(engine, "HEAVY_S", 60.0)
        for first in range(60, 80, 5):
            fill(db, first, first + 5)
            fill(alone, first, first + 5)
        assert {query.lane for query in db._engine.queries.values()} == {"front"}
        assert db.query("one").changes().equals(alone.query("one").changes())


# --- what fails changes nothing


def test_closing_does_not_tell_the_next_instant_before_its_time(tmp_path: Path) -> None:
    """The snapshot at the end showed the difference at an instant still to come, whose own changes were then taken for seen."""
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        db.execute(f"CREATE QUERY q AS {SUM} [RANGE 2 SECONDS]; CREATE QUERY above AS SELECT n FROM q")
        fill(db, 0, 9)
        db.execute("ALTER QUERY q SET WINDOW [RANGE 1 HOUR]")
    with open_inline(tmp_path) as db:
        f = 8 * SECOND
        assert db.query("q").frontier == f
        assert db.query("q").changes(since=f).num_rows == 0
        db.insert("s", [(f + 1, 5)])
        db.advance("s", f + 2)
        db.flush()
        for name in ("q", "above"):
            told = [(row["diff"], row["n"]) for row in db.query(name).changes(since=f).to_pylist()]
            assert told == [(-1, 3), (1, 14)], name


def test_an_altered_query_that_cannot_be_computed_after_a_restart_fails_alone(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        db.function("picky", lambda v: v, "INT")
        db.execute(f"CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 2 SECONDS] WHERE picky(v) > 0; CREATE QUERY other AS {SUM} [NOW]")
        fill(db, 0, 9)
        db.execute("ALTER QUERY q SET WINDOW [RANGE 1 HOUR]")
    with open_inline(tmp_path) as db:
        db.function("picky", lambda v: 1 // (v - 1), "INT")
        fill(db, 9, 12)
        assert total(db, "other") == 1
        assert db.query("other").frontier == 11 * SECOND
        with pytest.raises(FunctionFailed, match="picky"):
            db.query("q").result()


def test_a_window_that_cannot_be_computed_leaves_the_query_as_it_was(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        db.function("picky", lambda v: 1 // (v - 1), "INT")
        db.execute("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 2 SECONDS] WHERE v > 0")
        db.insert("s", [(0, 1), (9 * SECOND, 2)])
        with pytest.raises(FunctionFailed, match="picky"):
            db.execute("ALTER QUERY q AS SELECT count(*) AS n FROM s [RANGE 1 HOUR] WHERE picky(v) > 0")
        db.advance("s", 20 * SECOND)
        db.flush()
        assert [(row["diff"], row["n"]) for row in db.query("q").changes(since=0).to_pylist()] == [
            (-1, 1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, 0)
        ]  # fmt: skip
    with open_inline(tmp_path) as db:
        assert "2 SECONDS" in db.query("q").sql


def test_a_query_beside_that_is_given_another_window_is_left_alone_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MANY_ROWS", 5)
    with open_inline(tmp_path) as db:
        db.execute(f"CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts; CREATE QUERY other AS {SUM} [NOW]")
        fill(db, 0, 40)
        db.execute(f"CREATE QUERY q AS {SUM} [RANGE 1 HOUR]")
        for second in range(40, 90, 10):
            db.insert("s", [(ts * SECOND, 1) for ts in range(second, second + 10)])
            length = 5 + second
            db.execute(f"ALTER QUERY q SET WINDOW [RANGE {length} SECONDS]")
            db.advance("s", (second + 9) * SECOND)
            db.flush()
            told = sum(row["diff"] * (row["n"] or 0) for row in db.query("q").changes().to_pylist())
            assert told == total(db, "q")


def test_an_altered_query_is_altered_again_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MANY_ROWS", 5)
    db = open_inline(tmp_path)
    db.execute(f"CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts; CREATE QUERY other AS {SUM} [NOW]; CREATE QUERY q AS {SUM} [NOW]")
    fill(db, 0, 40)
    db.execute("ALTER QUERY q SET WINDOW [RANGE 1 HOUR]")
    db._engine._beside.stop()
    db._location.close()
    with open_inline(tmp_path) as db:
        db.insert("s", [(ts * SECOND, 1) for ts in range(40, 60)])
        db.execute("ALTER QUERY q SET WINDOW [RANGE 9 SECONDS]")
        db.flush()
        assert total(db, "q") == 9


def test_what_a_window_held_is_refused_when_a_part_of_it_has_left_the_log(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        for second in range(20):
            fill(db, second, second + 1)
        db._engine.streams["s"].log.retain(15 * SECOND)
        kept = db.execute("SELECT v FROM s [RANGE 1 SECOND] AS OF TIMESTAMP '1970-01-01 00:00:17'")
        assert kept.num_rows == 2
        for asked in ("[RANGE 10 SECONDS] AS OF TIMESTAMP '1970-01-01 00:00:17'", "[RANGE 1 HOUR] AS OF NOW"):
            with pytest.raises(InstantPassed, match="reached back to"):
                db.execute(f"SELECT v FROM s {asked}")


def test_a_query_cannot_read_itself(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts; CREATE QUERY q AS SELECT ISTREAM(v) FROM s")
        with pytest.raises(NotSupported, match="cannot read itself"):
            db.execute("ALTER QUERY q AS SELECT ISTREAM(v) FROM q")


def test_another_rate_is_wanted_at_once(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        for name, rate in (("q", 1), ("like_this", 3)):
            db.execute(f"CREATE QUERY {name} AS {SUM} [NOW] WITH RATE {rate} PER SECOND")
        db.execute(f"ALTER QUERY q AS {SUM} [NOW] WITH RATE 3 PER SECOND")
        assert db._engine.queries["q"].rate == db._engine.queries["like_this"].rate is not None
