"""A job that opens the database every now and then, for a moment: what it leaves must not pile up."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from inline import open_inline
from millstream.runtime import upkeep
from millstream.state import delta_log
from millstream.state.delta_check import newest_checkpoint

SECOND = 1_000_000
RUNS = 12


def run(location: Path, number: int) -> None:
    """With fewer commits than make a checkpoint due."""
    with open_inline(location) as db:
        if number == 0:
            db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts RETAIN 5 SECONDS")
            db.execute("CREATE QUERY q RETAIN 5 SECONDS AS SELECT k, sum(v) AS n FROM s [RANGE 2 SECONDS] GROUP BY k")
        for i in range(3):
            db.insert("s", [((3 * number + i) * SECOND, "a", 1)])
            db.flush()


def files(directory: Path, pattern: str) -> list[Path]:
    return [path for path in directory.rglob(pattern) if path.is_file()]


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """After many short runs; each has ended before upkeep was due in it."""
    monkeypatch.setattr(upkeep, "MAINTAIN_S", 1e9)
    monkeypatch.setattr(delta_log, "CHECKPOINT_EVERY", 8)
    for number in range(RUNS):
        run(tmp_path, number)
    return tmp_path


def test_short_runs_one_after_the_other_do_not_pile_up(location: Path) -> None:
    with open_inline(location) as db:
        assert db._engine.streams["s"].log.rows_total < 15, "what is not retained goes"
        assert len(db._engine.queries["q"].changelog._table.index) < 15, "small files are merged"
    assert len(files(location / "ticks", "*.json")) < 30
    tables = [location / "streams" / "s", location / "queries" / "q"]
    for table in tables:
        assert newest_checkpoint(table) > 2 * RUNS, "commits of all runs make a checkpoint due"
        long_ago = time.time() - 3600
        for path in files(table, "*"):
            os.utime(path, (long_ago, long_ago))
    for number in range(RUNS, RUNS + 4):
        run(location, number)
    for table in tables:
        assert len(files(table / "_delta_log", "*.json")) < 2 * RUNS, "commits that no reader needs are gone"


def test_a_run_in_which_it_was_done_does_not_do_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    with open_inline(tmp_path) as db:
        db._engine.maintain()
        monkeypatch.setattr(type(db._engine._upkeep), "run", lambda self, _: done.append(self))
    assert not done
    with open_inline(tmp_path):
        pass
    assert len(done) == 1
