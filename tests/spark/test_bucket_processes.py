"""Each bucket has one process: beside other databases, and after jobs that left it two."""

from __future__ import annotations

import gc
import threading
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.api import Database, Query, connect
from millstream.spark.tick_jobs import SparkRunner

INSTANTS = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second) for second in count())


def new_count(db: Database) -> Query:
    db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
    query = db.execute("SELECT count(*) AS n FROM s [UNBOUNDED]")
    assert isinstance(query, Query)
    return query


def add_row(db: Database) -> None:
    db.insert("s", [{"ts": next(INSTANTS), "v": 1}])
    db.flush()


def replays(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.msg.startswith("caches are gone") for record in caplog.records)


def test_databases_that_are_open_at_the_same_time_keep_their_caches(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(tmp_path / "a", spark=spark, tick_interval=None) as one, connect(tmp_path / "b", spark=spark, tick_interval=None) as other:
        queries = [new_count(one), new_count(other)]
        with caplog.at_level("INFO", logger="millstream"):
            for _ in range(4):
                add_row(one)
                add_row(other)
        one.advance("s", next(INSTANTS))
        other.advance("s", next(INSTANTS))
        one.flush()
        other.flush()
        assert [query.result().to_pylist() for query in queries] == [[{"n": 4}]] * 2
    assert replays(caplog) == 0


def test_a_bucket_with_two_processes_gets_one_of_its_own(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    both_there = tmp_path / "there"
    both_there.mkdir()

    def meet(number: int) -> None:
        """Returns when both tasks run: each in its own process then."""
        (both_there / str(number)).touch()
        while len(list(both_there.iterdir())) < 2:
            threading.Event().wait(0.01)

    with connect(tmp_path / "db", spark=spark, tick_interval=None) as db:
        query = new_count(db)
        runner = db._engine.runner
        assert isinstance(runner, SparkRunner)
        runner._run(meet, [(0, 0), (0, 1)])
        with caplog.at_level("INFO", logger="millstream"):
            add_row(db)
            add_row(db)
            add_row(db)
            before = replays(caplog)
            for _ in range(5):
                add_row(db)
            assert replays(caplog) == before
        db.advance("s", next(INSTANTS))
        db.flush()
        assert query.result().to_pylist() == [{"n": 8}]
        assert len({*runner.process_ids(), *runner.process_ids()}) == 2


def test_what_a_process_has_loaded_is_not_looked_through_after_every_task(spark: SparkSession) -> None:
    def tracked(_: None) -> tuple[int, int]:
        return gc.get_freeze_count(), len(gc.get_objects())

    runner = SparkRunner(spark, 1)
    try:
        runner.warm_up().join()
        left_out, looked_through = runner._run(tracked, [(0, None)])[0]
    finally:
        runner.close()
    assert looked_through < left_out / 10
