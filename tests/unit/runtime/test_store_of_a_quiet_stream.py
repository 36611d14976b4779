"""A query that looks back further than all others at a stream on which nothing has come for a while."""

from __future__ import annotations

from pathlib import Path

from inline import open_inline


def test_rows_that_are_read_for_a_longer_window_are_there_once(tmp_path: Path) -> None:
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
