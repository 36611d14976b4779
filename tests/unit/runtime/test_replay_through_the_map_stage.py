"""Queries with windows of different lengths are rebuilt together, each from the rows that it needs, split by a map stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from millstream.runtime import tick


@pytest.mark.parametrize("share_windows", [True, False])
def test_no_row_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share_windows: bool) -> None:
    monkeypatch.setattr(tick, "MAP_STAGE_ROWS", 1)
    db = open_inline(tmp_path, share_windows=share_windows)
    db.execute("CREATE STREAM s (ts TIMESTAMP, k INT) TIMESTAMP BY ts")
    for name, length in (("short", 5), ("long", 100)):
        db.execute(f"CREATE QUERY {name} AS SELECT k, count(*) AS n FROM s [RANGE {length} MICROSECONDS] GROUP BY k")
    for t in range(20):
        db.insert("s", [(t, i) for i in range(3)])
        db.flush()
    db.close()
    db = open_inline(tmp_path, share_windows=share_windows)
    db.insert("s", [(20, 0)])
    db.advance(20)
    db.flush()
    assert counts(db.query("short").result().to_pylist()) == {0: 6, 1: 5, 2: 5}
    assert counts(db.query("long").result().to_pylist()) == {0: 21, 1: 20, 2: 20}
    db.advance(200)
    db.flush()
    assert not db.query("short").result().num_rows
    assert not db.query("long").result().num_rows
    db.close()


def counts(rows: list[dict[str, int]]) -> dict[int, int]:
    return {row["k"]: row["n"] for row in rows}
