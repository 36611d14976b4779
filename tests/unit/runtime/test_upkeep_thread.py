"""Upkeep beside the ticks: it may take as long as it takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inline import InlineRunner
from millstream.api import Database
from millstream.core.errors import MillstreamError, StorageFailed
from millstream.runtime import ticker, upkeep
from millstream.runtime.upkeep import Upkeep
from millstream.runtime.upkeep_thread import UpkeepThread
from millstream.state.location import Location
from millstream.state.pace import Pace

PATIENCE_S = 10.0


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAINTAIN_S", 0.0)
    monkeypatch.setattr(ticker, "_FOLLOW_S", 0.0)


def open_ticking(path: Path) -> Database:
    return Database(Location.open(path, buckets=2), InlineRunner(), tick_interval=0.01)


def wait_for(done: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < ends
        time.sleep(0.01)


@pytest.mark.usefixtures("often")
def test_ticks_do_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_end, runs = threading.Event(), threading.Event(), []

    def run(self: Upkeep, _: Pace) -> None:
        runs.append(self)
        self.has_run = True
        began.set()
        may_end.wait()

    monkeypatch.setattr(Upkeep, "run", run)
    with open_ticking(tmp_path) as db:
        try:
            db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
            q = db.execute("SELECT v FROM s")
            assert began.wait(PATIENCE_S)
            db.insert("s", [(1, 1)])
            db.advance("s", 2)
            wait_for(lambda: q.stats()["changes"] == 1)
            assert not may_end.is_set()
            assert len(runs) == 1, "one at a time"
        finally:
            may_end.set()


@pytest.mark.usefixtures("often")
def test_the_files_are_in_order_afterwards(tmp_path: Path) -> None:
    with open_ticking(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        q = db.execute("SELECT v FROM s [UNBOUNDED]")
        for number in range(40):
            db.insert("s", [(number, number)])
            db.flush()
        db.advance("s", 40)
        db.flush()
        wait_for(lambda: len(db._engine.streams["s"].log._table.index) < 16)
        assert sorted(q.result()["v"].to_pylist()) == list(range(40))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("error", [StorageFailed("the disk is full"), RuntimeError("a bug")])
def test_what_goes_wrong_in_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def run(self: Upkeep, _: Pace) -> None:
        raise error

    with monkeypatch.context() as broken, open_ticking(tmp_path) as db:
        broken.setattr(Upkeep, "run", run)

        def is_told() -> bool:
            try:
                db.check()
            except MillstreamError as told:
                return str(error) in str(told)
            return False

        wait_for(is_told)
        broken.undo()


@pytest.mark.usefixtures("often")
def test_the_end_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Event(), threading.Event()

    def run(self: Upkeep, _: Pace) -> None:
        self.has_run = True
        began.set()
        time.sleep(0.2)
        ended.set()

    monkeypatch.setattr(Upkeep, "run", run)
    db = open_ticking(tmp_path)
    assert began.wait(PATIENCE_S)
    ended.clear()
    db.close()
    assert db._engine._upkeep_thread._thread is None
    assert ended.is_set()


def test_it_rests_until_somebody_waits_for_it() -> None:
    rested, done = threading.Event(), []

    def run(pace: Pace) -> None:
        for piece in pace.over(range(3)):
            done.append(piece)
            time.sleep(0.02)  # work, of which a rest of a minute and more comes
            rested.set()

    thread = UpkeepThread(lambda: True, run, rests=1e4)
    thread.kick()
    assert rested.wait(PATIENCE_S)
    assert done == [0]
    thread.stop()
    assert done == [0, 1, 2], "no rest keeps a database from closing, and what was begun is done"
