"""Opened again with another number of buckets, or with other plans: nothing is lost, whether or not the log still has everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import PlanChanged
from millstream.runtime import rounds

DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts PARTITION BY k RETAIN 5 MICROSECONDS"
QUERIES = {
    "forever": "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k",
    "lately": "SELECT k, sum(v) AS s FROM s [RANGE 4 MICROSECONDS] GROUP BY k",
    "newest": "SELECT k, v FROM s [PARTITION BY k ROWS 2]",
    "pairs": "SELECT a.k, a.v, b.v AS w FROM s [RANGE 3 MICROSECONDS] a JOIN s [PARTITION BY k ROWS 1] b ON a.k = b.k",
}
KEYS = "abcdefgh"


def rows(start: int, count: int) -> list[tuple[int, str, int]]:
    return [(ts, KEYS[ts * 5 % len(KEYS)], ts % 7) for ts in range(start, start + count)]


@pytest.fixture(autouse=True)
def _snapshots_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SNAPSHOT_TICKS", 1)


def insert(db: Database, start: int, count: int) -> None:
    """In small chunks, each in a tick of its own."""
    for first in range(start, start + count, 4):
        db.insert("s", rows(first, min(4, start + count - first)))
        db.flush()


def answers(db: Database) -> dict[str, list[tuple[Any, ...]]]:
    tables = {name: db.query(name).result() for name in QUERIES}
    return {name: sorted(zip(*(column.to_pylist() for column in table.columns), strict=True)) for name, table in tables.items()}


def run(path: Path, buckets: list[int], *, rows_a_time: int = 20, rules_off: tuple[frozenset[str], ...] = ()) -> Any:
    """Answers and changes after the rows have come in as many parts as there are bucket counts, the database being reopened before each."""
    for number, count in enumerate(buckets):
        off = rules_off[number] if rules_off else frozenset[str]()
        with open_inline(path, buckets=count, rules_off=off) as db:
            if number == 0:
                db.execute(DDL)
                for name, sql in QUERIES.items():
                    db.execute(f"CREATE QUERY {name} AS {sql}")
            insert(db, number * rows_a_time, rows_a_time)
            db._engine.maintain()
            found = answers(db), {name: changes(db, name) for name in QUERIES}
            kept = {name: db._engine.queries[name].buckets for name in QUERIES}
            dropped = db._engine.streams["s"].log.whole_from > 0
    return found, kept, dropped


def changes(db: Database, name: str) -> list[tuple[Any, ...]]:
    table = db.query(name).changes()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("buckets", [[2, 3, 1, 4], [1, 4, 4, 2], [5, 2, 3, 3]])
def test_answers_do_not_depend_on_how_often_the_buckets_change(tmp_path: Path, buckets: list[int]) -> None:
    expected, _, _ = run(tmp_path / "fixed", [2, 2, 2, 2])
    found, kept, dropped = run(tmp_path / "changing", buckets)
    assert dropped  # rows that `forever` has counted are not in the log any more
    assert found == expected
    assert kept["lately"] == buckets[-1]  # its window could be filled from the log
    assert kept["forever"] == buckets[0]  # what it knows is nowhere else than in its state


def test_queries_made_later_have_the_new_number(tmp_path: Path) -> None:
    run(tmp_path, [2, 2])
    with open_inline(tmp_path, buckets=3) as db:
        db.execute("CREATE QUERY late AS SELECT k, count(*) AS n FROM s GROUP BY k")
        db.insert("s", rows(40, 20))
        db.flush()
        assert {name: query.buckets for name, query in db._engine.queries.items() if name in ("late", "forever")} == {
            "late": 3,
            "forever": 2,
        }


def test_other_plans_are_filled_from_the_log(tmp_path: Path) -> None:
    sql = "CREATE QUERY q AS SELECT k, v FROM (SELECT k, v FROM s [RANGE 4 MICROSECONDS]) WHERE v > 2"
    for off, expected in ((frozenset[str](), 20), (frozenset({"push_filter_below_window", "merge_projects"}), 40)):
        with open_inline(tmp_path, buckets=2, rules_off=off) as db:
            if expected == 20:
                db.execute(DDL)
                db.execute(sql)
            insert(db, expected - 20, 20)
            at = expected - 2
            window = sorted((k, v) for ts, k, v in rows(0, 60) if at - 4 <= ts <= at and v > 2)
            assert sorted(zip(*(column.to_pylist() for column in db.query("q").result().columns), strict=True)) == window


def test_other_plans_whose_state_is_nowhere_else_stop_alone_and_say_why(tmp_path: Path) -> None:
    """Its plan changes, since the filter goes another way, and the log has been trimmed: before, it said that its snapshot was damaged."""
    sql = "SELECT k, n FROM (SELECT k, count(*) AS n FROM s GROUP BY k) WHERE k <> 'a'"
    with open_inline(tmp_path, buckets=2) as db:
        db.execute(DDL)
        db.execute(f"CREATE QUERY q AS {sql}")
        db.execute("CREATE QUERY other AS SELECT k FROM s [RANGE 1 MICROSECONDS]")
        insert(db, 0, 40)
        db._engine.maintain()
        assert db._engine.streams["s"].log.whole_from > 0
    with open_inline(tmp_path, buckets=2, rules_off={"push_filter_below_aggregate"}) as db:
        db.insert("s", rows(40, 5))
        db.flush()
        assert db._engine.queries["q"].state == "failed"
        with pytest.raises(PlanChanged) as raised:
            db.query("q").result()
        assert "rules_off" in (raised.value.hint or "")
        assert db._engine.queries["other"].state == "running"
    with open_inline(tmp_path, buckets=2) as db:  # as it was: nothing has been lost
        db.insert("s", rows(45, 5))
        db.flush()
        assert sum(db.query("q").result().column("n").to_pylist()) == sum(k != "a" for ts, k, _ in rows(0, 49))
