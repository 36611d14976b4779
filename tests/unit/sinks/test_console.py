"""Lines on standard output, each once as long as nothing crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from unit.sinks.workload import one_more_digit

DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
QUERY = "CREATE QUERY q AS SELECT k, sum(v) AS total FROM s [RANGE 5 MICROSECONDS] GROUP BY k"


def test_changes_are_printed_once_also_across_restarts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'console'")
        db.insert("s", [(0, "a", 5), (2, "a", 1)])
        db.advance(2)
        db.flush()
    assert capsys.readouterr().out.splitlines() == [
        "o 1970-01-01T00:00:00Z + a, 5",
        "o 1970-01-01T00:00:00.000002Z - a, 5",
        "o 1970-01-01T00:00:00.000002Z + a, 6",
    ]
    with open_inline(tmp_path / "db") as db:
        db.flush()
        assert capsys.readouterr().out == ""
        db.insert("s", [(3, "b", 1)])
        db.advance(3)
        db.flush()
    assert capsys.readouterr().out == "o 1970-01-01T00:00:00.000003Z + b, 1\n"


def test_a_sink_that_is_created_again_begins_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'console'")
        db.advance(1)
        db.insert("s", [(2, "a", 5)])
        db.advance(2)
        db.flush()
        first = capsys.readouterr().out
        db.execute("DROP SINK o; CREATE SINK o FROM q INTO 'console'")
        db.flush()
        assert capsys.readouterr().out == first != ""


def test_a_damaged_note_is_told_and_nothing_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'console'")
        db.insert("s", [(0, "a", 5)])
        db.advance(2)
        db.flush()
    note = tmp_path / "db" / "sinks" / "o.json"
    one_more_digit(note)
    with open_inline(tmp_path / "db") as db:
        db.insert("s", [(3, "b", 1)])
        db.advance(3)
        db.flush()
        (row,) = db.execute("SHOW SINKS").to_pylist()  # type: ignore[union-attr]
        assert row["state"] == "retrying"
        assert row["error"] == f'the file "{note}" is damaged: its checksum is another'
    capsys.readouterr()
    note.unlink()
    with open_inline(tmp_path / "db") as db:
        db.flush()
    assert "o 1970-01-01T00:00:00.000003Z + b, 1\n" in capsys.readouterr().out
