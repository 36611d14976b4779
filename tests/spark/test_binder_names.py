"""Names and grouping rules, asked of Spark itself: the same query must give the same column names here and there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millstream.core.errors import MillstreamError
from millstream.language.binder import bind_query
from millstream.language.catalog import Catalog
from millstream.language.column_names import column_name
from millstream.language.parser import parse_one

pytestmark = pytest.mark.spark

SCHEMA = (
    "ts TIMESTAMP, sym STRING, price DOUBLE, size INT, big BIGINT, flag BOOLEAN, dec DECIMAL(10,2), d DATE, arr ARRAY<INT>,"
    " m MAP<STRING,INT>, st STRUCT<x:INT,y:INT>, tiny TINYINT"
)
EXPRESSIONS = (Path(__file__).parent / "column_names.txt").read_text(encoding="utf-8").splitlines()

# queries for both sides: the names of the answer, or an error on both
QUERIES = [
    "SELECT * FROM t",
    "SELECT t.*, size AS x FROM t",
    "SELECT * EXCEPT (ts, arr) FROM t",
    "SELECT x.size FROM t AS x",
    "SELECT t.size FROM t AS x",
    "SELECT sizze FROM t",
    "SELECT size AS x, x + 1 AS y FROM t",
    "SELECT x, size AS x FROM t",
    "SELECT size AS x, price AS x, x + 1 AS y FROM t",
    "SELECT size AS x FROM t WHERE x > 1",
    "SELECT sym, sum(size) FROM t GROUP BY sym",
    "SELECT sym, size FROM t GROUP BY sym",
    "SELECT sym, sum(size) FROM t",
    "SELECT sum(size) FROM t WHERE sum(size) > 1",
    "SELECT sum(max(size)) FROM t",
    "SELECT sym FROM t GROUP BY sum(size)",
    "SELECT sym, count(*) FROM t GROUP BY 1",
    "SELECT sym, count(*) FROM t GROUP BY 2",
    "SELECT sym, count(*) FROM t GROUP BY 3",
    "SELECT sym, count(*) FROM t GROUP BY ALL",
    "SELECT size + sum(size) FROM t GROUP BY ALL",
    "SELECT upper(sym) AS k, count(*) FROM t GROUP BY k",
    "SELECT size + 1 AS size, count(*) FROM t GROUP BY size",
    "SELECT size AS sym FROM t GROUP BY sym",
    "SELECT 1 + size, count(*) FROM t GROUP BY size + 1",
    "SELECT (size + 1) * 2, count(*) FROM t GROUP BY size + 1",
    "SELECT SIZE, count(*) FROM t GROUP BY size",
    "SELECT st.x, count(*) FROM t GROUP BY st",
    "SELECT st.x, count(*) FROM t GROUP BY st.x",
    "SELECT st.y, count(*) FROM t GROUP BY st.x",
    "SELECT sym AS x, sum(size) AS sym FROM t GROUP BY sym HAVING sum(size) > 1",
    "SELECT size AS sym, sum(price) AS s FROM t GROUP BY size HAVING sym > 1",
    "SELECT sym, sum(size) AS n FROM t GROUP BY sym HAVING n > 1 AND sym > 'a'",
    "SELECT sym FROM t GROUP BY sym HAVING size > 1",
    "SELECT sym FROM t HAVING sym > 'a'",
    "SELECT count(*) FROM t HAVING count(*) > 1",
    "SELECT DISTINCT sym, size + 1 FROM t",
    "SELECT DISTINCT m FROM t",
    "SELECT st.x + 1, t.st.y FROM t",
    "SELECT size FROM t WHERE size",
    "SELECT sum(arr) FROM t",
    "SELECT x.a FROM (SELECT size AS a FROM t) AS x",
    "SELECT t.a FROM (SELECT size AS a FROM t) AS x",
    "SELECT a FROM (SELECT size AS a, price AS a FROM t)",
    "SELECT no_such_function(size) FROM t",
    "SELECT sum(size, size) FROM t",
]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> SparkSession:
    spark.createDataFrame([], SCHEMA).createOrReplaceTempView("t")
    return spark


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog.empty().with_stream(parse_one(f"CREATE STREAM t ({SCHEMA}) TIMESTAMP BY ts"))  # type: ignore[arg-type]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_name_of_an_expression(table: SparkSession, expression: str) -> None:
    ours = [column_name(item) for item in parse_one(f"SELECT {expression} FROM t").select.expressions]  # type: ignore[union-attr]
    assert ours == table.sql(f"SELECT {expression} FROM t").columns


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_binds_as_in_spark(table: SparkSession, catalog: Catalog, sql: str) -> None:
    try:
        theirs: list[str] | None = table.sql(sql).columns
    except PySparkException:
        theirs = None
    try:
        ours: list[str] | None = list(bind_query(parse_one(sql).select, catalog, sql).names)  # type: ignore[union-attr]
    except MillstreamError:
        ours = None
    assert ours == theirs
