"""A query that is stopped runs no more, but one with a name stays known: read, listed, dropped, and gone on with later."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from inline import open_inline
from millstream.api import Database, Query
from millstream.core.errors import AlreadyExists, InUse, QueryNotFound
from millstream.state.changelog import Changelog

SECOND = 1_000_000
DDL = "CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts RETAIN 5 SECONDS"
COUNT = "SELECT count(*) AS c FROM s [RANGE 1 HOUR]"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = open_inline(tmp_path / "db")
    database.execute(DDL)
    yield database
    database.close()


def fed(db: Database, seconds: range) -> None:
    db.insert("s", [(at * SECOND, 1) for at in seconds])
    db.advance(seconds.stop * SECOND)
    db.flush()


def counted(query: Query) -> list[int]:
    return query.result().column("c").to_pylist()


def last_change(query: Query) -> tuple[int, int, int]:
    changes = query.changes()
    instant, diff, count = (column[-1] for column in changes.columns)
    return instant.cast(pa.int64()).as_py() // SECOND, diff.as_py(), count.as_py()


def test_its_stream_cannot_be_dropped_and_the_location_opens_again(db: Database, tmp_path: Path) -> None:
    with db.execute("CREATE QUERY q AS SELECT i FROM s [NOW]"):
        fed(db, range(1, 3))
    with pytest.raises(InUse, match="in use by q") as refused:
        db.execute("DROP STREAM s")
    assert refused.value.hint == "Drop q first."
    db.close()
    with open_inline(tmp_path / "db") as again:
        assert [query.name for query in again.queries()] == ["q"]
        again.execute("DROP QUERY q; DROP STREAM s")


def test_a_query_without_a_name_frees_its_stream_when_it_is_stopped(db: Database) -> None:
    db.execute(f"CREATE QUERY q AS {COUNT}")
    passing = db.execute(COUNT)
    with pytest.raises(InUse, match="in use by q, query_1") as refused:
        db.execute("DROP STREAM s")
    assert refused.value.hint == "Stop query_1 and drop q first."
    passing.stop()
    db.execute("DROP QUERY q; DROP STREAM s")


def test_it_goes_on_exactly_when_the_database_is_opened_again(db: Database, tmp_path: Path) -> None:
    """Rows that it has not seen, or that its replay needs, outlast their retention; others tick on meanwhile."""
    q = db.execute(f"CREATE QUERY q AS {COUNT}")
    fed(db, range(10))
    q.stop()
    db.execute("SELECT i FROM s")
    for seconds in (range(11, 30), range(31, 60), range(100, 100)):
        fed(db, seconds)
        db._engine.maintain()
    assert counted(q) == [10]
    assert q.frontier == 10 * SECOND
    db.close()
    with open_inline(tmp_path / "db") as again:
        again.flush()
        q = again.query("q")
        assert counted(q) == [58]
        assert last_change(q) == (59, 1, 58)
        fed(again, range(200, 201))
        assert counted(q) == [59]
        assert last_change(q) == (200, 1, 59)


def test_it_stays_known_and_readable(db: Database) -> None:
    q = db.execute(f"CREATE QUERY q AS {COUNT}")
    fed(db, range(3))
    q.stop()
    fed(db, range(5, 8))
    assert counted(db.query("q")) == [3]
    assert db.execute("SELECT c FROM q").to_pylist() == [{"c": 3}]
    assert counted(q) == [3]
    assert q.result(at=SECOND).to_pylist() == [{"c": 2}]
    assert db.execute("SHOW QUERIES").select(["name", "state"]).to_pylist() == [{"name": "q", "state": "stopped"}]
    assert repr(q).endswith(", stopped>")
    assert [change.row for change in q.subscribe()][-1] == (3,)
    with pytest.raises(AlreadyExists):
        db.execute("CREATE QUERY q AS SELECT i FROM s [NOW]")


def test_it_can_be_dropped_and_its_name_used_again(db: Database, tmp_path: Path) -> None:
    db.execute(f"CREATE QUERY q AS {COUNT}").stop()
    db.execute("DROP QUERY q")
    with pytest.raises(QueryNotFound):
        db.query("q")
    other = db.execute("CREATE QUERY q AS SELECT i, i + 1 AS j FROM s")
    fed(db, range(1))
    assert other.result().to_pylist() == [{"i": 1, "j": 2}]
    db.close()
    with open_inline(tmp_path / "db") as again:
        assert again.query("q").result().to_pylist() == [{"i": 1, "j": 2}]


def test_the_handle_of_a_stopped_query_without_a_name_still_reads(db: Database) -> None:
    q = db.execute(COUNT)
    fed(db, range(3))
    q.stop()
    fed(db, range(5, 50))
    db._engine.maintain()
    assert counted(q) == [3]
    assert db.queries() == []
    assert db.execute("SHOW QUERIES").num_rows == 0


def test_the_handle_of_a_dropped_query_says_so(db: Database) -> None:
    q = db.execute(f"CREATE QUERY q AS {COUNT}")
    fed(db, range(3))
    db.execute("DROP QUERY q")
    for read in (q.result, q.changes, q.subscribe, q._repr_html_):
        with pytest.raises(QueryNotFound, match='"q" was dropped'):
            read()
    q.stop()


def test_a_query_without_a_name_leaves_nothing_once_nobody_can_ask_it(tmp_path: Path) -> None:
    """Each left a directory until the database was opened again: a program that asks now and then for weeks would have filled the disk."""
    with open_inline(tmp_path, buckets=1) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT) TIMESTAMP BY ts")
        for i in range(3):
            query = db.execute("SELECT count(*) AS n FROM s [RANGE 1 MINUTE]")
            assert isinstance(query, Query)
            db.insert("s", [(i * 1_000_000, i)])
            db.flush()
            query.stop()
            assert query.result().num_rows == 1  # as long as there is somebody to ask
        gc.collect()
        assert len(list((tmp_path / "queries").iterdir())) == 1
        del query
        gc.collect()
        assert not list((tmp_path / "queries").iterdir())


def test_a_query_that_is_dropped_while_its_files_are_merged_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compact = Changelog.compact
    with open_inline(tmp_path, buckets=1) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 1 MINUTE]")
        for i in range(20):
            db.insert("s", [(i * 1_000_000, i)])
            db.flush()

        def dropped_first(changelog: Changelog, **how: Any) -> int:
            db.execute("DROP QUERY IF EXISTS q")
            return compact(changelog, **how)

        monkeypatch.setattr(Changelog, "compact", dropped_first)
        db._engine.maintain()
        assert "q" not in db._engine.queries
        assert not [record for record in caplog.records if record.levelname == "ERROR"]
        assert not list((tmp_path / "queries").iterdir())
