"""Scalar expressions mean what they mean to Spark: the corpus, evaluated by us and by Spark, values and types alike.

Spark runs in ANSI mode, where a bad row stops the query.  Each expression is wrapped in Spark's own TryEval, the node
behind its try_ functions, so that a row that fails is NULL there as it is here.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession

from millstream.core.errors import MillstreamError
from millstream.core.schema import type_from_name
from spark.scalar_rows import SCHEMA, rows
from unit.scalar.evaluation import bound, corpus, evaluated_together

_AT_ONCE = 60

REFUSED_BY_BOTH = """
nosuchcolumn + 1
nosuchfunction(1)
upper()
upper(st, su)
st + su
bo + 1
da + da
da * 2
ts + 1
ai + 1
i32 and bo
not i32
if(i32, 1, 2)
if(st, 1, 2)
case when i32 then 1 end
case when bo then ai else 1 end
coalesce(ai, i32)
coalesce(bo, 1)
i32 = ai
ma = ma
ma < ma
i32 in ('a', array(1))
cast(da as int)
cast(i32 as date)
cast(ai as int)
cast(i32 as array<int>)
cast(bo as timestamp)
cast(i32 as binary)
sqrt(bo)
sqrt(da)
md5(1)
year(1)
date_add(da, 1.5)
date_add(da, i64)
timestamp_seconds(st)
greatest(st, 1)
greatest(1)
array_contains(ai, 'x')
array_contains(1, 1)
element_at(ai, i64)
size(st)
map_keys(ai)
sr.nosuchfield
i32.a
i32[0]
~f64
i32 & f64
transform(i32, x -> x)
transform(ai, (x, y, z) -> x)
named_struct('a')
map(1, 2, 3)
extract(nonsense from da)
"""


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # Spark's refusals are wanted here
    session = spark.newSession()
    for key, setting in {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        # generated code is not faster for ten rows, and takes long to compile for sixty columns
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }.items():
        session.conf.set(key, setting)
    frame = session.createDataFrame(pa.Table.from_batches([rows()]))
    # Arrow's timestamps without a zone arrive as timestamps with one
    return frame.withColumn("tn", frame["tn"].cast("timestamp_ntz")).coalesce(1).cache()


def test_every_expression_of_the_corpus_agrees_with_spark(table: DataFrame) -> None:
    pairs = corpus()
    assert len(pairs) > 900
    different = []
    for start in range(0, len(pairs), _AT_ONCE):
        some = pairs[start : start + _AT_ONCE]
        all_wanted = by_spark(table, [theirs for _, theirs in some])
        all_found = evaluated_together([ours for ours, _ in some], rows())
        for (ours, _), wanted, found in zip(some, all_wanted, all_found, strict=True):
            if found.type != wanted.type:
                different.append(f"{ours}: Spark's type is {wanted.type}, ours {found.type}")
            elif wrong := differences(plain(wanted), plain(found)):
                different.append(f"{ours}: {wrong}")
    assert not different, "\n".join(different)


def test_what_spark_refuses_is_refused(table: DataFrame) -> None:
    accepted = []
    for text in REFUSED_BY_BOTH.strip().splitlines():
        with pytest.raises(Exception, match=r"\S"):
            by_spark(table, [text])
        try:
            bound(text, SCHEMA)
        except MillstreamError:
            continue
        accepted.append(text)
    assert not accepted


def by_spark(table: DataFrame, expressions: Sequence[str]) -> list[pa.Array]:
    """Each expression's values over the table, NULL where it fails."""
    jvm = table.sparkSession._jvm
    assert jvm is not None
    parser = table.sparkSession._jsparkSession.sessionState().sqlParser()
    columns = []
    for i, text in enumerate(expressions):
        tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parser.parseExpression(text))
        columns.append(Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(tried)).alias(f"c{i}"))
    result = table.select(*columns)
    arrow = result.toArrow()
    types = [type_from_name(field.dataType.simpleString()) for field in result.schema]
    return [_one_array(column, type_) for column, type_ in zip(arrow.columns, types, strict=True)]


def _one_array(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    return pa.nulls(len(column)) if pa.types.is_null(type_) else column.combine_chunks().cast(type_)


def plain(array: pa.Array) -> list[Any]:
    """Python values; instants as numbers, because Python's own end with the year 9999."""
    number = _as_number(array.type)
    if number is None and pa.types.is_list(array.type) and (item := _as_number(array.type.value_type)) is not None:
        number = pa.list_(item)
    return list((array if number is None else array.cast(number)).to_pylist())


def _as_number(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return pa.int64()
    return pa.int32() if pa.types.is_date(type_) else None


def differences(wanted: list[Any], found: list[Any]) -> str:
    pairs = enumerate(zip(wanted, found, strict=True))
    return "; ".join(f"row {i}: Spark {a!r}, ours {b!r}" for i, (a, b) in pairs if not same(a, b))


def same(a: Any, b: Any) -> bool:
    """Equal to the last digit, sign of zero included; functions of the C library may differ in the last few bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.isclose(a, b, rel_tol=1e-13) and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)
