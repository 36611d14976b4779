"""Cells of stream scripts: CSV by RFC 4180, read and written by the column's type."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.scripts.cells import plain, read_row, read_value, split_record, table_rows, write_row
from millstream.cli.scripts.format import parse_script
from millstream.core.instant import BEGINNING, LAST
from millstream.core.schema import INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

STRING = pa.string()


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", [None]),
        (",", [None, None]),
        ('""', [""]),
        ('a,"b,c"', ["a", "b,c"]),
        ('"say ""hi""",x', ['say "hi"', "x"]),
        (' a , "b"', [" a ", ' "b"']),
        ('"two\nlines"', ["two\nlines"]),
        ('mid"quote', ['mid"quote']),
    ],
)
def test_records_split_into_cells(text: str, cells: list[str | None]) -> None:
    assert split_record(text) == cells


@pytest.mark.parametrize("text", ['"a"b', '"a', '"a" ,b'])
def test_a_quoted_cell_must_end_with_its_quote(text: str) -> None:
    with pytest.raises(ValueError, match="quoted cell"):
        split_record(text)


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        (" 42 ", pa.int32(), 42),
        ("true", pa.bool_(), True),
        ("F", pa.bool_(), False),
        ("2.5", pa.float64(), 2.5),
        ("-Infinity", pa.float64(), -math.inf),
        ("1.10", pa.decimal128(10, 2), Decimal("1.10")),
        (" spaces stay ", STRING, " spaces stay "),
        ("10.000001", TIMESTAMP, 10_000_001),
        ("1970-01-01T00:00:01", TIMESTAMP, 1_000_000),
        ("1970-01-01T02:00:01+02:00", TIMESTAMP, 1_000_000),
        ("-1", TIMESTAMP, -1_000_000),
        ("1970-01-01 00:00:01.5", TIMESTAMP_NTZ, 1_500_000),
        ("90", INTERVAL, 90_000_000),
        ("5 MINUTES", INTERVAL, 300_000_000),
        ("2024-02-29", pa.date32(), dt.date(2024, 2, 29)),
        ("00ff", pa.binary(), b"\x00\xff"),
        ("[1, null, 3]", pa.list_(pa.int32()), (1, None, 3)),
        ('[["a", 1]]', pa.map_(STRING, pa.int64()), (("a", 1),)),
        ('{"a": "x", "b": 2.5}', pa.struct([("a", STRING), ("b", pa.float64())]), (("a", "x"), ("b", 2.5))),
    ],
)
def test_a_cell_is_read_by_its_type(text: str, type_: pa.DataType, value: object) -> None:
    assert read_value(text, type_) == value


@pytest.mark.parametrize(
    ("text", "type_"), [("x", pa.int32()), ("1.5", pa.int64()), ("yes", pa.bool_()), ("noon", TIMESTAMP), ("1,2", pa.int32())]
)
def test_a_cell_that_does_not_fit_is_refused(text: str, type_: pa.DataType) -> None:
    with pytest.raises(ValueError, match="cell"):
        read_row(text, [type_])


def test_a_float_column_rounds_what_it_is_compared_with() -> None:
    stored = pa.array([1.1], pa.float32()).to_pylist()[0]
    assert read_value("1.1", pa.float32()) == stored
    assert write_row((stored,), [pa.float32()]) == "1.1"


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.decimal128(20, 3): st.decimals(-(10**16), 10**16, places=3),
    STRING: st.text(st.characters(exclude_categories=["Cs"])),
    TIMESTAMP: st.integers(BEGINNING, LAST),
    INTERVAL: st.integers(-(10**15), 10**15),
    pa.date32(): st.dates(),
    pa.binary(): st.binary(min_size=1),
}


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[list[pa.DataType], tuple[Any, ...]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    return types, tuple(draw(st.none() | VALUES[type_]) for type_ in types)


@given(typed_rows())
def test_a_written_row_reads_back(typed: tuple[list[pa.DataType], tuple[Any, ...]]) -> None:
    types, row = typed
    assert read_row(write_row(row, types), types) == row


@given(typed_rows())
def test_a_written_row_survives_a_script(typed: tuple[list[pa.DataType], tuple[Any, ...]]) -> None:
    types, row = typed
    block = parse_script(f"result q\n{write_row(row, types) or '+'}\n", "x.slt").blocks[0]
    (record,) = block.expected  # type: ignore[union-attr]
    assert read_row(record.text, types) == row


def test_arrow_values_become_plain() -> None:
    table = pa.table(
        {
            "at": pa.array([10_000_001], TIMESTAMP),
            "for": pa.array([5_000_000], INTERVAL),
            "items": pa.array([[1, None]], pa.list_(pa.int32())),
            "pair": pa.array([{"a": 1}], pa.struct([("a", pa.int32())])),
            "map": pa.array([[("k", 2)]], pa.map_(STRING, pa.int32())),
        }
    )
    assert table_rows(table) == [(10_000_001, 5_000_000, (1, None), (("a", 1),), (("k", 2),))]
    assert plain(None) is None
