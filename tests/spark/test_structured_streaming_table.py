"""docs/structured-streaming.md says what Structured Streaming refuses and Millstream runs: both really do, on one Spark.

MILLSTREAM_REGENERATE=1 pytest tests/spark/test_structured_streaming_table.py -k document      writes the tables into the document
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millstream.api import Database, connect
from spark.structured_streaming_rows import ACCEPTED, NOW, REFUSED, ROWS, Accepted, Refused

DOCUMENT = Path(__file__).parents[2] / "docs" / "structured-streaming.md"
SECOND_US = 1_000_000


@pytest.fixture(scope="module")
def views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with the streams as views."""
    for name, rows in ROWS.items():
        path = str(tmp_path_factory.mktemp("streams") / name)
        spark.createDataFrame(rows, "second INT, k INT, v INT").selectExpr("timestamp_seconds(second) AS ts", "k", "v").write.parquet(path)
        stream = spark.readStream.schema("ts TIMESTAMP, k INT, v INT").parquet(path)
        stream.createOrReplaceTempView(name)
        stream.withWatermark("ts", "1 second").createOrReplaceTempView(f"{name}w")
    return spark


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> Iterator[Database]:
    with connect(spark=spark, tick_interval=None) as db:
        for name in ROWS:
            db.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts")
        for i, row in enumerate(REFUSED):
            db.execute(f"CREATE QUERY q{i} AS {row.ours}")
        for name, rows in ROWS.items():
            db.insert(name, [(second * SECOND_US, k, v) for second, k, v in rows])
        db.advance(NOW * SECOND_US)
        db.flush()
        yield db


def run_on_spark(spark: SparkSession, sql: str, mode: str, checkpoint: Path) -> None:
    writer = spark.sql(sql).writeStream.outputMode(mode).format("noop").option("checkpointLocation", str(checkpoint / mode))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.what)
def test_spark_refuses_it_in_every_output_mode(views: SparkSession, row: Refused, tmp_path: Path) -> None:
    for mode in ("append", "update", "complete"):
        with pytest.raises(PySparkException) as refused:
            run_on_spark(views, row.spark, mode, tmp_path)
        if mode == row.mode:
            assert refused.value.getCondition() == row.condition
            assert row.says in str(refused.value)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.what)
def test_millstream_runs_it(ours: Database, row: Refused) -> None:
    result = ours.query(f"q{REFUSED.index(row)}").result()
    assert Counter(zip(*(column.to_pylist() for column in result.columns), strict=True)) == Counter(row.answer)


@pytest.mark.parametrize("row", ACCEPTED, ids=lambda row: row.what)
def test_spark_accepts_it(views: SparkSession, row: Accepted, tmp_path: Path) -> None:
    run_on_spark(views, row.spark, row.mode, tmp_path)


def test_the_document_has_these_tables() -> None:
    text = DOCUMENT.read_text()
    real = _with_table(_with_table(text, "refused", _refused_table()), "accepted", _accepted_table())
    if os.environ.get("MILLSTREAM_REGENERATE"):
        DOCUMENT.write_text(real)
    else:
        assert real == text


def _with_table(text: str, name: str, table: str) -> str:
    return re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda found: f"{found[1]}{table}\n{found[2]}", text, flags=re.DOTALL)


def _refused_table() -> str:
    lines = ["| what | in Structured Streaming | Spark 4.3 says | in Millstream |", "|---|---|---|---|"]
    lines += [
        f"| {row.what} | `{row.spark}` ({row.mode}) | `{row.condition}`: {row.says} | `{row.ours}` |"
        for row in REFUSED
    ]  # fmt: skip
    return "\n".join(lines)


def _accepted_table() -> str:
    lines = ["| what | in Structured Streaming | but |", "|---|---|---|"]
    lines += [f"| {row.what} | `{row.spark}` ({row.mode}) | {row.but} |" for row in ACCEPTED]
    return "\n".join(lines)
