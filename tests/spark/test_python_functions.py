"""Python functions on real executors, in continuous queries and in Spark SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.api import Database
from millstream.core.errors import FunctionFailed, FunctionNotFound

SECOND = 1_000_000
RATES = {"EUR": Decimal("1.10"), "USD": Decimal("1.00")}


def with_functions(db: Database) -> None:
    rates = RATES  # a value of this module goes by value, as the executors do not know the module

    def rate(currency: str | None) -> Decimal | None:
        return rates[currency] if currency else None

    db.function("rate", rate, "DECIMAL(9,4)")
    db.function("next_day_of", lambda t: t + dt.timedelta(days=1), "TIMESTAMP")
    db.function("plus", lambda a, b: pc.add(a, b), pa.int64(), vectorized=True)
    db.function("forty_two", lambda: 42, "INT")
    db.function("pair", lambda a, b: {"a": a, "b": [b, None]}, "STRUCT<a:INT,b:ARRAY<STRING>>")


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def test_functions_on_executors(open_database: Callable[..., Database]) -> None:
    db = open_database()
    db.execute("CREATE STREAM s (ts TIMESTAMP, currency STRING, v INT) TIMESTAMP BY ts")
    with_functions(db)
    answer = db.execute(
        "CREATE QUERY answer AS SELECT currency, rate(currency) AS r, next_day_of(ts) AS t, plus(v, forty_two()) AS p,"
        " pair(v, currency) AS x FROM s [RANGE 1 HOUR]"
    )
    failing = db.execute("SELECT rate(upper(currency)) AS r FROM s [RANGE 1 HOUR]")
    db.insert("s", [(0, "EUR", 1), (SECOND, None, None)])
    db.advance(2 * SECOND)
    db.flush()
    day = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
    expected = [
        ("EUR", Decimal("1.1000"), day, 43, {"a": 1, "b": ["EUR", None]}),
        (None, None, day + dt.timedelta(seconds=1), None, {"a": None, "b": [None, None]}),
    ]
    assert rows(answer.result()) == expected
    db.insert("s", [(3 * SECOND, "gbp", 2)])
    db.advance(4 * SECOND)
    db.flush()
    with pytest.raises(FunctionFailed, match=r"""function "rate" failed on \('GBP'\): KeyError: 'GBP'"""):
        failing.result()
    with pytest.raises(FunctionFailed, match=r"""on \('gbp'\)"""):
        answer.result()


def test_functions_in_spark_sql(open_database: Callable[..., Database]) -> None:
    db = open_database()
    db.execute("CREATE RELATION r (t TIMESTAMP, currency STRING, v INT)")
    with_functions(db)
    db.function("dice", lambda x: 4, "INT", deterministic=False)
    at = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    db.insert("r", [(at, "EUR", 1), (at, None, None)])
    asked = db.execute(
        "SELECT rate(currency) AS r, next_day_of(t) AS t, plus(v, forty_two()) AS p, pair(v, currency) AS x, dice(v) AS d FROM r"
    )
    next_day = at + dt.timedelta(days=1)
    assert rows(asked) == [
        (Decimal("1.1000"), next_day, 43, {"a": 1, "b": ["EUR", None]}, 4),
        (None, next_day, None, {"a": None, "b": [None, None]}, 4),
    ]
    with pytest.raises(FunctionFailed, match=r"""function "rate" failed on \('x'\): KeyError: 'x'"""):
        db.execute("SELECT rate('x') AS r FROM r")
    with pytest.raises(FunctionNotFound) as unknown:
        db.execute("SELECT plos(v, v) AS p FROM r")
    assert unknown.value.hint == 'Did you mean "plus"?'
