"""JSON of whole columns says what Python's own JSON says of each value, and keeps every digit of decimals."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.plan.duckdb_connection import DuckDb
from millstream.runtime.sinks.column_text import json_lines, plain_columns
from property.examples import examples

GREAT, SMALL = pa.decimal128(38, 10), pa.decimal128(4, 4)
TYPE = pa.struct(
    [
        ("d", GREAT),
        ("l", pa.list_(SMALL)),
        ("m", pa.map_(SMALL, pa.list_(GREAT))),
        ("f", pa.map_(pa.float64(), pa.float32())),
        ("t", pa.string()),
    ]
)
DUCK = DuckDb()

great = st.none() | st.decimals(-(10**28) + 1, 10**28 - 1, places=10)
small = st.decimals(Decimal("-0.9999"), Decimal("0.9999"), places=4)
doubles = st.floats(width=32)
VALUES = st.none() | st.fixed_dictionaries(
    {
        "d": great,
        "l": st.none() | st.lists(st.none() | small, max_size=3),
        "m": st.none() | st.dictionaries(small, st.none() | st.lists(great, max_size=2), max_size=2).map(lambda map_: list(map_.items())),
        "f": st.none() | st.lists(st.tuples(doubles, st.none() | doubles), max_size=2, unique_by=lambda pair: repr(pair[0] + 0.0)),
        "t": st.none() | st.text(max_size=5),
    }
)


def json_slow(value: Any, type_: pa.DataType) -> Any:
    """As `json.loads` gives it, with a Decimal for each number that has a point."""
    if value is None:
        return None
    if isinstance(type_, pa.StructType):
        return {field.name: json_slow(value[field.name], field.type) for field in type_}
    if isinstance(type_, pa.MapType):
        return {_key_slow(json_slow(key, type_.key_type)): json_slow(item, type_.item_type) for key, item in value}
    if isinstance(type_, pa.ListType):
        return [json_slow(each, type_.value_type) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _key_slow(key: Any) -> Any:
    return key if isinstance(key, str) else ("number", key)


def read(text: str, type_: pa.DataType) -> Any:
    """Numbers as the type has them; keys that are numbers told apart from texts."""
    return _typed(json.loads(text, parse_float=lambda digits: digits, parse_int=lambda digits: digits), type_)


def _typed(found: Any, type_: pa.DataType) -> Any:
    if found is None:
        return None
    if isinstance(type_, pa.StructType):
        return {field.name: _typed(found[field.name], field.type) for field in type_}
    if isinstance(type_, pa.MapType):
        return {_key_slow(_typed(key, type_.key_type)): _typed(item, type_.item_type) for key, item in found.items()}
    if isinstance(type_, pa.ListType):
        return [_typed(each, type_.value_type) for each in found]
    if pa.types.is_decimal(type_):
        assert len(found.split(".")[1]) == type_.scale
        return Decimal(found)
    return float(found) if pa.types.is_floating(type_) and found not in ("NaN", "Infinity", "-Infinity") else found


@settings(max_examples=examples(30))
@given(st.lists(VALUES, max_size=8))
def test_json_keeps_what_was_said(values: list[Any]) -> None:
    column = pa.array(values, TYPE)
    expected = [json_slow(value, TYPE) for value in column.to_pylist()]
    table = pa.table({'it\'s "c"': column})
    lines = json_lines(table, DUCK).decode().split("\n")[:-1]
    whole = pa.struct([('it\'s "c"', TYPE)])
    assert [read(line, whole) for line in lines] == [{'it\'s "c"': value} for value in expected]
    texts = plain_columns(table, DUCK).column(0).to_pylist()
    assert [None if text is None else read(text, TYPE) for text in texts] == expected


def test_a_thousand_columns() -> None:
    table = pa.table({f"c{i}": [i] for i in range(1200)})
    assert json.loads(json_lines(table, DUCK)) == {f"c{i}": i for i in range(1200)}
