"""The same properties as tests/property/test_engine.py, through real Spark jobs; fewer examples, all queries at once."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from millstream.api import Database, connect
from millstream.runtime import tick
from millstream.spark.tick_jobs import SparkRunner
from property.engine_model import DDL, QUERIES, WINDOWS, Action, StreamModel, WindowModel, actions
from property.test_engine import FIRST, LAST, assert_netted, changes_of, contents_at


def play(db: Database, model: StreamModel, action: Action, reopen: object) -> Database:
    match action:
        case ("insert", rows):
            db.insert("s", rows)
            model.insert(rows)
        case ("advance", ts):
            db.advance(ts)
            model.advance(ts)
        case ("flush", _):
            db.flush()
        case ("lose caches", _):
            kill_workers(db)
        case ("reopen", _):
            db.close()
            db = reopen()  # type: ignore[operator]
    return db


def worker_ids(db: Database) -> set[int]:
    runner = db._engine.runner
    assert isinstance(runner, SparkRunner)
    return set(runner.process_ids())


def kill_workers(db: Database) -> None:
    """kill -9 of the Python processes that hold the caches."""
    for pid in worker_ids(db):
        os.kill(pid, signal.SIGKILL)


@given(
    window=st.sampled_from(WINDOWS),
    slack=st.integers(0, 4),
    partition=st.sampled_from(["", " PARTITION BY k"]),
    history=actions(most=5),
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_query_equals_its_recomputation(
    spark: SparkSession, window: WindowModel, slack: int, partition: str, history: list[Action]
) -> None:
    with tempfile.TemporaryDirectory() as directory:

        def reopen() -> Database:
            return connect(directory, spark=spark, tick_interval=None)

        db, model = reopen(), StreamModel(slack)
        db.execute(DDL.format(slack=slack, partition=partition))
        for i, query in enumerate(QUERIES.values()):
            db.execute(f"CREATE QUERY q{i} AS {query.sql.format(window=window.sql)}")
        for action in history:
            db = play(db, model, action, reopen)
        for i, query in enumerate(QUERIES.values()):
            changes = changes_of(db.query(f"q{i}").changes())
            assert_netted(changes)
            for t in range(FIRST, min(model.frontier, LAST) + 1):
                assert contents_at(changes, t) == query.answer(model.window(window, t)), (query.sql, t)
        db.close()


def test_killed_workers_are_replaced_and_caught_up(spark: SparkSession) -> None:
    """A snapshot in between: the new workers load it and replay only what came after."""
    with tempfile.TemporaryDirectory() as directory:
        db = connect(directory, spark=spark, tick_interval=None)
        db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT k, sum(v) AS s, count(*) AS n FROM s [RANGE 20 MICROSECONDS] GROUP BY k")
        db.insert("s", [(t, "ab"[t % 2], t) for t in range(50)])
        db.flush()
        db.close()
        db = connect(directory, spark=spark, tick_interval=None)
        db.insert("s", [(t, "ab"[t % 2], t) for t in range(50, 70)])
        db.flush()
        before = worker_ids(db)
        assert before
        kill_workers(db)
        db.insert("s", [(t, "ab"[t % 2], t) for t in range(70, 90)])
        db.advance(89)
        db.flush()
        assert not before & worker_ids(db)
        live = [t for t in range(90) if t >= 69]
        expected = Counter((k, sum(t for t in live if "ab"[t % 2] == k), sum("ab"[t % 2] == k for t in live)) for k in "ab")
        assert Counter(tuple(row.values()) for row in db.query("q").result().to_pylist()) == expected
        db.close()


@pytest.mark.parametrize("map_stage_rows", [1, 10**9])
@pytest.mark.parametrize("rows", [1, 200_000])
def test_with_and_without_a_map_stage_the_answers_are_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: int, map_stage_rows: int
) -> None:
    monkeypatch.setattr(tick, "MAP_STAGE_ROWS", map_stage_rows)
    with connect(spark=spark, tick_interval=None) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts")
        q = db.execute("SELECT k, sum(v) AS s FROM s [UNBOUNDED] WHERE v >= 0 GROUP BY k")
        everything = db.execute("SELECT k + 1 AS k1 FROM s")
        db.insert(
            "s", pa.table({"ts": pa.array(range(rows), pa.timestamp("us", "UTC")), "k": [i % 7 for i in range(rows)], "v": range(rows)})
        )
        db.advance(rows)
        db.flush()
        expected = Counter()
        for i in range(rows):
            expected[i % 7] += i
        assert {row["k"]: row["s"] for row in q.result().to_pylist()} == dict(expected)
        assert everything.result().num_rows == rows
