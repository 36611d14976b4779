"""CREATE QUERY ... RETAIN: what lies further back is folded into the answer as it was then, and the files stop growing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.errors import InstantPassed
from millstream.runtime import rounds, upkeep
from millstream.state import changelog
from millstream.state.location import Location
from unit.runtime.manual_clock import ManualClock

ROWS_A_TICK, TICKS = 10, 60


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots and folding at once, not only when they are worth it."""
    monkeypatch.setattr(rounds, "SNAPSHOT_TICKS", 1)
    monkeypatch.setattr(changelog.Changelog.fold, "__kwdefaults__", {"fewest": 1})


def made(path: Path, retain: str) -> Database:
    db = open_inline(path, buckets=2)
    db.execute("CREATE STREAM s (ts TIMESTAMP, k INT) TIMESTAMP BY ts RETAIN 20 MICROSECONDS")
    db.execute(f"CREATE QUERY counts {retain} AS SELECT k, count(*) AS n FROM s [RANGE 30 MICROSECONDS] GROUP BY k")
    db.execute(f"CREATE QUERY elements {retain} AS SELECT ISTREAM(k) FROM s [RANGE 30 MICROSECONDS]")
    db.execute("CREATE QUERY above AS SELECT n, count(*) AS m FROM counts GROUP BY n")
    return db


def tick(db: Database, number: int) -> None:
    db.insert("s", [(ts, ts % 7) for ts in range(number * ROWS_A_TICK, (number + 1) * ROWS_A_TICK)])
    db.flush()
    db._engine.maintain()


def summed(table: Any, upto: int | None = None) -> Counter[tuple[Any, ...]]:
    total: Counter[tuple[Any, ...]] = Counter()
    for instant, diff, *row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if upto is None or instant.timestamp() * 1e6 <= upto:
            total[tuple(row)] += diff
    assert min(total.values(), default=0) >= 0
    return +total


def bag(table: Any) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_the_past_is_folded_and_everything_else_stays_as_it_was(tmp_path: Path) -> None:
    with made(tmp_path / "all", "") as whole, made(tmp_path / "some", "RETAIN 50 MICROSECONDS") as kept:
        for number in range(TICKS):
            tick(whole, number)
            tick(kept, number)
        last = kept.query("counts").frontier
        folded = kept._engine.queries["counts"].changelog.folded_to
        assert last - 50 - ROWS_A_TICK * 2 < folded <= last - 50
        for name in ("counts", "above"):
            assert bag(kept.query(name).result()) == bag(whole.query(name).result()) == summed(kept.query(name).changes())
        for at in range(folded, last + 1):
            assert bag(kept.query("counts").result(at=at)) == bag(whole.query("counts").result(at=at))
            assert summed(kept.query("counts").changes(), at) == summed(whole.query("counts").changes(), at)
        later = whole.query("elements").changes(since=folded)
        assert kept.query("elements").changes(since=folded).equals(later)


def test_an_instant_that_is_gone_is_refused(tmp_path: Path) -> None:
    with made(tmp_path, "RETAIN 50 MICROSECONDS") as db:
        for number in range(20):
            tick(db, number)
        for ask in (lambda: db.query("counts").result(at=20), lambda: db.query("counts").changes(since=20)):
            with pytest.raises(InstantPassed, match="keeps its past from"):
                ask()


def test_queries_over_it_and_restarts_go_on_from_what_is_left(tmp_path: Path) -> None:
    with made(tmp_path / "all", "") as whole:
        for number in range(TICKS):
            tick(whole, number)
        expected = {name: bag(whole.query(name).result()) for name in ("counts", "above")}
    with made(tmp_path / "some", "RETAIN 50 MICROSECONDS") as kept:
        for number in range(TICKS // 2):
            tick(kept, number)
    with open_inline(tmp_path / "some", buckets=2) as kept:
        kept.execute("CREATE QUERY late AS SELECT n, count(*) AS m FROM counts GROUP BY n")
        for number in range(TICKS // 2, TICKS):
            tick(kept, number)
        assert {name: bag(kept.query(name).result()) for name in ("counts", "above")} == expected
        assert bag(kept.query("late").result()) == expected["above"]


def test_files_and_rows_stop_growing(tmp_path: Path) -> None:
    with made(tmp_path, "RETAIN 50 MICROSECONDS") as db:
        sizes = []
        for number in range(TICKS):
            tick(db, number)
            table = db._engine.queries["counts"].changelog._table
            sizes.append((len(table.index), table.index.rows))
        assert max(sizes[20:40]) >= max(sizes[40:])


def test_files_that_are_too_few_to_be_folded_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks further apart than an eighth of RETAIN left a file each, as no two of them end in the same span of time."""
    monkeypatch.setattr(changelog.Changelog.fold, "__kwdefaults__", {"fewest": 10_000})
    with made(tmp_path, "RETAIN 30 MICROSECONDS") as db:
        for number in range(TICKS):
            tick(db, number)
        assert len(db._engine.queries["counts"].changelog._table.index) < 25
        assert summed(db.query("counts").changes()) == bag(db.query("counts").result())


def test_files_that_a_long_window_keeps_are_merged(tmp_path: Path) -> None:
    """The same for a stream with a short RETAIN, whose rows a window needs for longer."""
    with open_inline(tmp_path, buckets=1) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT) TIMESTAMP BY ts RETAIN 20 MICROSECONDS")
        db.execute("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10000 MICROSECONDS]")
        for number in range(TICKS):
            tick(db, number)
        assert len(db._engine.streams["s"].log._table.index) < 40


def test_it_is_part_of_the_saved_statement(tmp_path: Path) -> None:
    with made(tmp_path, "RETAIN 2 HOURS") as db:
        assert "RETAIN 2 HOURS" in (db._statements.definition("counts") or "")
    with open_inline(tmp_path, buckets=2) as db:
        assert db._engine.queries["counts"].retain_us == 7_200_000_000


def test_files_are_put_in_order_also_where_nobody_ticks_but_the_user(tmp_path: Path) -> None:
    clock = ManualClock()
    with Database(Location.open(tmp_path, buckets=1), InlineRunner(), tick_interval=None, clock=clock.clock) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT) TIMESTAMP BY ts RETAIN 20 MICROSECONDS")
        db.execute("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 MICROSECONDS]")
        files = []
        for number in range(40):
            db.insert("s", [(number * 10, 1)])
            clock.seconds += upkeep.MAINTAIN_S / 4
            db.flush()
            files.append(len(db._engine.streams["s"].log._table.index))
        assert max(files) < 12
