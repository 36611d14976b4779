"""result() of a query whose operators keep no relation: its changes are added up once, a piece at a time, then only those that are new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import open_inline
from millstream.api import Database, Query
from millstream.core.errors import InstantPassed
from millstream.core.instant import Micros
from millstream.runtime import adding_up
from millstream.state.changelog import Changelog

Bag = Counter[tuple[Any, ...]]
RETAIN = "RETAIN 20 MICROSECONDS"
DISTANCE = 6
"""Microseconds from a tick's rows to those of the next."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding_up, "_PIECE", 3)
    monkeypatch.setattr(Changelog.fold, "__kwdefaults__", {"fewest": 1})


def pairs(path: Path, retain: str = "") -> Database:
    db = open_inline(path, buckets=2)
    for stream in "ab":
        db.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k INT, v STRING) TIMESTAMP BY ts RETAIN 30 MICROSECONDS")
    windows = "a [RANGE 10 MICROSECONDS] JOIN b [RANGE 15 MICROSECONDS] ON a.k = b.k"
    db.execute(f"CREATE QUERY pairs {retain} AS SELECT a.v, b.v FROM {windows}")
    return db


def tick(db: Database, number: int, rows: list[tuple[str, int, int, str | None]]) -> None:
    for stream in "ab":
        db.insert(stream, [(number * DISTANCE + after, k, v) for name, after, k, v in rows if name == stream])
    db.advance(number * DISTANCE + DISTANCE - 1)
    db.flush()
    db._engine.maintain()


def bag(table: pa.Table) -> Bag:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def summed(changes: pa.Table, upto: Micros) -> Bag:
    total: Bag = Counter()
    instants = changes.column(0).cast(pa.int64()).to_pylist()
    for instant, diff, *row in zip(instants, *(column.to_pylist() for column in changes.columns[1:]), strict=True):
        if instant <= upto:
            total[tuple(row)] += diff
    assert min(total.values(), default=0) >= 0
    return +total


rows = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, DISTANCE - 1), st.integers(0, 1), st.sampled_from(["x", "y", "", None])), max_size=6
)
questions = st.lists(st.integers(0, 40), max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(rows, questions), min_size=1, max_size=12))
def test_whatever_was_asked_before_the_answer_is_what_all_changes_add_up_to(
    ticks: list[tuple[list[tuple[str, int, int, str | None]], list[int]]],
) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as other, pairs(Path(one)) as whole, pairs(Path(other), RETAIN) as some:
        for number, (arrivals, asked) in enumerate(ticks):
            for db in (whole, some):
                tick(db, number, sorted(arrivals, key=lambda row: row[1]))
            changes, now = whole.query("pairs").changes(), whole.query("pairs").frontier
            for back in asked:
                at = max(now - back, 0)
                assert bag(whole.query("pairs").result(at=at)) == summed(changes, at)
                if at >= some._engine.queries["pairs"].changelog.folded_to:
                    assert bag(some.query("pairs").result(at=at)) == summed(changes, at)
                assert bag(some.query("pairs").result()) == summed(changes, now)


def read(query: Query, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """How many changes each question reads."""
    counts = [0]
    of_one = Changelog.read_some

    def counted(self: Changelog, since: Micros, until: Micros, most: int) -> tuple[pa.Table, Micros]:
        changes, upto = of_one(self, since, until, most)
        counts[0] += changes.num_rows
        return changes, upto

    monkeypatch.setattr(Changelog, "read_some", counted)
    while True:
        counts[0] = 0
        query.result()
        yield counts[0]


def test_a_change_is_read_once_however_often_somebody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pairs(tmp_path) as db:
        reads = read(db.query("pairs"), monkeypatch)
        for number in range(5):
            tick(db, number, [("a", 0, 0, "x"), ("b", 1, 0, "y")])
        so_far = db.query("pairs").changes().num_rows
        assert next(reads) == so_far > 5
        assert next(reads) == 0
        tick(db, 5, [("a", 0, 0, "x"), ("b", 1, 0, "y")])
        assert next(reads) == db.query("pairs").changes().num_rows - so_far > 0


def test_the_past_is_folded_while_somebody_adds_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces to come then begin with all rows of the base: those that were added up already must not count again."""
    with pairs(tmp_path, "RETAIN 5 MICROSECONDS") as db:
        folded: list[Micros] = []
        monkeypatch.setattr(Changelog, "fold", lambda *_, **__: False)
        for number in range(8):
            tick(db, number, [("a", 0, 0, "x"), ("b", 1, 0, "y")])
        monkeypatch.undo()
        monkeypatch.setattr(adding_up, "_PIECE", 3)
        monkeypatch.setattr(Changelog.fold, "__kwdefaults__", {"fewest": 1})
        query, of_one = db.query("pairs"), Changelog.read_some
        right = summed(query.changes(), query.frontier)

        def meanwhile(self: Changelog, since: Micros, until: Micros, most: int) -> tuple[pa.Table, Micros]:
            if len(folded) == 1:
                db._engine.maintain()
            folded.append(self.folded_to)
            return of_one(self, since, until, most)

        monkeypatch.setattr(Changelog, "read_some", meanwhile)
        assert bag(query.result()) == right
        assert folded[0] < folded[2], "it was not folded meanwhile"
        with pytest.raises(InstantPassed):
            query.result(at=1)
