"""The clock of stages, and what a query tells of where the time of its ticks went."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from millstream.runtime import stage_clock
from millstream.runtime.stage_clock import STAGES, StageClock, added, with_python


class _Hands:
    """What the clock shows: a second more each time somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_an_inner_stage_stops_the_outer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_clock.time, "perf_counter", _Hands())
    clock = StageClock()
    with clock.stage("operators"):
        with clock.stage("decode"):
            pass
        with clock.stage("decode"):
            pass
    assert clock.taken() == {"operators": 3.0, "decode": 2.0}
    assert clock.taken() == {}


def test_a_stage_that_fails_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_clock.time, "perf_counter", _Hands())
    clock = StageClock()
    with pytest.raises(ValueError, match="no"), clock.stage("write"), clock.stage("split"):
        raise ValueError("no")
    with clock.stage("decode"):
        pass
    assert clock.taken() == {"write": 2.0, "split": 1.0, "decode": 1.0}


def test_what_no_stage_has_is_python() -> None:
    assert with_python({"decode": 2.0, "write": 1.0}, 5.0) == {"decode": 2.0, "write": 1.0, "python": 2.0}
    assert added({"decode": 1.0}, {"decode": 4.0, "spark": 2.0}, 0.5) == {"decode": 3.0, "spark": 1.0}


def test_a_query_tells_where_its_time_went(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts")
        query = db.execute("CREATE QUERY q AS SELECT k, sum(v) AS total FROM s [RANGE 5 SECONDS] WHERE v > 0 GROUP BY k")
        for second in range(20):
            db.insert("s", [(second * 1_000_000 + i, i % 7, i) for i in range(1000)])
            db.flush()
        stats = query.stats()
        stages = stats["stages"]
        assert tuple(stages) == STAGES
        assert all(stages[stage] > 0 for stage in ("decode", "filter", "split", "operators", "write", "sync", "commit", "driver"))
        of_workers = sum(stages[stage] for stage in ("decode", "filter", "split", "operators", "write", "python"))
        assert of_workers == pytest.approx(stats["worker_seconds"], rel=0.01, abs=1e-3)
