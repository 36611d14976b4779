"""Sort keys: the order of keys is the order of values, and values come back."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import type_from_name
from millstream.kernels.compiled import bytes_before
from millstream.kernels.sort_keys import SortKeys
from property.histories import comparable, sort_key, values

TYPES = ["BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(18,2)", "DECIMAL(38,5)", "DATE", "TIMESTAMP", "STRING", "BINARY"]


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_keys_are_in_the_order_of_their_values(name: str, data: st.DataObject) -> None:
    type_ = type_from_name(name)
    some: list[Any] = data.draw(st.lists(values(type_)))
    sort_keys = SortKeys(type_)
    array = pa.concat_arrays([pa.array(some[:1], type_), pa.array(some, type_)]).slice(len(some[:1]))
    keys = sort_keys.keys(array)
    assert list(map(comparable, sort_keys.values(keys, np.array([v is not None for v in some], np.uint8)).to_pylist())) == list(
        map(comparable, some)
    )
    by_bytes, arena, spans = sort_keys.order

    def compare(left: int, right: int) -> int:
        if not by_bytes:
            return (left > right) - (left < right)
        one, other = spans[left].tolist(), spans[right].tolist()
        return bytes_before(arena.ctypes.data, *other, *one) - bytes_before(arena.ctypes.data, *one, *other)

    pairs = [(key, value) for key, value in zip(keys.tolist(), some, strict=True) if value is not None]
    by_key = [comparable(value) for _, value in sorted(pairs, key=lambda pair: cmp_to_key(compare)(pair[0]))]
    assert by_key == [comparable(value) for value in sorted((value for _, value in pairs), key=sort_key)]


def test_swept_keys_are_forgotten_and_others_stay() -> None:
    sort_keys = SortKeys(pa.string())
    keys = sort_keys.keys(pa.array(["a", "bb", "ccc"]))
    sort_keys.sweep(keys[1:2])
    assert sort_keys.held() == 1
    assert sort_keys.values(keys[1:2]).to_pylist() == ["bb"]
    assert sort_keys.keys(pa.array(["bb"])).tolist() == [keys[1]]
