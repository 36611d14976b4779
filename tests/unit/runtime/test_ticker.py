"""Ticks that come by themselves: on arrival, and on the wall clock for a stream that has gone quiet."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from inline import InlineRunner
from millstream.api import Database
from millstream.core.errors import MillstreamError
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
