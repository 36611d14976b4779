"""Sinks follow the changelog: nothing twice, nothing lost, also across restarts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from inline import open_inline
from millstream.core.errors import ConfigInvalid, NotSupported

DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
QUERY = "CREATE QUERY q AS SELECT k, sum(v) AS total FROM s [RANGE 5 MICROSECONDS] GROUP BY k"


def delivered(directory: Path, format_: str) -> pa.Table:
    read = {"parquet": pq.read_table, "csv": pa.csv.read_csv}[format_]
    return pa.concat_tables([read(path) for path in sorted(directory.glob(f"*.{format_}"))])


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_every_change_arrives_once(format_: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    db = open_inline(tmp_path / "db")
    db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO '{format_}' OPTIONS (path '{out}')")
    for t in range(0, 30, 3):
        db.insert("s", [(t, "ab"[t % 2], t)])
        db.flush()
        if t == 15:
            db.close()
            db = open_inline(tmp_path / "db")
    changes = db.query("q").changes()
    found = delivered(out, format_)
    assert found.column("total").to_pylist() == changes.column("total").to_pylist()
    assert found.column("diff").to_pylist() == changes.column("diff").to_pylist()
    assert list(out.glob(".*")) == []
    db.close()


def test_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = open_inline(tmp_path / "db")
    db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'console'")
    db.insert("s", [(0, "a", 5), (2, "a", 1)])
    db.advance(2)
    db.flush()
    assert capsys.readouterr().out.splitlines() == [
        "o 1970-01-01T00:00:00Z + a, 5",
        "o 1970-01-01T00:00:00.000002Z - a, 5",
        "o 1970-01-01T00:00:00.000002Z + a, 6",
    ]
    db.close()


def test_wrong_sinks_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    db = open_inline(tmp_path / "db")
    db.execute(f"{DDL}; {QUERY}")
    with pytest.raises(NotSupported, match="no sink of format"):
        db.execute("CREATE SINK o FROM q INTO 'carrier pigeon'")
    with pytest.raises(ConfigInvalid, match="needs a path"):
        db.execute("CREATE SINK o FROM q INTO 'parquet'")
    assert db.execute("SHOW SINKS").num_rows == 0
    db.close()
    open_inline(tmp_path / "db").close()
