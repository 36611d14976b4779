"""Stores: what is kept once, for whom, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.plan.shared_reading import SharedSources
from millstream.plan.window import TimeWindow
from millstream.runtime.stores import Stores
from property.store_model import Log, Pair

SECOND = 1_000_000


def stepped(pairs: list[Pair], frontier: int) -> None:
    for pair in pairs:
        pair.step(SharedSources(pair.source for pair in pairs), frontier)


def filled(stores: Stores, log: Log, windows: dict[int, tuple[str, ...]]) -> list[Pair]:
    """Windows of these lengths over a row at each instant from 1 to 50."""
    pairs: list[Pair] = []
    for length, columns in windows.items():
        pairs.append(Pair(log, stores, pairs, columns, TimeWindow.range_(length), 0))
    for _ in range(50):
        log.arrive([1], 1)
        stepped(pairs, log.frontier)
        stores.trim(0)
    return pairs


def test_a_store_is_as_large_as_the_largest_window() -> None:
    stores = Stores()
    filled(stores, Log(), {3: ("a",), 7: ("a",), 20: ("a",)})
    (size,) = stores.sizes(0)
    assert 21 <= size.rows <= 2 * 21 + 1  # of the oldest segment, no more are dead than alive
    assert (len(size.readers), size.windows) == (3, 3)


def test_rows_go_when_the_largest_window_goes() -> None:
    stores, log = Stores(), Log()
    small, large = filled(stores, log, {1: ("a",), 40: ("a",)})
    before = stores.sizes(0)[0].rows
    large.reader.leave()
    stores.trim(0)
    assert stores.sizes(0)[0].rows < before / 2
    small.reader.leave()
    stores.trim(0)
    assert stores.sizes(0) == ()


def test_two_readers_get_the_same_buffers() -> None:
    one, other = filled(Stores(), Log(), {20: ("a", "b"), 10: ("b",)})
    found = [pair.reader.between(45, 50)[0].rows.column("b").buffers()[1].address for pair in (one, other)]
    assert found[0] == found[1]


def test_a_reader_that_lags_keeps_its_rows_and_sees_none_early() -> None:
    stores, log = Stores(), Log()
    slow, fast = filled(stores, log, {5: ("a",), 6: ("a",)})
    log.arrive([1, 2, 3, 4], 4)
    fast.step(SharedSources([slow.source]), log.frontier)
    stores.trim(0)
    stepped([slow], log.frontier - 2)
    stepped([slow], log.frontier)
    assert len(stores.sizes(0)) == 1


def test_a_reader_too_far_ahead_of_the_others_has_a_store_of_its_own() -> None:
    """What lies between it and them is not in its feed: they would never get it."""
    stores, log = Stores(), Log()
    (slow,) = filled(stores, log, {5: ("a",)})
    log.arrive(list(range(1, 31)), 30)
    fast = Pair(log, stores, [slow], ("a",), TimeWindow.range_(2), log.frontier)
    assert len(stores.sizes(0)) == 2
    stepped([fast, slow], log.frontier)


def test_a_column_more_is_read_for_the_rows_that_its_reader_needs_and_goes_with_it() -> None:
    stores, log = Stores(), Log()
    narrow = filled(stores, log, {40: ("a",)})
    rows, size = stores.sizes(0)[0].rows, stores.sizes(0)[0].bytes
    wide = Pair(log, stores, narrow, ("b", "c"), TimeWindow.range_(10), log.frontier)
    (together,) = stores.sizes(0)
    assert together.read.schema.names == ("a", "b", "c")
    assert together.rows <= rows
    assert together.bytes == together.rows * (9 + 8) + 2 * 8 * 12  # its window, and an instant more
    stepped([*narrow, wide], log.frontier)
    wide.reader.leave()
    log.arrive([1], 1)
    stepped(narrow, log.frontier)
    assert stores.sizes(0)[0].bytes <= size + 17


@pytest.fixture
def db(tmp_path: Path) -> Database:
    database = open_inline(tmp_path / "db", buckets=1)
    database.execute("CREATE STREAM s (ts TIMESTAMP, k INT, v INT, w STRING) TIMESTAMP BY ts")
    return database


def fed(db: Database, start: int = 0) -> None:
    db.insert("s", [(at * SECOND, at % 3, at, "x") for at in range(start, start + 60)])
    db.flush()


def test_windows_of_one_query_with_other_columns_have_one_store(db: Database) -> None:
    db.execute("CREATE QUERY q AS SELECT a.v, b.w FROM s [RANGE 10 SECONDS] a, s [RANGE 1 MINUTE] b WHERE a.k = b.k")
    fed(db)
    (store,) = db.stores()
    assert (store.source, store.columns, store.queries, store.rows) == ("s", ("k", "v", "w"), ("q",), 60)
    db.close()


def test_queries_have_one_store_unless_their_filters_differ(db: Database) -> None:
    for name, rest in {"a": "", "b": "", "c": "WHERE v > 5 ", "d": "WHERE v > 5 "}.items():
        db.execute(f"CREATE QUERY {name} AS SELECT k, sum(v) AS s FROM s [RANGE 1 MINUTE] {rest}GROUP BY k")
    fed(db)
    db.execute("CREATE QUERY late AS SELECT k, max(w) AS m FROM s [RANGE 30 SECONDS] GROUP BY k")
    fed(db, 60)
    found = {store.queries: (store.columns, len(store.kept_if)) for store in db.stores()}
    assert found == {("a", "b", "late"): (("k", "v", "w"), 0), ("c", "d"): (("k", "v"), 1)}
    db.close()


@pytest.mark.parametrize(("buckets", "stores"), [(1, 1), (2, 3)])
def test_in_one_bucket_all_keys_have_one_store(tmp_path: Path, buckets: int, stores: int) -> None:
    with open_inline(tmp_path / "db", buckets=buckets) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT, v INT, w STRING) TIMESTAMP BY ts PARTITION BY w")
        keys = {"k": "[RANGE 1 MINUTE]", "w": "[RANGE 30 SECONDS]", "v": "[RANGE 10 SECONDS]"}
        for key, window in keys.items():
            db.execute(f"CREATE QUERY by_{key} AS SELECT {key}, count(*) AS n FROM s {window} GROUP BY {key}")
        fed(db)
        db.advance(60 * SECOND)
        db.flush()
        assert len(db.stores()) == stores
        assert {name: db.query(f"by_{name}").result().num_rows for name in keys} == {"k": 3, "w": 1, "v": 10}


def test_sharing_can_be_switched_off(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db", buckets=1, share_windows=False) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT, v INT, w STRING) TIMESTAMP BY ts")
        for name in ("a", "b"):
            db.execute(f"CREATE QUERY {name} AS SELECT k, sum(v) AS s FROM s [RANGE 1 MINUTE] GROUP BY k")
        fed(db)
        assert sorted(store.queries for store in db.stores()) == [("a",), ("b",)]


def test_what_a_dropped_query_held_is_let_go_in_every_bucket(tmp_path: Path) -> None:
    """Of two buckets, the query that is left runs in one only: the other was never told, and kept everything."""
    runner = InlineRunner()
    with open_inline(tmp_path, buckets=2, runner=runner) as db:
        for name in ("s", "t"):
            db.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT k, max(v) AS n FROM s [RANGE 1 HOUR] GROUP BY k")
        db.execute("CREATE QUERY o AS SELECT count(*) AS c FROM t [RANGE 1 SECOND]")
        for name in ("s", "t"):
            db.insert(name, [(i * 1000, i % 7, i) for i in range(100)])
        db.flush()
        assert all(runner._workers[bucket]._stores.sizes(bucket) for bucket in range(2))
        db.query("q").stop()
        assert db.query("q").stats()["state_bytes"] == 0
        db.execute("DROP QUERY q")
        db.insert("t", [(10**9, 1, 1)])
        db.flush()
        assert not runner._workers[1]._caches
        assert not runner._workers[1]._stores.sizes(1)
        assert [use.source for use in db.stores()] == ["t"]
