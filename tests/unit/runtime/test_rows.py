"""What users hand to `insert`: accepted in every form, refused with the column's name."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from millstream.core.errors import ArityMismatch, ColumnNotFound, MillstreamError, TypeMismatch
from millstream.core.schema import Schema
from millstream.runtime.rows import table_of

SCHEMA = Schema.of(ts="TIMESTAMP", sym="STRING", size="INT")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
EXPECTED = [{"ts": NOON, "sym": "A", "size": 5}, {"ts": NOON, "sym": None, "size": None}]


@pytest.mark.parametrize(
    "rows",
    [
        [(NOON, "A", 5), (NOON, None, None)],
        [{"ts": NOON, "sym": "A", "size": 5}, {"TS": NOON}],
        [(NOON.replace(tzinfo=None), "A", 5), (1767268800000000, None, None)],
        pa.table({"size": [5, None], "sym": ["A", None], "ts": pa.array([NOON, NOON], pa.timestamp("us", "UTC"))}),
        pa.table({"size": [5, None], "sym": ["A", None], "ts": pa.array([NOON.replace(tzinfo=None)] * 2, pa.timestamp("ms"))}),
        pd.DataFrame({"ts": [NOON, NOON], "sym": ["A", None], "size": pd.array([5, None], "Int32")}),
        pl.DataFrame({"ts": [NOON, NOON], "sym": ["A", None], "size": [5, None]}),
    ],
    ids=["tuples", "dicts", "naive and micros", "arrow", "arrow naive", "pandas", "polars"],
)
def test_every_form_gives_the_same_table(rows: Any) -> None:
    table = table_of(rows, SCHEMA, "trades")
    assert table.schema == SCHEMA.to_arrow()
    assert table.to_pylist() == EXPECTED


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([(NOON, "A")], ArityMismatch, 'row 0 has 2 values, but "trades" has 3 columns'),
        ([(NOON, "A", "five")], TypeMismatch, 'column "size" of "trades" takes INT, not \'five\''),
        ([(NOON, "A", 2**40)], TypeMismatch, '"size" of "trades" takes INT, not 1099511627776'),
        ([("noon", "A", 5)], TypeMismatch, '"ts" of "trades" takes TIMESTAMP, not \'noon\''),
        ([{"ts": NOON, "sise": 5}], ColumnNotFound, 'column "sise" does not exist'),
        (["row"], TypeMismatch, "row 0 is a str"),
        (42, TypeMismatch, "cannot insert a int"),
        (pa.table({"ts": ["x"]}), TypeMismatch, 'column "ts" of "trades" takes TIMESTAMP'),
    ],
)
def test_what_does_not_fit_is_named(rows: Any, error: type[MillstreamError], message: str) -> None:
    with pytest.raises(error) as raised:
        table_of(rows, SCHEMA, "trades")
    assert message in raised.value.message
    assert raised.value.hint
