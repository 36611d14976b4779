"""q.stats(): every operator of a query, with what it took and sent by sign, whatever cuts and schedulers there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from inline import InlineRunner, open_inline
from millstream.api import connect
from millstream.core.errors import ConfigInvalid
from millstream.runtime import tick
from millstream.runtime.schedulers import SchedulerName

SECOND = 1_000_000


def operators(path: Path, scheduler: SchedulerName, rows_a_slice: int | None) -> list[dict[str, Any]]:
    with open_inline(path, buckets=1, runner=InlineRunner(rows_a_slice=rows_a_slice), scheduler=scheduler) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        q = db.execute("SELECT k, count(*) AS n FROM s [RANGE 2 SECONDS] GROUP BY k HAVING count(*) > 1")
        for t in range(4):  # two ticks
            db.insert("s", [(t * SECOND, "a", t), (t * SECOND, "b" if t % 2 else None, t)])
            if t % 2:
                db.flush()
        db.advance(100 * SECOND)
        db.flush()
        found: list[dict[str, Any]] = q.stats()["operators"]
        return found


@pytest.mark.parametrize("scheduler", get_args(SchedulerName))
@pytest.mark.parametrize("rows_a_slice", [None, 1])
def test_what_operators_took_and_sent(tmp_path: Path, scheduler: SchedulerName, rows_a_slice: int | None) -> None:
    window, groups, having, shown = operators(tmp_path, scheduler, rows_a_slice)
    assert window["operator"].startswith("Window [RANGE 2 SECONDS]")
    assert (window["rows_in"], window["rows_out"]) == ({"+": 8, "-": 0}, {"+": 8, "-": 8})
    assert window["selectivity"] == 2.0
    assert groups["operator"].startswith("Aggregate by (k)")
    assert groups["rows_in"] == {"+": 8, "-": 8}
    assert groups["rows_out"]["+"] == having["rows_in"]["+"]
    assert groups["rows_out"]["-"] == having["rows_in"]["-"]
    assert having["rows_out"] == shown["rows_in"] == shown["rows_out"]
    assert having["rows_out"]["+"] == having["rows_out"]["-"] > 0
    assert [each["state_rows"] for each in (window, groups, having, shown)] == [0, 0, 0, 0]
    assert all(each["seconds"] > 0 and each["most_waiting"] > 0 for each in (window, groups, having, shown))


@pytest.mark.parametrize("map_stage_rows", [1, 1_000_000])
@pytest.mark.parametrize("partitioned", ["", "PARTITION BY k"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_what_sources_read_and_let_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int, partitioned: str, map_stage_rows: int
) -> None:
    """However the rows are read: by each bucket, by a map stage, split when they came; also for queries that share them."""
    monkeypatch.setattr(tick, "MAP_STAGE_ROWS", map_stage_rows)
    with open_inline(tmp_path, buckets=buckets) as db:
        db.execute(f"CREATE STREAM s (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts {partitioned}")
        queries = [db.execute(f"SELECT k, count(*) AS n FROM s [RANGE {n} SECONDS] WHERE v < 25 GROUP BY k") for n in (2, 5)]
        for t in range(10):
            db.insert("s", [(t * SECOND, i % 7, i) for i in range(t * 10, t * 10 + 10)])
            if t % 3:
                db.flush()
        for query in queries:
            (source,) = query.stats()["sources"]
            assert source["source"].startswith("Source s (")
            assert (source["rows_in"], source["rows_out"]) == ({"+": 90, "-": 0}, {"+": 25, "-": 0})
            assert source["selectivity"] == pytest.approx(25 / 90, abs=1e-6)


def test_what_a_relation_tells_by_sign(tmp_path: Path) -> None:
    with open_inline(tmp_path, buckets=2) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT) TIMESTAMP BY ts")
        db.execute("CREATE RELATION r (k INT, v INT)")
        query = db.execute("SELECT s.k, r.v FROM s [RANGE 1 HOUR], r WHERE s.k = r.k AND r.v > 10")
        db.insert("s", [(SECOND, 1)])
        db.insert("r", [(1, 5), (1, 15), (2, 20)])
        db.insert("s", [(2 * SECOND, 2)])
        db.execute("DELETE FROM r WHERE v <> 20")
        db.advance(10 * SECOND)
        db.flush()
        stream, relation = sorted(query.stats()["sources"], key=lambda source: "relation" in source["source"])
        assert (stream["rows_in"], stream["rows_out"], stream["selectivity"]) == ({"+": 2, "-": 0}, {"+": 2, "-": 0}, 1.0)
        assert (relation["rows_in"], relation["rows_out"]) == ({"+": 3, "-": 2}, {"+": 2, "-": 1})
        assert relation["selectivity"] == 0.6


def test_sources_that_have_read_nothing_have_no_selectivity(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT) TIMESTAMP BY ts")
        query = db.execute("SELECT k FROM s [NOW] WHERE k > 1")
        assert query.stats()["sources"] == []
        db.advance(10 * SECOND)
        db.flush()
        (source,) = query.stats()["sources"]
        assert (source["rows_in"], source["selectivity"]) == ({"+": 0, "-": 0}, None)


def test_an_unknown_scheduler_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="fifo"):
        connect(scheduler="fio")  # type: ignore[arg-type]
