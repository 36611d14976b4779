"""A sensor that samples as the queries demand, with a clock that tests move."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import ConfigInvalid
from millstream.runtime.demand import Demand
from millstream.runtime.sensor_proxy import Sampler, SensorProxy
from unit.runtime.manual_clock import ManualClock


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with open_inline(tmp_path / "db") as database:
        database.execute("CREATE STREAM s (ts TIMESTAMP, temp DOUBLE) TIMESTAMP BY ts")
        yield database


class Lab:
    """A sensor whose temperature is the second of the clock, and a sampler that is stepped when it wants to be."""

    def __init__(self, db: Database, max_rate: float = 8.0) -> None:
        self.db = db
        self.time = ManualClock()
        self.sampler = Sampler(lambda: (int(self.time.seconds * 1e6), self.time.seconds), max_rate=max_rate, clock=self.time.clock)
        self.feed = db.feed("s")
        self.sampler.start(self.feed)

    def demand(self) -> None:
        self.sampler.demand(self.db._statements.proxies.demand_on("s"))

    def run(self, seconds: float) -> int:
        """How many samples there were in so many seconds."""
        before, end = self.sampler.samples, self.time.seconds + seconds
        while (wait := self.sampler.step()) is not None and self.time.seconds + wait < end:
            self.time.seconds += wait
        self.time.seconds = end
        return self.sampler.samples - before


def test_the_rate_is_the_greatest_that_is_demanded_and_none_without_queries(db: Database) -> None:
    lab = Lab(db)
    assert (lab.run(10), lab.sampler.rate) == (0, 0.0)
    lab.demand()
    assert lab.run(10) == 0, "nobody listens"
    db.execute("CREATE QUERY one AS SELECT temp FROM s WITH RATE 1 PER SECOND")
    lab.demand()
    assert (lab.run(10), lab.sampler.rate) == (10, 1.0)
    db.execute("CREATE QUERY four AS SELECT temp FROM s WITH RATE 4 PER SECOND")
    lab.demand()
    assert lab.run(10) == 40
    db.execute("CREATE QUERY many AS SELECT temp FROM s WITH RATE 100 PER SECOND")
    lab.demand()
    assert lab.run(10) == 80, "no more than the sensor can"
    db.execute("DROP QUERY many; CREATE QUERY every AS SELECT temp FROM s")
    lab.demand()
    assert lab.run(10) == 80
    db.execute("DROP QUERY every; DROP QUERY four")
    lab.demand()
    assert lab.run(10) == 10
    db.execute("DROP QUERY one")
    lab.demand()
    assert (lab.run(100), lab.sampler.rate) == (0, 0.0)


def test_what_nobody_wants_is_not_sent_and_time_goes_on(db: Database) -> None:
    lab = Lab(db)
    db.execute("CREATE QUERY hot AS SELECT temp FROM s [RANGE 2 SECONDS] WHERE temp >= 3 AND temp < 5 WITH RATE 1 PER SECOND")
    lab.demand()
    assert lab.run(10) == 10
    db.flush()
    assert (lab.sampler.rows_sent, lab.sampler.rows_suppressed) == (2, 8)
    assert lab.sampler.bytes_sent == 2 * lab.sampler.bytes_sent // 2 > 0
    assert (db.streams()[0].rows, db.streams()[0].frontier) == (2, 9_000_000 - 1)
    assert db.query("hot").changes().select(["diff", "temp"]).to_pylist() == [
        {"diff": 1, "temp": 3.0}, {"diff": 1, "temp": 4.0}, {"diff": -1, "temp": 3.0}, {"diff": -1, "temp": 4.0},
    ]  # fmt: skip


def test_fewer_bytes_the_less_is_wanted(db: Database) -> None:
    lab = Lab(db)
    db.execute("CREATE QUERY every AS SELECT temp FROM s")
    lab.demand()
    lab.run(10)
    most = lab.sampler.bytes_sent
    db.execute("CREATE QUERY hot AS SELECT temp FROM s WHERE temp >= 15; DROP QUERY every")
    lab.demand()
    lab.run(10)
    assert lab.sampler.bytes_sent - most == most // 2


def test_a_sample_that_comes_late_is_not_made_up_for_by_a_burst(db: Database) -> None:
    lab = Lab(db, max_rate=1.0)
    db.execute("CREATE QUERY every AS SELECT temp FROM s")
    lab.demand()
    assert (lab.sampler.step(), lab.sampler.samples) == (1.0, 1)
    lab.time.seconds = 1.25
    assert (lab.sampler.step(), lab.sampler.samples) == (0.75, 2), "the average stays"
    lab.time.seconds = 9.0
    assert (lab.sampler.step(), lab.sampler.samples) == (1.0, 3)


@pytest.mark.parametrize("given", [None, [], [(1, 1.0), (2, 2.0)], {"ts": 3, "temp": 3.0}, [(1, "cold")]])
def test_a_sample_may_be_nothing_a_row_or_several(db: Database, given: Any) -> None:
    feed = db.feed("s")
    sampler = Sampler(lambda: given, max_rate=1.0, clock=ManualClock().clock)
    sampler.start(feed)
    sampler.demand(Demand(1, None, None, ("ts", "temp")))
    sampler.step()
    feed.flush()
    shown = db.execute("SHOW STREAMS").to_pylist()[0]  # type: ignore[union-attr]
    count = 1 if isinstance(given, dict) else len(given or ())
    assert shown["rows"] + shown["late"] + shown["rejected"] == count


def test_the_thread_samples_while_there_are_queries_and_tells_what_goes_wrong(db: Database) -> None:
    sampled, clock = threading.Event(), iter(range(1, 10_000))

    def sample() -> tuple[int, float]:
        sampled.set()
        return next(clock), 1.0

    proxy = SensorProxy(sample, max_rate=1_000)
    db.source("s", proxy)
    q = db.execute("SELECT temp FROM s")
    assert sampled.wait(60)
    q.stop()  # type: ignore[union-attr]
    broken = SensorProxy(lambda: 1 // 0, max_rate=1_000)
    broken.start(db.feed("s"))
    broken.demand(Demand(1, None, None, ("ts",)))
    assert broken._thread is not None
    broken._thread.join(60)
    with pytest.raises(ZeroDivisionError):
        broken.demand(Demand(0, 0.0, "FALSE", ("ts",)))


@pytest.mark.parametrize("rate", [0, -1, True, float("inf"), "fast"])
def test_a_rate_that_makes_no_sense(rate: Any) -> None:
    with pytest.raises(ConfigInvalid):
        Sampler(lambda: None, max_rate=rate)
