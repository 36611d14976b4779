"""A fixed third of the stream scripts on Spark, restarts among them: one session, and its warm workers, for all."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.api import Database
from millstream.spark.tick_jobs import SparkRunner
from millstream.state.location import Location
from script_files import PATHS, check_script, runs_on_spark

BUCKETS = 2


@pytest.fixture(scope="module")
def runner(spark: SparkSession) -> SparkRunner:
    runner = SparkRunner(spark, BUCKETS)
    runner.warm_up().join()
    return runner


@pytest.mark.parametrize("path", [path for path in PATHS if runs_on_spark(path)], ids=lambda path: str(path.with_suffix("")))
def test_script(spark: SparkSession, runner: SparkRunner, path: Path) -> None:
    def open_database(location: Path) -> Database:
        return Database(Location.open(location, buckets=BUCKETS), runner, spark=spark, tick_interval=None)

    check_script(path, open_database, "default", "spark")
