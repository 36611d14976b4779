"""Spark's complaints about questions that are answered once, and the session they are asked in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from millstream.api import Database
from millstream.core.errors import MillstreamError, SourceFailed
from millstream.spark.once import query_once

TABLES = {
    "r": pa.table({"k": pa.array([1]), "price": pa.array([1.0]), "st": pa.array([{"a": 1}])}),
    "t": pa.table({"k": pa.array([1])}),
}


@pytest.mark.parametrize(
    ("sql", "code", "message", "underlined", "hint"),
    [
        ("SELECT prise FROM r", "COLUMN_NOT_FOUND", 'column "prise" does not exist', "prise", 'Did you mean "price"?'),
        ("SELECT r.prise FROM r", "COLUMN_NOT_FOUND", 'column "prise" does not exist', "r.prise", 'Did you mean "price"?'),
        ("SELECT zz FROM t", "COLUMN_NOT_FOUND", 'column "zz" does not exist', "zz", "Columns are k."),
        ("SELECT st.b FROM r", "COLUMN_NOT_FOUND", 'there is no field "b"', "st.b", "Fields are a."),
        ("SELECT rond(k) FROM r", "FUNCTION_NOT_FOUND", 'function "rond" does not exist', "rond(k)", 'Did you mean "round"?'),
        ("SELECT k FROM r, t", "COLUMN_AMBIGUOUS", 'column "k" could be any of 2', "k", "Write r.k or t.k."),
        ("SELECT substring() FROM r", "ARITY_MISMATCH", "substring takes 2 or 3 arguments, not 0", "substring()", None),
        (
            "SELECT CAST('x' AS INT) FROM r",
            "TYPE_MISMATCH",
            "the value 'x' of the type \"STRING\" cannot be cast to \"INT\" because it is malformed",
            "CAST('x' AS INT)",
            "Correct the value as per the syntax, or change its target type."
            ' Use "try_cast" to tolerate malformed input and return NULL instead.',
        ),
        ("SELECT 1/0 FROM r", "QUERY_FAILED", "division by zero", "1/0",
         'Use "try_divide" to tolerate divisor being 0 and return NULL instead.'),
    ],
)  # fmt: skip
def test_a_complaint_of_spark_is_told_in_our_form(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], sql: str, code: str, message: str, underlined: str, hint: str | None
) -> None:
    with pytest.raises(MillstreamError) as caught:
        query_once(spark, sql, TABLES)
    error = caught.value
    assert (error.code, error.message, error.hint) == (code, message, hint)
    assert error.span is not None
    assert sql[error.span.start : error.span.end] == underlined
    shown = capfd.readouterr()
    assert shown.out + shown.err == ""


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("FROM 'nosuch'", 'the source of stream "s" has the format "nosuch", which Spark does not find', "spark.jars.packages"),
        ("FROM 'josn' OPTIONS (path '/')", 'the source of stream "s" has the format "josn", which Spark does not find', 'mean "json"'),
        (
            "FROM 'json' OPTIONS (path '/nowhere')",
            'the source of stream "s", "json", does not start: Path does not exist: /nowhere',
            "options",
        ),
        (
            "FROM 'parquet' OPTIONS (path 's3x://a/b')",
            'the source of stream "s", "parquet", does not start: No FileSystem for scheme "s3x"',
            "options",
        ),
        ("FROM 'parquet'", 'the source of stream "s" ', "path"),
    ],
)
def test_a_source_that_does_not_start_says_what_to_correct(
    open_database: Callable[..., Database], source: str, message: str, hint: str
) -> None:
    with pytest.raises(SourceFailed) as caught:
        open_database().execute(f"CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts {source}")
    assert caught.value.message.startswith(message)
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    assert "in the log" not in str(caught.value)
    assert str(caught.value).count("[") == 1


def test_no_warehouse_is_left_where_the_user_stands(spark: SparkSession) -> None:
    spark.sql("SHOW TABLES").collect()
    warehouse = spark.conf.get("spark.sql.warehouse.dir")
    assert warehouse is not None
    assert "millstream-warehouse-" in warehouse
    assert not Path(warehouse.removeprefix("file:")).is_relative_to(os.getcwd())


def test_a_column_that_the_source_cannot_give_is_told_in_our_form(
    open_database: Callable[..., Database], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SourceFailed, match='cannot cast "BIGINT" to "ARRAY<INT>"'):
        open_database().execute("CREATE STREAM s (timestamp TIMESTAMP, value ARRAY<INT>) TIMESTAMP BY timestamp FROM 'rate'")
    assert capfd.readouterr().err == ""
