"""Which rows the stores of a database keep, and for how long."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from inline import InlineRunner, open_inline
from millstream.runtime import rounds


def test_rows_that_are_read_for_a_longer_window_are_there_once(tmp_path: Path) -> None:
    """On a stream where nothing has come for a while."""
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        db.insert("s", [(1, 7)])
        db.advance("s", 100)
        db.flush()
        db.execute("CREATE QUERY short AS SELECT count(*) AS n FROM s [RANGE 1 MICROSECOND]")
        db.flush()
        db.execute("CREATE QUERY long AS SELECT count(*) AS n FROM s [RANGE 150 MICROSECONDS]")
        for instant in (120, 149, 180):
            db.advance("s", instant)
            db.flush()
            assert db.query("long").result().column("n").to_pylist() == [int(instant <= 151)]
            assert sum(store.rows for store in db.stores()) == int(instant <= 151)


def test_a_window_by_count_lives_in_the_rows_of_a_larger_one(tmp_path: Path) -> None:
    with open_inline(tmp_path, buckets=1) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        db.execute("CREATE QUERY many AS SELECT sum(v) AS n FROM s [ROWS 1000]")
        db.execute("CREATE QUERY few AS SELECT max(v) AS n FROM s [ROWS 200]")
        for v in range(0, 3000, 100):
            db.insert("s", [(v + i, v + i) for i in range(100)])
            db.flush()
        db.advance("s", 3000)
        db.flush()
        [store] = db.stores()
        assert (store.queries, store.windows) == (("few", "many"), 2)
        assert 1000 <= store.rows <= 2000
        assert db.query("many").result().column("n").to_pylist() == [sum(range(2000, 3000))]
        db.execute("DROP QUERY many")
        db.insert("s", [(3001, 0)])
        db.advance("s", 3001)
        db.flush()
        assert 200 <= sum(store.rows for store in db.stores()) <= 400
        assert db.query("few").result().column("n").to_pylist() == [2999]


def test_a_window_by_count_may_hold_rows_for_longer_than_the_log(tmp_path: Path) -> None:
    """A later query answers from what the log retains, and does not take away what the window holds, nor does the loss of caches."""
    runner = InlineRunner()
    with patch.object(rounds, "SNAPSHOT_TICKS", 0), open_inline(tmp_path, buckets=1, runner=runner) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT, w INT) TIMESTAMP BY ts RETAIN 10 MICROSECONDS")
        db.execute("CREATE QUERY old AS SELECT v FROM s [ROWS 3]")
        for ts in (1, 2, 100):
            db.insert("s", [(ts, ts, ts)])
            db.advance("s", ts)
            db.flush()
        db._engine.maintain()
        db.execute("CREATE QUERY wide AS SELECT v, w FROM s [ROWS 3]")
        db.flush()
        assert db.query("wide").result().column("v").to_pylist() == [100]
        for ts, held in ((101, [2, 100, 101]), (102, [100, 101, 102])):
            db.insert("s", [(ts, ts, ts)])
            db.advance("s", ts)
            db.flush()
            assert sorted(db.query("old").result().column("v").to_pylist()) == held
            runner.lose_caches()
