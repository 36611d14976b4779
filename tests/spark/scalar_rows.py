"""The table over which scalar expressions are compared with Spark: every type, NULLs, extremes, NaN, empty and odd strings."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

from millstream.core.schema import Schema

SCHEMA = Schema.of(
    bo="BOOLEAN", bo2="BOOLEAN", i8="TINYINT", i16="SMALLINT", i32="INT", j32="INT", i64="BIGINT", j64="BIGINT",
    f32="FLOAT", f64="DOUBLE", g64="DOUBLE", st="STRING", su="STRING", sn="STRING", sd="STRING", sj="STRING", bi="BINARY",
    da="DATE", db="DATE", ts="TIMESTAMP", tt="TIMESTAMP", tn="TIMESTAMP_NTZ", d1="DECIMAL(10,2)", d2="DECIMAL(38,18)", d3="DECIMAL(5,0)",
    iv="INTERVAL DAY TO SECOND", ai="ARRAY<INT>", ast="ARRAY<STRING>", af="ARRAY<DOUBLE>", aa="ARRAY<ARRAY<INT>>",
    ma="MAP<STRING,INT>", sr="STRUCT<a:INT,b:STRING>", ar="ARRAY<STRUCT<a:INT,b:STRING>>",
)  # fmt: skip

_UTC = dt.UTC
_LONG, _INT = 2**63 - 1, 2**31 - 1


def _ts(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=_UTC)


def _d(text: str) -> Decimal:
    return Decimal(text)


_COLUMNS: dict[str, list[object]] = {
    "bo": [True, False, None, True, False, True, None, False, True, False],
    "bo2": [True, True, True, False, False, None, None, None, True, False],
    "i8": [1, -1, 127, -128, 0, 5, None, 3, 100, -7],
    "i16": [1, -1, 32767, -32768, 0, 5, None, 3, 100, -7],
    "i32": [1, -1, _INT, -_INT - 1, 0, 5, None, 3, 100, -7],
    "j32": [2, 0, 1, -1, 3, -2, 7, None, 33, 65],
    "i64": [1, -1, _LONG, -_LONG - 1, 0, 5, None, 3, 1_600_000_000, -7],
    "j64": [3, 0, 1, -1, 10, -2, 7, None, 33, 1_000_000_007],
    "f32": [1.5, -0.5, 3.4e38, -1.0e-10, 0.0, float("nan"), None, float("inf"), 16777217.0, 0.1],
    "f64": [1.5, -0.5, 1.7e308, -1.0e-10, -0.0, float("nan"), None, float("-inf"), 12345678.9, 2.675],
    "g64": [2.0, 0.0, 10.0, -3.25, 1.0, 1.0, 0.5, None, 1e-7, 100.0],
    "st": ["abc", "", "Hello World", "  padded  ", "ünïcödé ß", "a,b,,c", None, "100%_x", "😀 smile", "ABC abc 123"],
    "su": ["b", "a", "o", " ", "ö", ",", "x", None, "😀", "abc"],
    "sn": ["12", " -7 ", "abc", "1e3", "3.5", "", None, "9223372036854775808", "true", "\t+42\n"],
    "sd": ["2024-02-29", "2024-1-5", "2024-02-29 12:34:56.789", "2024", "2024-02-30", "1969-12-31T23:59:59Z", None, "x",
           "2024-03-10 10:00:00+02:00", " 2000-01-01 "],
    "sj": ['{"a": 1, "b": {"c": [1, 2, 3]}}', '{"a": "x y", "b": null}', "[1, 2]", "not json", "{}", '{"a": true}', None, '"text"',
           '{"a": 1.50, "b": [{"c": 5}]}', '{"a": {"d": "q"}}'],
    "bi": [b"abc", b"", b"\x00\xff", b"Spark", "ü".encode(), b"\x80", None, b"0", b"hello", b"A"],
    "da": [dt.date(2024, 2, 29), dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31), dt.date(1900, 3, 1),
           dt.date(2023, 1, 31),
           None, dt.date(2000, 12, 30), dt.date(2021, 1, 3), dt.date(2024, 7, 15)],
    "db": [dt.date(2024, 3, 1), dt.date(1970, 1, 1), dt.date(2000, 1, 1), dt.date(2024, 1, 1), dt.date(2023, 2, 28), dt.date(2023, 2, 28),
           dt.date(2020, 5, 5), None, dt.date(2020, 1, 3), dt.date(2024, 8, 15)],
    "ts": [_ts("2024-02-29T12:34:56.789012"), _ts("1970-01-01T00:00:00"), _ts("1969-12-31T23:59:59.999999"), _ts("9999-12-31T23:59:59"),
           _ts("1900-03-01T00:00:01"), _ts("2023-01-31T06:07:08.5"), None, _ts("2000-12-30T13:00:00"), _ts("2021-01-03T00:00:00.000001"),
           _ts("2024-07-15T23:59:59.1")],
    "tt": [_ts("2024-03-01T00:00:00"), _ts("1970-01-01T00:00:00"), _ts("2000-01-01T00:00:00"), _ts("2024-01-01T12:00:00"),
           _ts("1900-03-01T00:00:00"), _ts("2023-02-28T06:07:08"), _ts("2020-05-05T05:05:05"), None, _ts("2021-01-03T00:01:00"),
           _ts("2024-08-15T00:00:00")],
    "tn": [dt.datetime(2024, 2, 29, 12, 34, 56, 789012), dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59),
           dt.datetime(2024, 1, 1),
           dt.datetime(1950, 6, 7, 8, 9, 10), None, None, dt.datetime(2000, 12, 30, 13), dt.datetime(2021, 1, 3), dt.datetime(2024, 7, 15)],
    "d1": [_d("1.25"), _d("-1.25"), _d("99999999.99"), _d("-99999999.99"), _d("0.00"), _d("0.05"), None, _d("2.50"),
           _d("100.00"), _d("-0.01")],
    "d2": [_d("1.5"), _d("-2.000000000000000001"), _d("12345678901234567890.123456789012345678"), _d("0.000000000000000001"), _d("0"),
           _d("3.333333333333333333"), None, _d("-0.5"), _d("1000000"), _d("7")],
    "d3": [_d("3"), _d("-3"), _d("99999"), _d("-99999"), _d("0"), _d("7"), None, _d("2"), _d("10"), _d("1")],
    "iv": [dt.timedelta(seconds=90), dt.timedelta(days=-1), dt.timedelta(microseconds=1), dt.timedelta(days=400, hours=3), dt.timedelta(0),
           dt.timedelta(minutes=-5, microseconds=-5), None, dt.timedelta(hours=25), dt.timedelta(milliseconds=1500), dt.timedelta(days=2)],
    "ai": [[1, 2, 3], [], [None, 5, 5], [3, 1, 2], [-_INT - 1, _INT], [7], None, [1, None, 2, None], [2, 2, 1, 1], [0]],
    "ast": [["a", "b"], [], [None, "x"], ["b", "a", "b"], [""], ["ü", "😀"], None, ["x", None, "y"], ["abc", "ABC"], ["1"]],
    "af": [[1.5, 2.5], [], [float("nan"), 1.0, None], [4.0, 4.0], [1e300, -1e300], [3.0], None, [float("inf"), 2.0], [0.1, 0.2], [5.0]],
    "aa": [[[1, 2], [3]], [], [None, [4]], [[]], [[5], [6, None]], [[7]], None, [[1], [1]], [[2, 1]], [[0]]],
    "ma": [[("a", 1), ("b", 2)], [], [("x", None)], [("a", 5)], [("", 0), ("k", -1)], [("ü", 9)], None, [("b", 3)], [("a", 7),
           ("z", 8)], [("q", 1)]],
    "sr": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 3, "b": ""}, {"a": -4, "b": "y"}, None, {"a": 0, "b": "ü"}, None,
           {"a": 7, "b": None}, {"a": 1, "b": "x"}, {"a": 9, "b": "z"}],
    "ar": [[{"a": 1, "b": "x"}, {"a": 2, "b": None}], [], [None], [{"a": None, "b": "q"}], None, [{"a": 5, "b": "e"}], None,
           [{"a": 6, "b": ""}], [{"a": 7, "b": "w"}], [{"a": 8, "b": "v"}]],
}  # fmt: skip


def rows() -> pa.RecordBatch:
    arrays = [pa.array(_COLUMNS[field.name], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.to_arrow())
