"""Selections that run together: who does, what is seen of it, and what happens when something goes wrong."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.errors import InUse, PlanChanged, QueryFailed
from millstream.operators.match import MatchOp
from millstream.runtime import families
from millstream.state.location import Location

STREAM = "CREATE STREAM s (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts"
SECOND = 1_000_000


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setattr(families, "FEWEST", 3)
    opened = open_inline(tmp_path / "db")
    opened.execute(STREAM)
    return opened


def select(db: Database, name: str, k: int, window: str = "RANGE 5 SECONDS") -> None:
    db.execute(f"CREATE QUERY {name} AS SELECT v FROM s [{window}] WHERE k = {k}")


def together(db: Database) -> set[str]:
    return {query.name for query in db._engine.queries.values() if query.common is not None}


def values(db: Database, name: str) -> list[int]:
    return sorted(row["v"] for row in db.query(name).result().to_pylist())


def fill(db: Database, *rows: tuple[int, int, int]) -> None:
    db.insert("s", [(ts * SECOND, k, v) for ts, k, v in rows])
    db.flush()


def test_enough_selections_of_one_window_run_together(db: Database) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    select(db, "other", 1, "RANGE 6 SECONDS")
    db.execute("CREATE QUERY counted AS SELECT count(*) AS n FROM s [RANGE 5 SECONDS] WHERE k = 1")
    assert together(db) == {"q0", "q1", "q2"}
    fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12), (4, 2, 13), (5, 0, 14))
    assert [values(db, f"q{number}") for number in range(3)] == [[10], [11, 12], [13]]
    select(db, "late", 1)
    assert "late" in together(db)
    assert values(db, "late") == [11, 12]
    fill(db, (6, 1, 15), (8, 0, 16))
    assert values(db, "late") == values(db, "q1") == [12, 15]
    assert len(db._engine.families.commons) == 1


def test_too_few_run_by_themselves(db: Database) -> None:
    select(db, "q0", 0)
    select(db, "q1", 1)
    fill(db, (1, 0, 10), (2, 1, 11))
    assert together(db) == set()


def test_nobody_sees_the_common_query(db: Database) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12), (9, 2, 13))
    assert together(db) == {"q0", "q1", "q2"}
    shown = db.execute("SHOW QUERIES")
    assert shown.column("name").to_pylist() == ["q0", "q1", "q2"]
    assert shown.column("changes").to_pylist() == [2, 4, 0]
    values(db, "q1")
    db.query("q1").changes()
    assert db.execute("SHOW QUERIES").column("changes").to_pylist() == [2, 4, 0]
    assert [query.name for query in db.queries()] == ["q0", "q1", "q2"]
    with pytest.raises(InUse, match="in use by q0, q1, q2\n"):
        db.execute("DROP STREAM s")


def test_the_last_one_takes_the_common_query_along(db: Database, tmp_path: Path) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (3, 1, 12))
    assert together(db)
    for number in range(3):
        db.execute(f"DROP QUERY q{number}")
    assert not db._engine.families.commons
    assert not list((tmp_path / "db" / "queries").iterdir())
    db.execute("DROP STREAM s")


def test_queries_without_a_name_run_together_too(db: Database) -> None:
    handles = [db.execute(f"SELECT v FROM s [RANGE 5 SECONDS] WHERE k = {number}") for number in range(3)]
    fill(db, (1, 0, 10), (2, 1, 11), (4, 1, 12))
    assert together(db) == {"query_1", "query_2", "query_3"}
    handles[1].stop()
    fill(db, (5, 1, 13), (6, 0, 14), (7, 0, 0))
    assert sorted(row["v"] for row in handles[1].result().to_pylist()) == [11]
    assert sorted(row["v"] for row in handles[0].result().to_pylist()) == [14]


def test_a_sink_gets_what_its_query_gets(db: Database, tmp_path: Path) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    db.execute(f"CREATE SINK out FROM q1 INTO 'delta' OPTIONS (path '{tmp_path / 'out'}')")
    fill(db, (1, 0, 10), (2, 1, 11), (4, 1, 12), (5, 1, 13))
    assert "q1" in together(db)
    db.close()
    from deltalake import DeltaTable

    assert sorted(DeltaTable(tmp_path / "out").to_pyarrow_table().column("v").to_pylist()) == [11, 12]


def test_together_in_one_run_and_apart_in_the_next(db: Database, tmp_path: Path) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12))
    db._location.close()  # as if it had been killed
    for share, now in ((False, set()), (True, {"q0", "q1", "q2"}), (True, {"q0", "q1", "q2"})):
        again = open_inline(tmp_path / "db", share_selections=share)
        again.insert("s", [(4 * SECOND, 1, 13), (4 * SECOND, 7, 0)] if not share else [])
        again.flush()
        again._engine.families.gather()
        assert together(again) == now
        assert values(again, "q1") == [11, 12]
        again._location.close()


def test_if_the_common_query_fails_each_goes_on_by_itself(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12))
    assert len(together(db)) == 3

    def broken(*_: object) -> None:
        raise QueryFailed("no index today")

    with monkeypatch.context() as patch:
        patch.setattr(MatchOp, "step", broken)
        fill(db, (4, 1, 13), (5, 2, 14), (6, 9, 9))
    assert together(db) == set()
    assert [values(db, f"q{number}") for number in range(3)] == [[10], [11, 12, 13], [14]]
    assert db.execute("SHOW QUERIES").column("state").to_pylist() == ["running"] * 3


def test_a_stream_lets_rows_go_that_no_window_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "FEWEST", 3)
    with open_inline(tmp_path) as db:
        db.execute(STREAM + " RETAIN 1 SECOND")
        for number in range(3):
            select(db, f"q{number}", number)
        for second in range(60):
            fill(db, (second, second % 3, second))
        assert len(together(db)) == 3
        for query in db._engine.stands.running():
            query.wants_snapshot = True
        fill(db, (60, 0, 60))
        db._engine.maintain()
        assert db._engine.streams["s"].log.whole_from > 40 * SECOND


def test_paused_ones_leave_and_come_back(db: Database) -> None:
    for number in range(4):
        select(db, f"q{number}", number % 3)
    fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12))
    db.execute("ALTER QUERY q1 PAUSE")
    assert together(db) == {"q0", "q2", "q3"}
    fill(db, (4, 1, 13), (5, 1, 14))
    assert values(db, "q1") == [11]
    db.execute("ALTER QUERY q1 RESUME")
    fill(db, (6, 1, 15), (7, 0, 0))
    assert together(db) == {"q0", "q1", "q2", "q3"}
    assert values(db, "q1") == [11, 12, 13, 14, 15]


def test_what_they_want_reaches_a_worker_that_lost_its_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "FEWEST", 3)
    runner = InlineRunner()
    with open_inline(tmp_path, runner=runner) as db:
        db.execute(STREAM)
        for number in range(3):
            select(db, f"q{number}", number)
        fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12))
        runner._workers.clear()
        fill(db, (4, 1, 13), (5, 2, 14), (6, 2, 0))
        assert values(db, "q1") == [11, 12, 13]
        runner._workers.clear()
        assert values(db, "q2") == [14]


def test_who_runs_together_is_shown(db: Database) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (2, 1, 11))
    assert ("selections", "s [RANGE 5 SECONDS]", ("q0", "q1", "q2")) in [(part.kind, part.part, part.queries) for part in db.sharing()]
    assert db.execute("SHOW SHARING").to_pylist()[0] == {"kind": "selections", "part": "s [RANGE 5 SECONDS]", "queries": "q0, q1, q2"}
    told = db.explain("SELECT v FROM s [RANGE 5 SECONDS] WHERE k = 7 AND v % 2 = 0")
    assert "Runs together with 3 selections over s [RANGE 5 SECONDS], found by: k = 7; tried row by row: " in told
    assert "together" not in db.explain("SELECT v FROM s [RANGE 6 SECONDS] WHERE k = 7")
    assert [store.queries for store in db.stores()] == [("3 selections",)]


@pytest.mark.parametrize("clean", [True, False])
def test_altered_and_opened_again_before_the_next_instant(db: Database, tmp_path: Path, clean: bool) -> None:
    for number in range(4):
        select(db, f"q{number}", number, "UNBOUNDED")
    fill(db, (1, 0, 10), (1, 1, 11), (2, 2, 12))
    assert len(together(db)) == 4
    db.execute("ALTER QUERY q0 AS SELECT v FROM s [UNBOUNDED] WHERE k = 1")
    if clean:
        db.close()
    else:
        db._location.close()
    with open_inline(tmp_path / "db") as again:
        fill(again, (3, 5, 0), (4, 1, 13), (9, 9, 9))
        told = [(row["diff"], row["v"]) for row in again.query("q0").changes().to_pylist()]
        assert told == [(1, 10), (-1, 10), (1, 11), (1, 13)]
        assert together(again) == {"q0", "q1", "q2", "q3"}


def test_conditions_that_no_index_holds_are_tried_as_they_are(db: Database) -> None:
    db.execute("CREATE STREAM d (ts TIMESTAMP, day DATE, name STRING, x DOUBLE) TIMESTAMP BY ts")
    conditions = ["day > DATE '2020-01-01'", "day = '2020-01-02'", "initcap(name) = 'Ab'", "CAST(x AS STRING) = '1.0'"]
    conditions += ["concat_ws('-', name, 'z') = 'ab-z'"]
    for number, condition in enumerate(conditions):
        db.execute(f"CREATE QUERY c{number} AS SELECT name FROM d [RANGE 5 SECONDS] WHERE {condition}")
    db.insert("d", [(SECOND, dt.date(2020, 1, 2), "ab", 1.0), (2 * SECOND, dt.date(2019, 1, 2), "cd", 2.0), (3 * SECOND, None, None, None)])
    db.flush()
    assert len(together(db)) == len(conditions)
    assert [db.query(f"c{number}").result().column("name").to_pylist() for number in range(len(conditions))] == [["ab"]] * len(conditions)


def test_when_the_one_to_blame_has_gone_the_others_run_together_again(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (2, 1, 11))

    def broken(*_: object) -> None:
        raise QueryFailed("no index today")

    with monkeypatch.context() as patch:
        patch.setattr(MatchOp, "step", broken)
        fill(db, (3, 1, 13), (4, 2, 14))
    fill(db, (5, 1, 13), (6, 2, 14))
    assert together(db) == set()
    db.execute("DROP QUERY q3")
    fill(db, (7, 1, 13), (8, 2, 14))
    assert together(db) == {"q0", "q1", "q2"}


def test_reopened_with_other_rules_they_go_on_by_themselves(db: Database, tmp_path: Path) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12))
    assert len(together(db)) == 3
    db.close()
    with open_inline(tmp_path / "db", rules_off=["push_filter_below_window"]) as again:
        assert together(again) == set()
        fill(again, (4, 1, 13), (5, 2, 14), (6, 2, 0))
        assert [values(again, f"q{number}") for number in range(3)] == [[10], [11, 12, 13], [14]]


def test_reopened_with_other_rules_after_a_kill_what_waits_is_not_lost(db: Database, tmp_path: Path) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12))
    assert db._engine.families.waiting()
    db._location.close()  # as if it had been killed
    location = Location.open(tmp_path / "db", buckets=2)
    with pytest.raises(PlanChanged, match="wait where it ran together"):
        open_inline(tmp_path / "db", rules_off=["push_filter_below_window"], location=location)
    location.close()
    with open_inline(tmp_path / "db") as again:
        assert [values(again, f"q{number}") for number in range(3)] == [[10], [11], []]


def test_a_common_query_that_fails_while_one_joins_keeps_nobody(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        select(db, f"q{number}", number)
    fill(db, (1, 0, 10), (2, 1, 11), (3, 1, 12))
    assert len(together(db)) == 3
    db.insert("s", [(4 * SECOND, 1, 13), (5 * SECOND, 9, 9)])

    def broken(*_: object) -> None:
        raise QueryFailed("no index today")

    with monkeypatch.context() as patch:
        patch.setattr(MatchOp, "step", broken)
        select(db, "late", 1)
    assert "late" not in together(db)
    db.flush()
    assert [values(db, f"q{number}") for number in range(3)] == [[10], [11, 12, 13], []]
    assert values(db, "late") == [11, 12, 13]
    assert db.execute("SHOW QUERIES").column("state").to_pylist() == ["running"] * 4
