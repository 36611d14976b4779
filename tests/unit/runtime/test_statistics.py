"""q.stats(): every operator of a query, with what it took and sent by sign, whatever cuts and schedulers there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from inline import InlineRunner, open_inline
from millstream.api import connect
from millstream.core.errors import ConfigInvalid
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


def test_an_unknown_scheduler_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="fifo"):
        connect(scheduler="fio")  # type: ignore[arg-type]
