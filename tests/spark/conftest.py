"""Everything in this folder needs a JVM; one Spark session serves all tests of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.api import Database, connect
from millstream.spark.session import create_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = create_session("local[2]")
    yield session
    session.stop()


@pytest.fixture
def open_database(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Database]]:
    """Opens the database of this test, again and again if asked; closes what was left open."""
    opened: list[Database] = []

    def open_(path: Path | None = None, tick_interval: float | None = None) -> Database:
        database = connect(str(path or tmp_path / "db"), spark=spark, tick_interval=tick_interval)
        opened.append(database)
        return database

    yield open_
    for database in opened:
        database.close()
