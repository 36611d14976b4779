"""Hashes place rows on disk: they may never change, whatever the array's layout."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.kernels.hashing import bucket_of, hash_columns, split_by_bucket
from property.histories import EXACT

WORD = 2**64 - 1
SEED, NULL = 0x6D696C6C73747265, 0x2545F4914F6CDD1D


def mix_slow(word: int) -> int:
    word = (word + 0x9E3779B97F4A7C15) & WORD
    word = ((word ^ (word >> 33)) * 0xFF51AFD7ED558CCD) & WORD
    word = ((word ^ (word >> 33)) * 0xC4CEB9FE1A85EC53) & WORD
    return word ^ (word >> 33)


def bytes_slow(data: bytes) -> int:
    word = (len(data) * 0x9E3779B97F4A7C15) & WORD
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        word = ((word ^ int.from_bytes(data[at : at + 8], "little")) * 0xFF51AFD7ED558CCD) & WORD
        word ^= word >> 32
    if data[whole:]:
        word = ((word ^ int.from_bytes(data[whole:], "little")) * 0xC4CEB9FE1A85EC53) & WORD
    return mix_slow(word)


def value_slow(value: Any) -> int:
    match value:
        case None:
            return NULL
        case str():
            return bytes_slow(value.encode())
        case bytes():
            return bytes_slow(value)
        case float():
            canonical = math.nan if math.isnan(value) else value + 0.0
            return mix_slow(struct.unpack("<Q", struct.pack("<d", canonical))[0])
        case int() if -(2**63) <= value < 2**63:
            return mix_slow(value & WORD)
        case int():
            return mix_slow((value & WORD) ^ mix_slow((value >> 64) & WORD))
        case dict():
            return row_slow(tuple(value[name] for name in sorted(value)))  # fields are named in their order
        case list():
            word = mix_slow(len(value))
            for element in value:
                word = mix_slow(word ^ row_slow(element if isinstance(element, tuple) else (element,)))
            return word
    raise AssertionError(value)


def row_slow(values: tuple[Any, ...]) -> int:
    word = SEED
    for value in values:
        word = mix_slow(word ^ value_slow(value))
    return word


GOLDEN = {
    pa.int64(): (
        [0, 1, -1, 5, 2**63 - 1, None],
        [17764862995862076558, 7888010495622459352, 14112704909210959270, 9617157585086328406, 14760719531281784086, 14294012503724787469],
    ),
    pa.string(): (
        ["", "a", "abcdefgh", "abcdefghi", "é", None],
        [17764862995862076558, 12183900634486603406, 2324353465836767301, 3131368074793428221, 6711328580778280461, 14294012503724787469],
    ),
    pa.float64(): (
        [0.0, 1.5, math.nan, math.inf, -1e300, None],
        [17764862995862076558, 811047966864175232, 17768020664794732045, 408956997927039815, 4604289688985813650, 14294012503724787469],
    ),
    pa.decimal128(38, 2): ([Decimal("1.50"), Decimal("-12345678901234567890123456.78")], [7400293011734414991, 17208994163957598355]),
}


@pytest.mark.parametrize("type_", GOLDEN, ids=str)
def test_hashes_never_change(type_: pa.DataType) -> None:
    values, expected = GOLDEN[type_]
    assert hash_columns([pa.array(values, type_)]).tolist() == expected


def test_hash_of_several_columns_never_changes() -> None:
    assert hash_columns([pa.array([1, None]), pa.array(["a", None])]).tolist() == [4785205121507054593, 5264668077911701105]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text(), st.none() | st.floats(), st.none() | st.binary())
    )
)
def test_hash_equals_its_plain_twin(rows: list[tuple[Any, ...]]) -> None:
    types = [pa.int64(), pa.string(), pa.float64(), pa.binary()]
    columns = [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
    assert hash_columns(columns).tolist() == [row_slow(row) for row in rows]


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-(10**37), 10**37)))
def test_wide_decimals_hash_by_unscaled_value(values: list[int | None]) -> None:
    array = pa.array([None if v is None else EXACT.scaleb(Decimal(v), -2) for v in values], pa.decimal128(38, 2))
    assert hash_columns([array]).tolist() == [row_slow((v,)) for v in values]


INTS = st.none() | st.integers(-5, 5)
NESTED = [
    (pa.list_(pa.int64()), st.lists(INTS)),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), st.fixed_dictionaries({"a": INTS, "b": st.none() | st.text()})),
    (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(st.text(), INTS), unique_by=lambda item: item[0])),
    (pa.list_(pa.struct([("a", pa.list_(pa.int64()))])), st.lists(st.fixed_dictionaries({"a": st.none() | st.lists(INTS)}))),
]


@pytest.mark.parametrize(("type_", "some"), NESTED, ids=lambda part: str(part) if isinstance(part, pa.DataType) else "")
@settings(deadline=None)
@given(st.data())
def test_nested_values_hash_as_their_plain_twin(type_: pa.DataType, some: st.SearchStrategy[Any], data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | some, max_size=5))
    assert hash_columns([pa.array([None, *values], type_).slice(1)]).tolist() == [row_slow((value,)) for value in values]


SAME = [
    [pa.array([5, None, -7], kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
    [pa.array(["a", None, "bcdefghijk"], kind) for kind in (pa.string(), pa.large_string())],
    [pa.array(["a", None, "bcdefghijk"]), pa.array(["a", None, "bcdefghijk"]).dictionary_encode()],
    [pa.array(["a", None]), pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([None, "a"]))],
    [pa.array([None, None], pa.string()), pa.array([None, None], pa.string()).dictionary_encode(), pa.nulls(2)],
    [pa.array([0.0, math.nan]), pa.array([-0.0, -math.nan]), pa.array([0.0, math.nan], pa.float32())],
    [pa.array([Decimal("1.5"), None], kind) for kind in (pa.decimal128(5, 1), pa.decimal128(38, 1))],
    [pa.array([True, False, None]), pa.array([1, 0, None])],
    [pa.array([dt.date(1970, 1, 3)]), pa.array([2])],
]


@pytest.mark.parametrize("arrays", SAME, ids=lambda arrays: ", ".join(str(array.type) for array in arrays))
def test_equal_values_hash_alike(arrays: list[pa.Array]) -> None:
    assert len({tuple(hash_columns([array]).tolist()) for array in arrays}) == 1


@pytest.mark.parametrize("array", [group[0] for group in SAME], ids=lambda array: str(array.type))
def test_slices_hash_as_what_they_show(array: pa.Array) -> None:
    padded = pa.concat_arrays([array, array, array])
    for start in range(len(padded)):
        assert hash_columns([padded.slice(start, 4)]).tolist() == hash_columns([padded]).tolist()[start : start + 4]


def test_buckets_are_in_range_and_even() -> None:
    bucket = bucket_of(hash_columns([pa.array(range(100_000))]), 7)
    counts = np.bincount(bucket, minlength=7)
    assert len(counts) == 7
    assert abs(counts - 100_000 / 7).max() < 1000


@settings(deadline=None)
@given(st.lists(st.integers(0, 4)))
def test_split_is_a_stable_sort(buckets: list[int]) -> None:
    order, offsets = split_by_bucket(np.array(buckets, np.int32), 5)
    assert order.tolist() == sorted(range(len(buckets)), key=lambda i: buckets[i])
    assert offsets.tolist() == [sum(b < limit for b in buckets) for limit in range(6)]
