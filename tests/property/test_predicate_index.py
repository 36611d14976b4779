"""The predicate index against its definition: every selection tried on every row."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.kernels import predicate_blocks, predicate_index
from millstream.kernels.comparison_keys import OPERATORS
from millstream.kernels.predicate_index import Factor, PredicateIndex
from property.examples import examples
from property.histories import rows_of, sort_key, values

Row = tuple[Any, ...]
SCHEMA = Schema.of(
    i="INT", l="BIGINT", x="DOUBLE", f="FLOAT", d="DECIMAL(9,2)", w="DECIMAL(38,5)", t="TIMESTAMP", b="BOOLEAN", s="STRING", y="BINARY"
)  # fmt: skip
TYPES = {field.name: field.type for field in SCHEMA}
COMPARE = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge, ">": operator.gt}


def holds(factor: Factor, row: Row) -> bool:
    value = row[SCHEMA.names.index(factor.column)]
    if value is None or factor.constant is None:
        return False
    return bool(COMPARE[factor.op](sort_key(value), sort_key(factor.constant)))


def probe_slow(selections: dict[int, list[Factor]], rows: list[Row]) -> list[tuple[int, int]]:
    return [
        (number, place)
        for number in sorted(selections)
        for place, row in enumerate(rows)
        if all(holds(factor, row) for factor in selections[number])
    ]


@st.composite
def factors(draw: st.DrawFn) -> list[Factor]:
    column = st.sampled_from(SCHEMA.names)
    several = draw(st.lists(column, max_size=3))
    return [Factor(name, draw(st.sampled_from(OPERATORS)), draw(values(TYPES[name]))) for name in several]


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow())


def found(index: PredicateIndex, rows: list[Row]) -> list[tuple[int, int]]:
    places, numbers = index.probe(batch([*rows[:1], *rows]).slice(len(rows[:1])))
    return list(zip(numbers.tolist(), places.tolist(), strict=True))


@settings(max_examples=examples(60))
@given(st.data())
def test_index_equals_trying_every_selection(data: st.DataObject) -> None:
    index, selections = PredicateIndex(TYPES), {}
    for _ in range(data.draw(st.integers(1, 3))):
        for number in data.draw(st.lists(st.integers(-3, 40), max_size=15, unique=True)):
            if number in selections:
                del selections[number]
                index.remove(number)
            else:
                selections[number] = data.draw(factors())
                index.add(number, selections[number])
        rows = data.draw(st.lists(rows_of(SCHEMA), max_size=12))
        assert found(index, rows) == probe_slow(selections, rows)
        assert len(index) == len(selections)


@pytest.mark.parametrize("seed", range(3))
def test_many_selections_over_several_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long lists of equal values, blocks that fill up, output that does not fit at first, constants that leave no room between them."""
    monkeypatch.setattr(predicate_index, "LONGEST_LIST", 4)
    monkeypatch.setattr(predicate_index, "_STALE", 50)
    random = np.random.default_rng(seed)
    types = {"a": pa.int64(), "b": pa.int64(), "s": pa.string()}
    index, selections = PredicateIndex(types), {}
    words = [f"{'x' * int(random.integers(0, 70))}{int(each)}" for each in random.integers(0, 40, 200)]

    def factor() -> Factor:
        column = str(random.choice(["a", "b", "s"]))
        constant = str(random.choice(words)) if column == "s" else int(random.integers(0, 100))
        return Factor(column, str(random.choice(OPERATORS)), constant)  # type: ignore[arg-type]

    for number in range(3 * predicate_blocks.BLOCK):
        selections[number] = [factor() for _ in range(random.integers(0, 4))]
        index.add(number, selections[number])
        if random.random() < 0.3:
            gone = int(random.choice(list(selections)))
            del selections[gone]
            index.remove(gone)
    values_ = [(int(a), int(b), words[int(s)]) for a, b, s in zip(*(random.integers(0, 100, 60) for _ in range(3)), strict=True)]
    rows = pa.RecordBatch.from_arrays([pa.array(each) for each in zip(*values_, strict=True)], names=list(types))
    places, numbers = index.probe(rows)
    expected = [
        (number, place)
        for number in sorted(selections)
        for place, row in enumerate(values_)
        if all(COMPARE[each.op](row["abs".index(each.column)], each.constant) for each in selections[number])
    ]
    assert list(zip(numbers.tolist(), places.tolist(), strict=True)) == expected


def test_a_label_is_found_between_any_two_strings() -> None:
    """Ever new constants between two others: labels run out of room and are spread again."""
    index = PredicateIndex({"s": pa.string()})
    constants = ["b" + "a" * n for n in range(200, 0, -1)]
    for number, constant in enumerate(constants):
        index.add(number, [Factor("s", "<", constant)])
    rows = pa.RecordBatch.from_arrays([pa.array(["b", "ba", "baaaa!", "c", None])], names=["s"])
    places, numbers = index.probe(rows)
    expected = [(n, i) for n, c in enumerate(constants) for i, v in enumerate(["b", "ba", "baaaa!", "c"]) if v < c]
    assert list(zip(numbers.tolist(), places.tolist(), strict=True)) == expected
