"""Whole queries, asked of Spark itself: over relations the same SQL must give the same rows, column names and types here and there."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import DataType

from inline import open_inline
from millstream.api import Database
from millstream.core.schema import type_name

CORPUS = (Path(__file__).parent / "query_corpus.txt").read_text(encoding="utf-8").splitlines()

RELATIONS = {
    "t": "id INT, k STRING, x INT, y DOUBLE, d DECIMAL(10,2), ts TIMESTAMP, b BOOLEAN",
    "u": "id INT, k STRING, w INT",
    "e": "k STRING, w INT",
}


def second(number: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1, 0, 0, number, tzinfo=dt.UTC)


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "t": [
        (1, "a", 1, 0.5, Decimal("1.25"), second(1), True),
        (2, "a", 3, None, Decimal("0.10"), second(2), False),
        (3, "a", None, 2.25, None, second(4), None),
        (4, "b", 3, 1.5, Decimal("7.00"), second(5), True),
        (5, "b", 3, 1.5, Decimal("-7.00"), second(5), True),
        (6, None, 2, -4.0, Decimal("3.33"), second(9), False),
        (7, "c", None, None, None, second(10), None),
    ],
    "u": [(1, "a", 10), (2, "a", 20), (4, "b", 3), (5, None, 5), (6, "d", 7), (6, "d", 7)],
    "e": [],
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> SparkSession:
    for name, schema in RELATIONS.items():
        spark.createDataFrame(ROWS[name], schema).createOrReplaceTempView(name)
    return spark


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with open_inline(tmp_path_factory.mktemp("db")) as db:
        for name, schema in RELATIONS.items():
            db.execute(f"CREATE RELATION {name} ({schema})")
            if ROWS[name]:
                db.insert(name, ROWS[name])
        yield db


@pytest.mark.parametrize("sql", CORPUS)
def test_the_same_answer(tables: SparkSession, database: Database, sql: str) -> None:
    theirs = tables.sql(sql)
    query = database.execute(f"CREATE QUERY q AS {sql}")
    try:
        ours = query.result()
        assert ours.column_names == theirs.columns
        assert [type_name(field.type).upper() for field in ours.schema] == [_type_name(field.dataType) for field in theirs.schema]
        ours_rows = zip(*(column.to_pylist() for column in ours.columns), strict=True)
        assert sorted(map(_comparable, ours_rows), key=repr) == sorted(map(_comparable, theirs.collect()), key=repr)
    finally:
        database.execute("DROP QUERY q")


def _type_name(type_: DataType) -> str:
    return type_.simpleString().upper()


def _comparable(row: Any) -> tuple[Any, ...]:
    return tuple(map(_value, row))


def _value(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else float(f"{value:.12g}") + 0.0
        case dt.datetime():
            return value.astimezone(dt.UTC)
        case list():
            return list(map(_value, value))
        case Row():
            return {name: _value(part) for name, part in value.asDict().items()}
    return value
