"""Sources that are told what the live queries need."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from inline import open_inline
from millstream.api import Database
from millstream.core.errors import MillstreamError
from millstream.runtime.demand import Demand
from millstream.runtime.feed import Feed

DDL = "CREATE STREAM s (ts TIMESTAMP, room INT, temp INT, text STRING) TIMESTAMP BY ts"


class Told:
    """A source that remembers what it was told."""

    def __init__(self) -> None:
        self.demands: queue.Queue[Demand] = queue.Queue()
        self.stopped: queue.Queue[bool] = queue.Queue()
        self.fails = False

    def start(self, feed: Feed) -> None:
        self.feed = feed

    def demand(self, demand: Demand) -> None:
        if self.fails:
            self.fails = False
            raise RuntimeError("no radio")
        self.demands.put(demand)

    def stop(self) -> None:
        self.stopped.put(True)

    def next(self) -> Demand:
        return self.demands.get(timeout=60)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with open_inline(tmp_path / "db") as database:
        database.execute(DDL)
        yield database


@pytest.fixture
def source(db: Database) -> Told:
    told = Told()
    db.source("s", told)
    assert told.next() == Demand(0, 0.0, "FALSE", ("ts",))
    return told


def test_demand_follows_the_queries(db: Database, source: Told) -> None:
    db.execute("CREATE QUERY hot AS SELECT room FROM s WHERE temp > 30 WITH RATE 1 PER SECOND")
    assert source.next() == Demand(1, 1.0, '("temp" > 30)', ("ts", "room", "temp"))
    seven = db.execute("SELECT max(temp) AS t FROM s [RANGE 5 SECONDS] WHERE room = 7 WITH RATE 600 PER MINUTE")
    told = source.next()
    assert (told.queries, told.rate, told.predicate) == (2, 10.0, '(("temp" > 30)) OR (("room" = 7))')
    every = db.execute("SELECT text FROM s")
    assert source.next() == Demand(3, None, None, ("ts", "room", "temp", "text"))
    every.stop()  # type: ignore[union-attr]
    assert source.next() == told
    db.execute("DROP QUERY hot")
    assert source.next() == Demand(1, 10.0, '("room" = 7)', ("ts", "room", "temp"))
    seven.stop()  # type: ignore[union-attr]
    assert source.next() == Demand(0, 0.0, "FALSE", ("ts",))


def test_a_query_over_another_stream_is_no_news(db: Database, source: Told) -> None:
    db.execute("CREATE STREAM other (ts TIMESTAMP) TIMESTAMP BY ts; SELECT ts FROM other; SELECT room FROM s")
    assert source.next().queries == 1
    assert source.demands.empty()


def test_a_query_that_fails_or_is_refused_needs_nothing(db: Database, source: Told) -> None:
    with pytest.raises(MillstreamError):
        db.execute("SELECT rom FROM s")
    db.function("bad", lambda v: 1 // 0, "BOOLEAN")
    db.execute("CREATE QUERY q AS SELECT room FROM s WHERE bad(room) AND temp > 1")
    assert source.next().predicate is None, "what a Python function says is not known"
    source.feed.push([(1, 1, 2, ""), (2, 1, 2, "")])
    db.flush()
    assert source.next().queries == 0


def test_demands_survive_a_restart(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; CREATE QUERY q AS SELECT room FROM s WITH RATE 2 PER SECOND WITH EXPIRY negative")
    with open_inline(tmp_path / "db") as db:
        source = Told()
        db.source("s", source)
        assert source.next().rate == 2.0


def test_the_rate_is_no_filter(db: Database, source: Told) -> None:
    db.execute("CREATE QUERY q AS SELECT room FROM s WITH RATE 1 PER DAY")
    source.feed.push([(i, i, 0, "") for i in range(10)])
    source.feed.flush()
    db.advance("s", 10)
    db.flush()
    assert db.query("q").result().num_rows == 10


def test_a_source_that_raises_is_said_and_told_again(db: Database, source: Told) -> None:
    source.fails = True
    db.execute("SELECT room FROM s")
    db.execute("SELECT temp FROM s")
    assert source.next().queries >= 1
    db.execute("SELECT text FROM s")
    while source.next().queries < 3:
        pass
    assert db.execute("SHOW STREAMS").to_pylist()[0]["error"] is None  # type: ignore[union-attr]


def test_it_is_stopped_with_its_stream_and_with_the_database(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; CREATE STREAM t (ts TIMESTAMP) TIMESTAMP BY ts")
        first, second = Told(), Told()
        db.source("s", first)
        db.source("t", second)
        db.execute("DROP STREAM s")
        assert first.stopped.get(timeout=60)
        with pytest.raises(MillstreamError, match="is closed"):
            first.feed.push([])
        assert second.stopped.empty()
    assert second.stopped.get(timeout=60)


def test_what_is_no_source_is_refused(db: Database) -> None:
    with pytest.raises(MillstreamError, match='has no method "start"') as refused:
        db.source("s", object())  # type: ignore[arg-type]
    assert refused.value.hint
    with pytest.raises(MillstreamError, match="there is no stream"):
        db.source("nowhere", Told())


def test_the_names_are_public() -> None:
    assert (millstream.Demand, millstream.Feed) == (Demand, Feed)
    assert millstream.SensorProxy.__name__ == "SensorProxy"
