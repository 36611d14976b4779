"""Instants lie in the years 1 to 9999: what does not is refused on every way in, and the last instant is one like others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import InstantPassed, TypeMismatch
from millstream.core.instant import BEGINNING, LAST, parse_instant, to_micros

NANOSECONDS = 1_763_200_000_000_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = open_inline(tmp_path / "db")
    database.execute("CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts")
    yield database
    database.close()


@pytest.mark.parametrize("value", [LAST + 1, BEGINNING - 1, NANOSECONDS, -(2**70), "x", "1970-01-01", dt.date(1970, 1, 1), 1.5, True, None])
def test_what_is_no_instant(value: object) -> None:
    with pytest.raises(TypeMismatch):
        to_micros(value)


def test_what_is_an_instant() -> None:
    assert [to_micros(LAST), to_micros(BEGINNING), to_micros(np.int64(5))] == [LAST, BEGINNING, 5]
    assert [to_micros(dt.datetime.max), to_micros(dt.datetime.min)] == [LAST, BEGINNING]


@pytest.mark.parametrize("text", ["253402300800", "-62135596801", "1e999999999", "nan", "inf"])
def test_text_outside_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        parse_instant(text)
    assert parse_instant("253402300799.999999") == LAST


def test_rows_outside_of_time_are_refused(db: Database) -> None:
    db.execute("DROP STREAM s")
    db.execute("CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts ON ERROR FAIL")
    q = db.execute("SELECT i FROM s [RANGE 1 SECOND]")
    arrow = pa.table({"ts": pa.array([0, 2**61], pa.timestamp("us", "UTC")), "i": pa.array([1, 2], pa.int32())})
    for rows in ([(NANOSECONDS, 1)], [(0, 1), (BEGINNING - 1, 1)], arrow):
        with pytest.raises(TypeMismatch, match=r'"ts" of "s"'):
            db.insert("s", rows)
    for instant in (NANOSECONDS, LAST + 1, BEGINNING - 1):
        with pytest.raises(TypeMismatch, match="nanoseconds"):
            db.advance("s", instant)
    db.flush()
    assert db.streams()[0].rows == 0
    assert q.stats()["frontier"] is None
    assert db.execute("SHOW STREAMS").column("frontier").to_pylist() == [None, None], "that of s and that of SYS"


def test_rows_outside_of_time_are_rejected(db: Database) -> None:
    """As rows without a timestamp are; they neither reach the log nor move the frontier."""
    stamps = pa.array([5, 2**61, None, -(2**62), 7], pa.timestamp("us", "UTC"))
    assert db.insert("s", pa.table({"ts": stamps, "i": pa.array([1, 2, 3, 4, 5], pa.int32())})) == 2
    q = db.execute("SELECT i FROM s [UNBOUNDED]")
    db.advance(7)
    db.flush()
    assert q.result().column("i").to_pylist() == [1, 5]
    (info,) = db.streams()
    assert (info.rows, info.late, info.rejected, info.frontier) == (2, 0, 3, 7)
    assert db.execute("SELECT source FROM s.rejected").column("source").to_pylist() == [f"insert, row {i}" for i in (1, 2, 3)]


def test_flush_ends_at_the_last_instant(db: Database) -> None:
    windows = ["RANGE 1 SECOND", "NOW", "UNBOUNDED", "RANGE 2 SECONDS SLIDE 1 SECOND"]
    queries = [db.execute(f"SELECT i FROM s [{window}]") for window in windows]
    db.execute("CREATE RELATION r (k INT)")
    db.insert("s", [(BEGINNING + 5, 1), (LAST, 2)])
    db.flush()
    db.advance(LAST)
    db.flush()
    assert {q.frontier for q in queries} == {LAST}
    assert [sorted(q.result().column("i").to_pylist()) for q in queries] == [[2], [2], [1, 2], []]
    assert {q.stats()["frontier"] for q in queries} == {"9999-12-31T23:59:59.999999Z"}
    assert all(map(repr, queries))
    assert db.execute("SELECT k FROM r").num_rows == 0
    with pytest.raises(InstantPassed):
        db.insert("r", [(1,)])


def test_subscribing_before_anything_has_happened(db: Database) -> None:
    q = db.execute("SELECT count(*) AS n FROM s [RANGE 1 SECOND]")
    assert next(q.subscribe()).row == (0,)
    listening = db.execute("SELECT i FROM s").subscribe()
    db.insert("s", [(0, 7), (1, 8)])
    db.flush()
    assert next(listening).row == (7,)
