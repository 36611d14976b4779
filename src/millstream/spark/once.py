"""Spark SQL over tables in memory, with Spark's own complaints told in our form."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millstream.core.errors import (
    ColumnAmbiguous,
    ColumnNotFound,
    FunctionNotFound,
    MillstreamError,
    NotGrouped,
    NotSupported,
    ParseError,
    QueryFailed,
    TypeMismatch,
)

_CODES: tuple[tuple[str, type[MillstreamError]], ...] = (
    ("UNRESOLVED_COLUMN", ColumnNotFound),
    ("FIELD_NOT_FOUND", ColumnNotFound),
    ("AMBIGUOUS_REFERENCE", ColumnAmbiguous),
    ("UNRESOLVED_ROUTINE", FunctionNotFound),
    ("DATATYPE_MISMATCH", TypeMismatch),
    ("MISSING_AGGREGATION", NotGrouped),
    ("MISSING_GROUP_BY", NotGrouped),
    ("PARSE", ParseError),
    ("UNSUPPORTED", NotSupported),
)


def query_once(spark: SparkSession, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    session = spark.newSession()
    try:
        for name, table in tables.items():
            session.createDataFrame(table).createOrReplaceTempView(name)
        return session.sql(sql).toArrow()
    except PySparkException as error:
        raise _ours(error) from None


def _ours(error: PySparkException) -> MillstreamError:
    condition = error.getCondition() or ""
    kind = next((kind for prefix, kind in _CODES if condition.startswith(prefix)), QueryFailed)
    message = str(error).strip().splitlines()[0].removeprefix(f"[{condition}]").split(" SQLSTATE:")[0].strip()
    return kind(message)
