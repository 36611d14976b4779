"""KeyTable against a dict: codes are stable, dense, given out again, and survive save and load."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.kernels.key_table import KeyTable
from property.histories import Row, comparable_row, rows_of
from unit.kernels.test_hashing import WORD, bytes_slow, mix_slow

SCHEMAS = [
    Schema.of(a="BIGINT"),
    Schema.of(a="STRING"),
    Schema.of(a="DOUBLE"),
    Schema.of(a="DECIMAL(30,5)"),
    Schema.of(a="ARRAY<STRING>"),
    Schema.of(a="STRUCT<x:STRING,y:DOUBLE>"),
    Schema.of(a="MAP<STRING,INT>"),
    Schema.of(a="STRING", b="DATE", c="BINARY", d="BOOLEAN"),
]


def columns_of(schema: Schema, rows: list[Row]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]


def keys_of(table: KeyTable, codes: list[int]) -> list[Row]:
    columns = [column.to_pylist() for column in table.decode(np.array(codes, np.int64))]
    return [comparable_row(row) for row in zip(*columns, strict=True)]


class Model:
    """A table and the dict it should be equal to."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.table = KeyTable([field.type for field in schema])
        self.codes: dict[Row, int] = {}

    def encode(self, rows: list[Row]) -> None:
        codes = self.table.encode(columns_of(self.schema, rows)).tolist()
        for row, code in zip(map(comparable_row, rows), codes, strict=True):
            assert self.codes.setdefault(row, code) == code
        self.check()

    def release(self, picks: list[int]) -> None:
        victims = sorted({list(self.codes)[pick % len(self.codes)] for pick in picks}, key=repr) if self.codes else []
        self.table.release(np.array([self.codes.pop(key) for key in victims], np.int64))
        self.check()

    def reload(self) -> None:
        live = self.table.live_codes().tolist()
        fresh = KeyTable([field.type for field in self.schema])
        fresh.load(self.table.save())
        by_code = {code: key for key, code in self.codes.items()}
        self.table, self.codes = fresh, {by_code[code]: i for i, code in enumerate(live)}
        self.check()

    def check(self) -> None:
        codes = list(self.codes.values())
        assert len(set(codes)) == len(codes) == len(self.table)
        assert self.table.live_codes().tolist() == sorted(codes)
        assert all(0 <= code < self.table.capacity for code in codes)
        assert keys_of(self.table, codes) == list(self.codes)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_table_equals_a_dict(schema: Schema, data: st.DataObject) -> None:
    model = Model(schema)
    rows = st.lists(rows_of(schema), max_size=12)
    picks = st.lists(st.integers(0, 100), max_size=6)
    for move in data.draw(st.lists(st.one_of(rows, rows, picks, st.none()), max_size=8)):
        if move is None:
            model.reload()
        elif move and isinstance(move[0], int):
            model.release(move)
        else:
            model.encode(move)


@pytest.mark.parametrize("make", [
    lambda: KeyTable([pa.int64()]),
    lambda: KeyTable([pa.int64(), pa.int64()]),
    lambda: KeyTable([pa.int64(), pa.int64()], has_nulls=False),
], ids=["one word", "with flags", "without flags"])  # fmt: skip
def test_colliding_and_neighbouring_keys_survive_releases(make: Callable[[], KeyTable]) -> None:
    """Thousands of keys through growth and deletion in a random order: every probe chain is cut somewhere."""
    rng = np.random.default_rng(1)
    model: dict[int, int] = {}
    table = make()
    width = len(table.decode(np.zeros(0, np.int64)))
    for _ in range(60):
        keys = rng.integers(0, 4000, 1500)
        codes = table.encode([pa.array(keys), pa.array(keys << 33)][:width])
        for key, code in zip(keys.tolist(), codes.tolist(), strict=True):
            assert model.setdefault(key, code) == code
        gone = rng.permutation(list(model))[: len(model) // 2].tolist()
        table.release(np.array([model.pop(key) for key in gone], np.int64))
    values = [column.to_pylist() for column in table.decode(np.array(list(model.values())))]
    assert values == [list(model), [key << 33 for key in model]][:width]


def test_the_same_32_bits_of_a_hash_are_not_the_same_key() -> None:
    """Of 300,000 keys some ten pairs have them in common."""
    keys = np.arange(300_000)
    table = KeyTable([pa.int64(), pa.int64()], has_nulls=False)
    columns = [pa.array(keys % 7), pa.array(keys)]
    codes = table.encode(columns)
    assert len(np.unique(codes)) == len(keys)
    assert (table.encode(columns) == codes).all()
    table.release(codes[::2])
    assert (table.encode(columns)[1::2] == codes[1::2]).all()


@pytest.mark.parametrize("kind", ["ints", "strings", "pairs", "lists"])
def test_keys_that_come_and_go_for_ever_leave_nothing_behind(kind: str) -> None:
    types = {"ints": [pa.int64()], "strings": [pa.string()], "pairs": [pa.string(), pa.string()], "lists": [pa.list_(pa.string())]}[kind]
    table = KeyTable(types)
    for round_ in range(200):
        numbers = np.arange(round_ * 100, round_ * 100 + 100)
        texts = pa.array([f"key number {n}" for n in numbers])
        lists = pa.array([[f"{n}", "x"] for n in numbers])
        columns = {"ints": [pa.array(numbers)], "strings": [texts], "pairs": [texts, texts], "lists": [lists]}[kind]
        codes = table.encode(columns)
        assert table.decode(codes)[0].to_pylist() == columns[0].to_pylist()
        table.release(codes)
    assert len(table) == 0
    assert table.capacity <= 256
    assert sum(codec.held() for codec in table._rows.codecs) <= 2 * 1024 + 200


def test_keys_with_equal_hashes_are_told_apart() -> None:
    """Two integers hash as mix(mix(mix(0) ^ a) ^ b), which can be solved for b."""

    def state(a: int) -> int:
        return mix_slow(mix_slow(0) ^ a)

    pairs = [(a, state(1) ^ state(a) ^ 7) for a in range(1, 50)]
    assert len({mix_slow(state(a) ^ b) for a, b in pairs}) == 1
    columns = [pa.array(np.array(column, np.uint64).view(np.int64)) for column in zip(*pairs, strict=True)]
    table = KeyTable([pa.int64(), pa.int64()])
    assert table.encode(columns).tolist() == list(range(len(pairs)))
    table.release(np.arange(0, len(pairs), 2))
    assert table.encode([column.slice(1, 1) for column in columns]).tolist() == [1]


def test_strings_with_equal_hashes_are_told_apart() -> None:
    """Sixteen bytes hash as two words, of which the second can make up for the first."""

    def state(word: int) -> int:
        mixed = ((((16 * 0x9E3779B97F4A7C15) & WORD) ^ word) * 0xFF51AFD7ED558CCD) & WORD
        return mixed ^ (mixed >> 32)

    texts = [word.to_bytes(8, "little") + (state(1) ^ state(word) ^ 7).to_bytes(8, "little") for word in range(1, 50)]
    assert len({bytes_slow(text) for text in texts}) == 1
    table = KeyTable([pa.binary()])
    assert table.encode([pa.array(texts)]).tolist() == list(range(len(texts)))
    assert table.decode(np.arange(len(texts)))[0].to_pylist() == texts


def test_dictionary_arrays_are_their_values() -> None:
    table = KeyTable([pa.string()])
    plain = pa.array(["b", "a", None, "b", "c"])
    assert table.encode([plain]).tolist() == table.encode([plain.dictionary_encode()]).tolist() == [0, 1, 2, 0, 3]
    assert table.encode([plain.dictionary_encode().slice(1, 3)]).tolist() == [1, 2, 0]
    assert table.encode([pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([None, "c"]))]).tolist() == [2, 3]


def test_floats_come_back_in_one_form() -> None:
    table = KeyTable([pa.float64()])
    codes = table.encode([pa.array([-0.0, 0.0, math.nan, -math.nan])])
    assert codes.tolist() == [0, 0, 1, 1]
    assert str(table.decode(codes)[0].to_pylist()) == "[0.0, 0.0, nan, nan]"


def test_slices_and_large_strings() -> None:
    table = KeyTable([pa.large_string()])
    texts = pa.array(["x", "y" * 100, None, "", "x"], pa.large_string())
    assert table.encode([texts.slice(1)]).tolist() == [0, 1, 2, 3]
    assert table.decode(np.array([3, 0]))[0].to_pylist() == ["x", "y" * 100]
