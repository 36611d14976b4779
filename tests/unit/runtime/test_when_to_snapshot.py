"""How often a query's state is written down: seldom enough that it costs no more than the rows, however much it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from millstream.runtime import rounds

ROWS_A_TICK, TICKS = 10, 60


@pytest.mark.parametrize(("held", "least", "most"), [(5, TICKS // 4, TICKS // 2), (200, 1, 10)], ids=["little", "much"])
@pytest.mark.parametrize("due", ["rows", "ticks"])
def test_the_more_it_holds_the_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, due: str, held: int, least: int, most: int
) -> None:
    rows, ticks = {"rows": (15, 10_000), "ticks": (10_000, 2)}[due]
    monkeypatch.setattr(rounds, "SNAPSHOT_ROWS", rows)
    monkeypatch.setattr(rounds, "SNAPSHOT_TICKS", ticks)
    monkeypatch.setattr(rounds, "SNAPSHOT_STATES", rows / 30)  # more than 30 rows are much
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts")
        db.execute(
            f"CREATE QUERY q AS SELECT a.v, max(b.v) AS m FROM s [RANGE {held} MICROSECONDS] a JOIN s [RANGE {held} MICROSECONDS] b "
            "ON a.k = b.k GROUP BY a.v"
        )
        seen = set()
        for tick in range(TICKS):
            db.insert("s", [(ts, ts % 7, ts % 3) for ts in range(tick * ROWS_A_TICK, (tick + 1) * ROWS_A_TICK)])
            db.flush()
            snapshot = db._engine.queries["q"].snapshot
            seen |= {snapshot.at} if snapshot is not None else set()
        there = range(TICKS * ROWS_A_TICK - held - 1, TICKS * ROWS_A_TICK)
        pairs = [(one % 3, other % 3) for one in there for other in there if one % 7 == other % 7]
        expected = {(v, max(m for group, m in pairs if group == v)) for v, _ in pairs}
        assert {tuple(row.values()) for row in db.query("q").result().to_pylist()} == expected
    assert least <= len(seen) <= most
