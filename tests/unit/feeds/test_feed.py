"""Feeds: pushing never waits for the engine, rows arrive in order, and what is dropped is counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.errors import ConfigInvalid, MillstreamError, SourceFailed, StorageFailed
from millstream.runtime.feed import Feed
from millstream.state.location import Location

DDL = "CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with open_inline(tmp_path / "db") as database:
        database.execute(DDL)
        yield database


class Stuck:
    """Holds the stream's lock, as an insert does that takes its time, until it is let go."""

    def __init__(self, db: Database) -> None:
        self._lock = db._engine.streams["s"].lock
        self._held, self._go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self._lock:
            self._held.set()
            assert self._go.wait(60)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._held.wait(60)

    def __exit__(self, *_: object) -> None:
        self._go.set()
        self._thread.join()


def await_busy(feed: Feed) -> None:
    """Its thread has taken what waited, and is inserting it."""
    with feed._changed:
        assert feed._changed.wait_for(lambda: feed._is_busy, 60)


def rows(db: Database) -> list[int]:
    db.flush()
    query = db.execute("SELECT v FROM s [UNBOUNDED]")
    db.advance("s", 1_000)
    db.flush()
    return sorted(query.result().column("v").to_pylist())  # type: ignore[union-attr]


def shown(db: Database) -> dict[str, Any]:
    return dict(db.execute("SHOW STREAMS").to_pylist()[0])  # type: ignore[union-attr]


def test_what_is_pushed_arrives_in_order(db: Database) -> None:
    with db.feed("S") as feed:
        feed.push([(1, 1), {"ts": 2, "v": 2}])
        feed.push(pa.table({"ts": pa.array([3, 4], pa.timestamp("us", "UTC")), "v": pa.array([3, 4], pa.int32())}))
        feed.push(iter([(5, 5)]))
    assert (rows(db), feed.dropped, shown(db)["dropped"], shown(db)["late"]) == ([1, 2, 3, 4, 5], 0, 0, 0)


def test_a_producer_does_not_wait_for_a_stream_that_is_stuck_and_the_newest_rows_stay(db: Database) -> None:
    feed = db.feed("s", capacity=10)
    with Stuck(db):
        feed.push([(0, 0)])
        await_busy(feed)
        for v in range(1, 16):
            feed.push([(v, v)])
        assert (feed.waiting, feed.dropped, shown(db)["dropped"]) == (10, 5, 5)
    assert rows(db) == [0, *range(6, 16)]
    assert db.streams()[0].dropped == 5


def test_the_oldest_rows_stay_if_told_so(db: Database) -> None:
    feed = db.feed("s", capacity=3, when_full="drop_newest")
    with Stuck(db):
        feed.push([(0, 0)])
        await_busy(feed)
        feed.push([(v, v) for v in range(1, 8)])
    assert (rows(db), feed.dropped) == ([0, 1, 2, 3], 4)


def test_a_feed_that_blocks_loses_nothing(db: Database) -> None:
    feed = db.feed("s", capacity=3, when_full="block")
    pushing = threading.Thread(target=feed.push, args=([(v, v) for v in range(20)],))
    with Stuck(db):
        pushing.start()
        with feed._changed:
            assert feed._changed.wait_for(lambda: feed._is_busy and feed.waiting == 3, 60)
        assert pushing.is_alive()
    pushing.join(60)
    feed.flush()
    assert (rows(db), feed.dropped) == (list(range(20)), 0)


def test_closing_flushes_and_then_nothing_is_taken(db: Database) -> None:
    feed = db.feed("s")
    feed.push([(1, 1)])
    feed.close()
    feed.close()
    assert rows(db) == [1]
    with pytest.raises(ConfigInvalid, match="is closed"):
        feed.push([(2, 2)])


def test_the_drops_of_a_closed_feed_are_remembered(db: Database) -> None:
    with db.feed("s", capacity=1) as feed:
        feed.push([(1, 1), (2, 2)])
    assert (feed.dropped, shown(db)["dropped"]) == (1, 1)
    with db.feed("s", capacity=1) as feed:
        feed.push([(3, 3), (4, 4), (5, 5)])
    assert shown(db)["dropped"] == 3


def test_a_database_that_is_closed_keeps_what_waits(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(DDL)
        db.feed("s").push([(1, 1)])
    with open_inline(tmp_path / "db") as db:
        assert rows(db) == [1]


def test_time_passes_though_no_row_says_so(db: Database) -> None:
    db.execute("CREATE QUERY q AS SELECT v FROM s [RANGE 10 MICROSECONDS]")
    feed = db.feed("s")
    feed.push([(1, 1)])
    feed.passed(100)
    db.flush()
    assert db.streams()[0].frontier == 99
    assert db.query("q").result().num_rows == 0


def test_bad_rows_are_kept_aside_as_in_insert(db: Database) -> None:
    with db.feed("s") as feed:
        feed.push([(1, "x"), (2, 2), 7])
    assert (rows(db), shown(db)["rejected"]) == ([2], 2)


def test_a_mistake_stops_the_feed_and_is_told(db: Database) -> None:
    feed = db.feed("s")
    feed.push(pa.table({"w": [1]}))
    assert not feed.flush()
    with pytest.raises(SourceFailed, match='column "w" does not exist'):
        feed.push([(1, 1)])
    with pytest.raises(MillstreamError, match='column "w"'):
        feed.close()


def test_a_dropped_stream_has_no_feed(db: Database) -> None:
    feed = db.feed("s")
    feed.push([(1, 1)])
    db.execute("DROP STREAM s")
    with pytest.raises(MillstreamError, match="is closed"):
        feed.push([(2, 2)])
    with pytest.raises(MillstreamError, match="there is no"):
        db.feed("s")
    with pytest.raises(MillstreamError, match="system stream"):
        db.feed("sys")


def test_what_the_disk_refuses_is_tried_again(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def insert(rows: object) -> None:
        tried.append(rows)
        if len(tried) == 1:
            raise StorageFailed("the disk is full")

    monkeypatch.setattr("millstream.runtime.feed._RETRY_S", 0.0)
    feed = Feed(db._statements.catalog.stream("s"), insert, lambda ts: None)
    feed.push([(1, 1)])
    assert feed.flush(60)
    assert tried == [[(1, 1)], [(1, 1)]]
    assert feed.error is None


def test_ticks_follow_by_themselves(tmp_path: Path) -> None:
    with Database(Location.open(tmp_path / "db", buckets=1), InlineRunner(), tick_interval=0.01) as db:
        db.execute(f"{DDL}; CREATE QUERY q AS SELECT v FROM s")
        changes = db.query("q").subscribe()
        db.feed("s").push([(1, 1), (2, 2)])
        assert next(changes).row == (1,)
