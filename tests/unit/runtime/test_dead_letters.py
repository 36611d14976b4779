"""Rows that a stream cannot take: kept aside once, counted, bounded, and never in the way of the others."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import ArityMismatch, TypeMismatch
from millstream.runtime import row_values
from millstream.runtime.dead_letters import MOST_BYTES, cut
from millstream.state import stream_log
from unit.runtime.manual_clock import STARTED, ManualClock

DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
ROWS: list[Any] = [(0, "a", 1), (1, "b", "five"), (2, "c"), (3, "d", 4), (None, "e", 5), "row"]


def opened(path: Path, clock: ManualClock, ddl: str | None = DDL) -> Database:
    db = open_inline(path, clock=clock.clock)
    if ddl:
        db.execute(ddl)
    return db


def letters(db: Database) -> list[tuple[Any, ...]]:
    return [tuple(letter.values()) for letter in db.execute("SELECT row, reason, source FROM s.rejected").to_pylist()]


EXPECTED = [
    ("(1, 'b', 'five')", 'column "v" of "s" takes INT, not \'five\'', "insert, row 1"),
    ("(2, 'c')", 'row 2 has 2 values, but "s" has 3 columns', "insert, row 2"),
    ("(None, 'e', 5)", 'column "ts" of "s" is its timestamp and cannot be NULL', "insert, row 4"),
    ("'row'", "row 5 is a str", "insert, row 5"),
]


def test_the_others_are_taken_and_a_restart_changes_nothing(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock) as db:
        query = db.execute("SELECT v FROM s [RANGE 1 HOUR]")
        assert db.insert("s", ROWS) == 2
        db.advance(5)
        db.flush()
        assert sorted(query.result().column("v").to_pylist()) == [1, 4]
        assert letters(db) == EXPECTED
    with opened(tmp_path, clock, None) as db:
        assert letters(db) == EXPECTED
        (info,) = db.streams()
        assert (info.rows, info.late, info.rejected) == (2, 0, 4)
        assert db.execute("SHOW STREAMS").to_pylist()[0]["rejected"] == 4
        at = db.execute("SELECT at FROM s.rejected").column("at").cast(pa.int64()).to_pylist()
        assert at == [STARTED] * 4
        db.insert("s", [(6, "late?", "x")])
        assert len(letters(db)) == 5
        db.execute("DROP STREAM s")
        db.execute(DDL)
        assert letters(db) == []


def test_a_strict_stream_takes_nothing_of_a_call_with_a_bad_row(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, f"{DDL} ON ERROR FAIL") as db:
        with pytest.raises(ArityMismatch, match="row 2 has 2 values"):
            db.insert("s", ROWS)
        assert (db.streams()[0].rows, db.streams()[0].rejected) == (0, 0)
        assert "ON ERROR FAIL" in (db.definition("s") or "")
        assert db.execute("DESCRIBE s").to_pylist()[0]["note"] == "timestamp, on error fail"
    with opened(tmp_path, clock, None) as db, pytest.raises(TypeMismatch, match="cannot be NULL"):
        db.insert("s", [(None, "a", 1)])


def test_typed_statements_are_strict_whatever_the_stream_says(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, f"{DDL} MAX AHEAD 1 HOUR") as db:
        with pytest.raises(TypeMismatch) as error:
            db.execute("INSERT INTO s VALUES (NULL, 'a', 1)")
        assert error.value.span is not None
        with pytest.raises(TypeMismatch, match="more than 1 HOUR ahead of the clock"):
            db.execute("INSERT INTO s VALUES (TIMESTAMP '9998-01-01', 'a', 1)")
        assert (db.streams()[0].rows, db.streams()[0].rejected) == (0, 0)
        assert db.execute("DESCRIBE s").to_pylist()[0]["note"] == "timestamp, max ahead 1 HOUR"


def test_max_ahead_follows_the_clock(tmp_path: Path, clock: ManualClock) -> None:
    hour = 3_600_000_000
    with opened(tmp_path, clock, f"{DDL} MAX AHEAD 1 HOUR") as db:
        assert db.insert("s", [(STARTED + hour + 1, "a", 1)]) == 0
        clock.seconds += 1
        assert db.insert("s", [(STARTED + hour + 1, "a", 1)]) == 1
        assert db.streams()[0].frontier == STARTED + hour


def test_a_batch_warns_once(tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    with opened(tmp_path, clock) as db, caplog.at_level(logging.WARNING):
        db.insert("s", ROWS)
        db.insert("s", [(9, "z", 1)])
    (record,) = [record for record in caplog.records if "rejected" in record.message]
    assert record.message == f'stream "s" rejected 4 rows, the first: insert, row 1: {EXPECTED[0][1]}'


def test_letters_leave_with_the_retention_by_the_wall_clock(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, f"{DDL} RETAIN 10 SECONDS") as db:
        db.insert("s", [(0, "a", "x")])
        clock.seconds += 6
        db.insert("s", [(0, "b", "x")])
        clock.seconds += 5
        db._engine.maintain()
        assert [row for row, _, _ in letters(db)] == ["(0, 'b', 'x')"]
        assert db.streams()[0].rejected == 2, "counted for ever"


def test_letters_are_bounded_in_number(tmp_path: Path, clock: ManualClock) -> None:
    with patch.object(stream_log, "MOST_REJECTED", 25), opened(tmp_path, clock) as db:
        for i in range(10):
            db.insert("s", [(j, f"{i}", "x") for j in range(10)])
        db._engine.maintain()
        assert [row[4:7] for row, _, _ in letters(db)[::10]] == ["'8'", "'9'"]


def test_what_is_cut_says_so() -> None:
    assert cut("x" * MOST_BYTES) == "x" * MOST_BYTES
    assert cut("x" * (MOST_BYTES + 1)) == "x" * MOST_BYTES + f"... ({MOST_BYTES + 1} bytes in all)"
    assert cut("ü" * 3000).startswith("ü" * 2048 + "... (6000 bytes")
    assert cut("a\ud800") == "a\\ud800"


def test_good_rows_of_many_are_not_looked_at_one_by_one(tmp_path: Path, clock: ManualClock) -> None:
    """A hundred thousand rows with three bad values: the halving looks at a few dozen pieces, not at rows."""
    count = 100_000
    values: list[Any] = [1.0] * count
    for place in (5, 77_777, 99_999):
        values[place] = 1.5
    table = pa.table({"ts": range(count), "v": values})
    with opened(tmp_path, clock) as db:
        with patch.object(row_values, "_converts", wraps=row_values._converts) as asked:
            assert db.insert("s", table) == count - 3
        assert asked.call_count < 150
        assert [source for _, _, source in letters(db)] == [f"insert, row {place}" for place in (5, 77_777, 99_999)]
