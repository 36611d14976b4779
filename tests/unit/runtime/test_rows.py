"""What users hand to `insert`: accepted in every form, refused with the column's name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from millstream.core.errors import ArityMismatch, ColumnNotFound, DuplicateColumn, MillstreamError, TypeMismatch
from millstream.core.schema import Schema
from millstream.runtime.row_times import RowTimes
from millstream.runtime.rows import table_of
from millstream.runtime.sorting_out import sorted_out

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
        ([(NOON,)], ArityMismatch, 'row 0 has 1 value, but "trades" has 3 columns'),
        (pa.table({"ts": ["x"]}), TypeMismatch, 'column "ts" of "trades" takes TIMESTAMP, not \'x\' (STRING)'),
        (pa.table({"size": [1.0, 2.0, 2.5, 3.5]}), TypeMismatch, '"size" of "trades" takes INT, not 2.5 (DOUBLE)'),
        (pa.table({"size": pa.array([], pa.list_(pa.int32()))}), TypeMismatch, '"size" of "trades" takes INT, not ARRAY<INT>'),
        ({"ts": 0}, TypeMismatch, 'a dict for "trades" holds columns, but "ts" is 0'),
        ({"ts": [0, 1], "size": [1]}, ArityMismatch, '2 in "ts", 1 in "size"'),
        ({"size": [1.5]}, TypeMismatch, '"size" of "trades" takes INT, not 1.5'),
        ([{"ts": 0, "TS": 1}], DuplicateColumn, 'column "TS" is given twice for "trades"'),
        (pd.DataFrame([[0, 1]], columns=["ts", "ts"]), DuplicateColumn, 'column "ts" is given twice'),
        (pa.table([[0], [1]], names=["ts", "Ts"]), DuplicateColumn, 'column "Ts" is given twice'),
        (pd.DataFrame({"ts": [0, 1], "size": [1, "x"]}), TypeMismatch, '"size" of "trades" takes INT, not \'x\''),
        (pd.DataFrame({"ts": [0]}, index=pd.Index(["x"], name="id")), ColumnNotFound, 'column "id" does not exist'),
        (pd.Series([1]), TypeMismatch, "cannot insert"),
    ],
)
def test_what_does_not_fit_is_named(rows: Any, error: type[MillstreamError], message: str) -> None:
    with pytest.raises(error) as raised:
        table_of(rows, SCHEMA, "trades")
    assert message in raised.value.message
    assert raised.value.hint
    assert "Arrow" not in raised.value.hint


EVERY = Schema.of(
    ts="TIMESTAMP", i="INT", d="DOUBLE", f="FLOAT", dec="DECIMAL(5,2)", iv="INTERVAL", day="DATE",
    l="ARRAY<INT>", m="MAP<STRING,INT>", st="STRUCT<a:INT>", ld="ARRAY<DOUBLE>", md="MAP<DOUBLE,INT>", mst="MAP<STRUCT<a:DOUBLE>,INT>",
    lf="ARRAY<FLOAT>", lst="ARRAY<STRUCT<a:INT>>", ldec="ARRAY<DECIMAL(5,2)>",
)  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("ts", 1.0), ("ts", 1.5), ("ts", True), ("ts", dt.date(2026, 1, 1)), ("i", 1.9), ("i", Decimal("1.5")), ("i", np.float64(1.5)),
        ("i", float("nan")), ("i", float("inf")), ("i", True), ("d", 10**400), ("d", "1"), ("dec", Decimal("1.234")), ("iv", 1.5),
        ("iv", np.timedelta64(1500, "ns")), ("iv", pd.Timedelta("1500ns")), ("iv", np.timedelta64(2**62, "s")), ("d", Decimal("1e400")),
        ("f", Decimal("-1e400")), ("d", np.longdouble("1e400")), ("ts", np.datetime64(2**62, "s")), ("day", np.datetime64(2**62, "s")),
        ("day", np.datetime64(2**62, "Y")), ("day", np.datetime64("2024-01-01T00:00:00.000000001")),
        ("day", pd.Timestamp("2024-01-01 00:00:00.000000001")), ("ld", [Decimal("1e400")]),
        ("md", [(0.0, 1), (-0.0, 2)]), ("mst", [({"a": 0.0}, 1), ({"a": -0.0}, 2)]), ("st", [("a", 1)]),
        ("day", 1.5), ("l", [1, 1.5]), ("l", np.array([1.5])), ("m", {"a": 1.5}), ("m", [1]), ("st", {"a": 1.5}), ("st", (1.5,)),
    ],
)  # fmt: skip
def test_nothing_is_cut_off_to_fit(column: str, value: Any) -> None:
    with pytest.raises(TypeMismatch) as raised:
        table_of([{column: None}, {column: value}], EVERY, "s")
    assert raised.value.message.startswith(f'column "{column}" of "s" takes ')
    assert f", not {value!r:.57}" in raised.value.message
    assert raised.value.hint


def test_structs_may_be_dicts_and_tuples_side_by_side() -> None:
    table = table_of([{"st": {"a": 1}, "lst": [(1,), {"a": 2}]}, {"st": (2,)}, {"st": {}}, {"st": None}], EVERY, "s")
    assert table.column("st").to_pylist() == [{"a": 1}, {"a": 2}, {"a": None}, None]
    assert table.column("lst").to_pylist()[0] == [{"a": 1}, {"a": 2}]


def decimals(precision: int, *unscaled: int) -> pa.Array:
    """With two digits behind the point, and in all as many as they have."""
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in unscaled)
    return pa.Array.from_buffers(pa.decimal128(precision, 2), len(unscaled), [None, pa.py_buffer(data)])


@pytest.mark.parametrize("precision", [2, 18, 19, 20, 37, 38])
def test_decimals_with_too_many_digits_are_refused(precision: int) -> None:
    most = 10**precision - 1
    given = decimals(precision, 2**100, most, -most, 0, -1, most + 1, -most - 1, 2**127 - 1, -(2**127)).slice(1)
    schema = Schema.of(ts="TIMESTAMP", dec=f"DECIMAL({precision},2)")
    part = sorted_out(pa.table({"ts": range(8), "dec": given}), schema, RowTimes("s", "ts", 0), str)
    assert [row["ts"].microsecond for row in part.rows.to_pylist()] == [0, 1, 2, 3]
    assert all("more than" in letter.reason for letter in part.rejected)


def test_decimals_inside_of_others_too() -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), decimals(5, 99999, 1, 100000))
    part = sorted_out(pa.table({"ts": [0, 1], "ldec": lists}), EVERY, RowTimes("s", "ts", 0), str)
    assert part.rows.column("ldec").to_pylist() == [[Decimal("999.99")]]
    assert [letter.source for letter in part.rejected] == ["1"]


def with_hidden_values() -> pa.Array:
    """Lists of which the first is NULL, and has values all the same."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array([9.0, 9.0, 1.0, 2.0, 1e39, 1.0]), 2)
    return pa.Array.from_buffers(lists.type, 3, [pa.py_buffer(bytes([0b110]))], children=[lists.values])


TEXTS = pa.array([b"a", b"\xff\xfe", b"b"]).view(pa.string())


@pytest.mark.parametrize(
    ("type_", "given", "kept"),
    [
        ("ARRAY<STRING>", pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), TEXTS), [["a"], ["b"]]),
        ("STRUCT<x:STRING>", pa.StructArray.from_arrays([TEXTS], ["x"]), [{"x": "a"}, {"x": "b"}]),
        ("MAP<INT,STRING>", pa.MapArray.from_arrays([0, 1, 2, 3], pa.array([1, 2, 3], pa.int32()), TEXTS), [[(1, "a")], [(3, "b")]]),
        ("ARRAY<FLOAT>", with_hidden_values(), [None, [1.0, 2.0]]),
        ("ARRAY<FLOAT>", pa.array([None, [1.0], [2.0, 1e39]], pa.list_view(pa.float64())), [None, [1.0]]),
        ("FLOAT", pa.array(["inf", "1.5", "1e39"]).dictionary_encode(), [float("inf"), 1.5]),
        ("INT", pa.RunEndEncodedArray.from_arrays([2, 3], [1, 2**40]), [1, 1]),
        ("DATE", pa.array([0, 0, 1], pa.timestamp("s")).dictionary_encode(), [dt.date(1970, 1, 1)] * 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_of_arrow_columns_only_the_bad_rows_are_rejected(type_: str, given: pa.Array, kept: list[Any]) -> None:
    for rows in (pa.table({"ts": range(3), "v": given}), {"ts": [0, 1, 2], "v": given}):
        part = sorted_out(rows, Schema.of(ts="TIMESTAMP", v=type_), RowTimes("s", "ts", 0), str)
        assert part.rows.column("v").to_pylist() == kept
        (letter,) = part.rejected
        assert letter.reason.startswith('column "v" of "s" takes ')


@pytest.mark.parametrize(
    ("column", "value", "kept"),
    [
        ("ts", np.int64(3), 3), ("ts", np.datetime64("1969-12-31T23:59:59.999999999"), -1), ("ts", np.datetime64("NaT"), None),
        ("ts", pd.Timestamp(1999, unit="ns"), 1), ("ts", pd.NaT, None), ("i", np.int64(3), 3), ("i", 2.0, 2), ("i", Decimal(2), 2),
        ("d", Decimal("1.1"), 1.1), ("d", 2**60 + 1, 2.0**60), ("d", np.int32(3), 3.0), ("d", np.float32(0.5), 0.5),
        ("f", Decimal("0.5"), 0.5), ("dec", np.int64(3), Decimal(3)), ("iv", np.timedelta64(2000, "ns"), 2), ("iv", 5, 5),
        ("l", np.array([2, 3]), [2, 3]), ("m", {"a": 2.0}, [("a", 2)]), ("st", (np.int8(1),), {"a": 1}),
    ],
)  # fmt: skip
def test_what_says_the_same_is_taken(column: str, value: Any, kept: Any) -> None:
    (array,) = table_of([{column: value}], EVERY, "s").select([column]).columns
    assert (array.cast(pa.int64()) if column in ("ts", "iv") else array).to_pylist() == [kept]


@pytest.mark.parametrize(
    ("column", "given", "kept"),
    [
        ("ts", pa.array([-1, 1999, None], pa.timestamp("ns")), [-1, 1, None]),
        ("ts", pa.array([-1, 1999, None], pa.timestamp("ns", "Europe/Berlin")), [-1, 1, None]),
        ("d", pa.array([2**60 + 1, 1, None]), [2.0**60, 1.0, None]),
        ("d", pa.array([Decimal("1.1"), None]), [1.1, None]),
    ],
)
def test_arrow_columns_are_rounded_as_spark_does(column: str, given: pa.Array, kept: list[Any]) -> None:
    array = table_of(pa.table({column: given}), EVERY, "s").column(column)
    assert (array.cast(pa.int64()) if column == "ts" else array).to_pylist() == kept


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"ts": [0, 1], "size": [1, 2]}).query("size > 1"),
        pd.DataFrame({"ts": [1], "size": [2]}, index=["x"]),
        pd.DataFrame({"size": [2]}, index=pd.Index([1], name="ts")),
        pd.DataFrame({"ts": [1], "size": [2]}, index=pd.MultiIndex.from_tuples([("a", 1)])),
    ],
    ids=["selected", "labelled", "a column as index", "two levels"],
)
def test_frames_with_an_index(frame: pd.DataFrame) -> None:
    table = table_of(frame, SCHEMA, "trades")
    assert table.column("ts").cast(pa.int64()).to_pylist() == [1]
    assert table.column("size").to_pylist() == [2]


def test_a_frame_with_many_types_in_a_column_is_taken_if_each_fits() -> None:
    frame = pd.DataFrame({"d": [Decimal(1), 2.5, None]})
    assert table_of(frame, EVERY, "s").column("d").to_pylist() == [1.0, 2.5, None]
