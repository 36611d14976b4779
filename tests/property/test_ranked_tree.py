"""The ranked tree against sums, minima and maxima of slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import type_from_name
from millstream.kernels.arrow_buffers import is_word
from millstream.kernels.ranked_tree import FAN, RankedTree
from property.examples import examples
from property.histories import EXACT, comparable, sort_key, values

TYPES = ["INT", "BIGINT", "DOUBLE", "DECIMAL(12,2)", "DECIMAL(38,3)", "STRING", "TIMESTAMP", "BOOLEAN"]


def slice_slow(some: list[Any], type_: pa.DataType) -> tuple[Any, ...]:
    present = [value for value in some if value is not None]
    least, greatest = min(present, key=sort_key, default=None), max(present, key=sort_key, default=None)
    if pa.types.is_decimal(type_):
        total: Any = sum(int(EXACT.scaleb(value, type_.scale)) for value in present)
    else:
        total = sum(present) if pa.types.is_integer(type_) or pa.types.is_floating(type_) else None
    return len(present), total, comparable(least), comparable(greatest)


def asked(tree: RankedTree, start: int, stop: int) -> tuple[Any, ...]:
    totals = tree.ask([start], [stop])
    if pa.types.is_floating(tree.type):
        total: Any = float(totals.doubles()[0])
    elif pa.types.is_integer(tree.type) or pa.types.is_decimal(tree.type):
        (total,) = totals.integers()
    else:
        total = None
    least, greatest = (tree.values(keys, totals.count).to_pylist()[0] for keys in (totals.least, totals.greatest))
    return int(totals.count[0]), total, comparable(least), comparable(greatest)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=examples(25))
@given(st.data())
def test_tree_equals_slices(name: str, data: st.DataObject) -> None:
    type_ = type_from_name(name)
    some = st.sampled_from([None, 0.5, -1.5, 2.0, 0.0, 1e9]) if pa.types.is_floating(type_) else values(type_)
    tree, rows = RankedTree(type_), []
    for _ in range(data.draw(st.integers(1, 6))):
        many = data.draw(st.sampled_from([0, 1, 2, 15, 16, 17, 60, 300]))
        few = data.draw(st.lists(some, min_size=1, max_size=20))
        batch = [few[(7 * i + len(rows)) % len(few)] for i in range(many)]
        rows += batch
        tree.append(pa.array(batch, type_))
        if data.draw(st.booleans()):
            tree.drop_before(data.draw(st.integers(tree.first, tree.stop)))
        for _ in range(5):
            start = data.draw(st.integers(tree.first, tree.stop))
            stop = data.draw(st.integers(start, tree.stop))
            assert asked(tree, start, stop) == slice_slow(rows[start:stop], type_)


def test_decimals_up_to_38_digits_do_not_overflow() -> None:
    type_ = pa.decimal128(38, 0)
    tree, most = RankedTree(type_), 10**38 - 1
    tree.append(pa.array([most] * 100, pa.decimal256(39, 0)).cast(type_))
    assert not is_word(type_)
    assert tree.ask([0], [100]).integers() == [100 * most]


def test_many_questions_at_once_and_old_nodes_go() -> None:
    random = np.random.default_rng(1)
    rows = random.integers(-(2**63), 2**63 - 1, 5000)
    tree = RankedTree(pa.int64())
    for start in range(0, 5000, 50):
        tree.append(pa.array(rows[start : start + 50]))
        tree.drop_before(start - 950)
    assert tree.height <= 2 + np.log(5000) / np.log(FAN)
    starts = random.integers(tree.first, 5000, 200)
    stops = np.minimum(starts + random.integers(0, 1000, 200), 5000)
    totals = tree.ask(starts, stops)
    python = rows.tolist()
    assert totals.integers() == [sum(python[i:j]) for i, j in zip(starts, stops, strict=True)]
    assert totals.count.tolist() == (stops - starts).tolist()
    with pytest.raises(AssertionError, match="are gone"):
        tree.ask([0], [10])
