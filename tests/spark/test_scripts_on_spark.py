"""A fixed third of the stream scripts, and all that restart, on Spark: one session for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.api import Database, connect
from script_files import PATHS, check_script, runs_on_spark


@pytest.mark.parametrize("path", [path for path in PATHS if runs_on_spark(path)], ids=lambda path: str(path.with_suffix("")))
def test_script(spark: SparkSession, path: Path) -> None:
    def open_database(location: Path) -> Database:
        return connect(str(location), spark=spark, tick_interval=None)

    check_script(path, open_database, "default", "spark")
