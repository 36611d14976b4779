"""Rows added up by panes: the places where that could show."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from millstream.api import Database

SECOND = 1_000_000
GREAT = 2**62


@pytest.fixture(params=[True, False], ids=["panes", "rows"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    opened = open_inline(tmp_path, buckets=1, rules_off=() if request.param else ("aggregate_by_panes",))
    opened.execute("CREATE STREAM s (ts TIMESTAMP, b BIGINT) TIMESTAMP BY ts")
    return opened


def changes(db: Database, name: str) -> list[tuple[object, ...]]:
    return [(row["diff"], row["n"]) for row in db.query(name).changes().to_pylist()]


def fill(db: Database, *rows: tuple[float, int]) -> None:
    db.insert("s", [(int(ts * SECOND), b) for ts, b in rows])
    db.flush()


def test_who_starts_now_in_the_middle_of_a_pane_has_less_of_it_than_others(db: Database) -> None:
    fill(db, (10.1, 1), (10.2, 2))
    db.execute("CREATE QUERY later START NOW AS SELECT count(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS]")
    fill(db, (10.3, 3), (10.4, 4))
    db.execute("CREATE QUERY whole AS SELECT count(*) AS n FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS]")
    fill(db, (11.5, 5), (30, 6))
    assert changes(db, "later") == [(1, 0), (-1, 0), (1, 4), (-1, 4), (1, 0)]
    assert changes(db, "whole") == [(1, 0), (-1, 0), (1, 5), (-1, 5), (1, 0)]


def test_a_sum_that_stays_beyond_bigint_does_not_change(db: Database) -> None:
    db.execute("CREATE QUERY q AS SELECT sum(b) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS]")
    fill(db, (0.1, GREAT), (0.2, GREAT), (0.3, GREAT), (2.1, GREAT), (2.2, GREAT), (30, 0))
    assert changes(db, "q") == [(1, None)]


def test_a_pane_whose_sum_does_not_fit_is_exact_all_the_same(db: Database) -> None:
    db.execute("CREATE QUERY q AS SELECT sum(b) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS]")
    fill(db, (0.1, GREAT), (0.2, GREAT))
    fill(db, (2.1, -GREAT), (2.2, 1), (30, 0))
    assert changes(db, "q") == [(1, None), (-1, None), (1, GREAT + 1), (-1, GREAT + 1), (1, 1 - GREAT), (-1, 1 - GREAT), (1, None)]


def test_a_count_of_nothing_and_no_count_are_the_same(db: Database) -> None:
    db.execute("CREATE QUERY q AS SELECT count(b) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS]")
    db.insert("s", [(SECOND, None), (5 * SECOND, None), (30 * SECOND, 1)])
    db.flush()
    assert changes(db, "q") == [(1, 0)]


def test_windows_of_all_lengths_read_one_store(db: Database) -> None:
    for length in range(1, 6):
        db.execute(f"CREATE QUERY q{length} AS SELECT b, count(*) AS n FROM s [RANGE {length * 2} SECONDS SLIDE 2 SECONDS] GROUP BY b")
    fill(db, *((place / 10, place % 3) for place in range(200)))
    (store,) = db.stores()
    assert store.windows == 5
    if "_part0" in store.columns:
        assert store.rows < 50


def test_a_pane_of_which_the_log_has_only_a_part(tmp_path: Path) -> None:
    """Whoever comes then must not see more of it because others have it whole."""
    told = []
    for off in ((), ("aggregate_by_panes",)):
        with open_inline(tmp_path / str(len(off)), buckets=1, rules_off=off) as db:
            db.execute("CREATE STREAM s (ts TIMESTAMP, b BIGINT) TIMESTAMP BY ts RETAIN 1 SECOND")
            db.execute("CREATE QUERY first AS SELECT count(*) AS n FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]")
            for ts in range(25):
                fill(db, (ts, ts))
            for query in db._engine.stands.running():
                query.wants_snapshot = True
            fill(db, (25, 0))
            db._engine.streams["s"].log.retain(13 * SECOND)
            db.execute("CREATE QUERY second AS SELECT count(*) AS n FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS]")
            assert db.query("second").is_partial
            fill(db, (28, 0), (31, 0), (55, 0))
            told.append(changes(db, "second"))
    assert told[0] == told[1]


def test_who_comes_later_with_a_longer_window_has_no_pane_twice(db: Database) -> None:
    db.execute("CREATE QUERY a AS SELECT count(*) AS n FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]")
    fill(db, (3, 1), (5, 1), (7, 1))
    db.execute("CREATE QUERY b AS SELECT count(*) AS n FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS]")
    assert db.query("b").result().column("n").to_pylist() == [2]
    fill(db, (9, 1), (20, 1))
    assert changes(db, "b")[:3] == [(1, 2), (-1, 2), (1, 3)]


def test_sums_of_as_many_digits_as_there_are(tmp_path: Path) -> None:
    for off in ((), ("aggregate_by_panes",)):
        with open_inline(tmp_path / str(len(off)), rules_off=off) as db:
            db.execute("CREATE STREAM s (ts TIMESTAMP, x DECIMAL(38, 0)) TIMESTAMP BY ts")
            db.execute("CREATE QUERY q AS SELECT sum(x) AS n FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]")
            db.insert("s", [(6 * SECOND, str(10**38 - 1))] * 4 + [(8 * SECOND, "1"), (10 * SECOND, "1")])
            db.flush()
            assert changes(db, "q") == [(1, None)]


def test_columns_with_the_names_of_arrows_own(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, count_all INT, n INT) TIMESTAMP BY ts")
        window = "[RANGE 4 SECONDS SLIDE 2 SECONDS]"
        db.execute(f"CREATE QUERY q AS SELECT count_all, count(*) AS n, sum(n) AS t FROM s {window} GROUP BY count_all")
        db.insert("s", [(SECOND, 7, 1), (SECOND, 7, 2), (3 * SECOND, 8, 1)])
        db.flush()
        assert db.query("q").result().to_pylist() == [{"count_all": 7, "n": 2, "t": 3}]
