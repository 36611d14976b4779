"""Ticks that come by themselves: on arrival, and on the wall clock for a stream that has gone quiet."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from inline import InlineRunner
from millstream.api import Database
from millstream.core.errors import MillstreamError
from millstream.runtime import ticker
from millstream.runtime.engine import Engine
from millstream.runtime.messages import StageResult, StageTask
from millstream.state.location import Location


def open_ticking(path: Path, runner: InlineRunner | None = None) -> Database:
    return Database(Location.open(path, buckets=2), runner or InlineRunner(), tick_interval=0.01)


def test_answers_come_without_flush(tmp_path: Path) -> None:
    with open_ticking(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        q = db.execute("SELECT v FROM s")
        db.insert("s", [(0, 1), (1, 2), (2, 3)])
        changes = q.subscribe()
        assert [next(changes).row for _ in range(2)] == [(1,), (2,)]


def test_an_idle_stream_follows_the_wall_clock(tmp_path: Path) -> None:
    with open_ticking(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts IDLE TIMEOUT 50 MILLISECONDS")
        q = db.execute("SELECT v FROM s [RANGE 100 MILLISECONDS]")
        now = time.time_ns() // 1000
        db.insert("s", [(now, 7)])
        changes = q.subscribe()
        entered, left = next(changes), next(changes)
        assert (entered.diff, left.diff) == (1, -1)
        assert (left.instant - entered.instant).total_seconds() == pytest.approx(0.100001, abs=1e-9)


class BrokenRunner(InlineRunner):
    """Spark gone away."""

    def run_stage(self, tasks: list[StageTask]) -> list[StageResult]:
        raise RuntimeError("the cluster is gone")


def test_a_ticker_that_stops_says_why(tmp_path: Path) -> None:
    with open_ticking(tmp_path, BrokenRunner()) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        db.execute("SELECT v FROM s")
        db.advance("s", 0)
        db._ticker._thread.join(10)  # type: ignore[union-attr]
        with pytest.raises(MillstreamError, match="the cluster is gone"):
            db.check()


def test_rows_that_never_end_do_not_keep_the_others_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, sinks and streams that have gone quiet get their turn where something is always due."""
    monkeypatch.setattr(ticker, "_FOLLOW_S", 0.05)
    published, ticks = threading.Event(), []
    with Database(Location.open(tmp_path, buckets=2), InlineRunner(), tick_interval=1e6) as db, monkeypatch.context() as busy:

        def tick(self: Engine) -> object:
            ticks.append(time.sleep(0.005))
            return self

        def publish(self: Engine) -> None:
            if ticks:
                published.set()

        busy.setattr(Engine, "tick", tick)
        busy.setattr(Engine, "publish", publish)
        db._ticker.wake()
        assert published.wait(10)
        some = len(ticks)
        time.sleep(0.3)
        assert len(ticks) > some, "and ticks go on"
        busy.undo()
