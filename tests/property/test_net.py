"""NetOp against the definition: the bag at every instant stays, and nothing is left to cancel."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.net import NetOp, netted
from property.histories import History, assert_netted, contents_at, histories, run

SCHEMAS = [
    Schema.of(a="INT"),
    Schema.of(a="BOOLEAN", b="STRING"),
    Schema.of(a="DOUBLE", b="DECIMAL(38,3)", c="DATE"),
    Schema.of(a="ARRAY<DOUBLE>", b="BOOLEAN"),
    Schema.of(a="STRUCT<x:STRING,y:ARRAY<INT>>"),
    Schema.of(a="MAP<STRING,INT>"),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_net_changes_add_up_to_the_same_and_are_netted(schema: Schema, data: st.DataObject) -> None:
    history: History = data.draw(histories(schema))
    told = run(NetOp(schema), history)
    assert_netted(told)
    for now in history.instants():
        assert contents_at(told, now) == contents_at(history.changes, now)
    assert repr(told) == repr(run(NetOp(schema), history.uncut()))


def test_nothing_to_net_is_nothing_to_do() -> None:
    schema = Schema.of(a="INT")
    history = History(schema, ((1, 1, (5,)), (2, -1, (5,)), (2, -1, (5,))), frozenset())
    batch, frontier = history.steps()[0]
    assert NetOp(schema).step(batch, frontier) is batch


def test_what_lies_under_a_null_does_not_count() -> None:
    under = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\0"), pa.py_buffer(np.array([7, 8]))])
    rows = pa.RecordBatch.from_arrays([under, pa.array(["a", "a"])], names=["a", "b"])
    assert len(netted(SignedBatch(np.array([1, 1]), np.array([1, -1], np.int8), rows))) == 0


def test_rows_that_end_at_another_time_are_others() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([5, 5, 5])], names=["a"])
    instant, sign = np.array([1, 1, 1]), np.array([1, -1, -1], np.int8)
    assert netted(SignedBatch(instant, sign, rows, np.array([7, 8, 7]))).ends.tolist() == [8]


def test_rows_with_equal_numbers_are_compared_in_full() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([5, 5, 6]), pa.array(["a", "b", "a"])], names=["a", "b"])
    batch = SignedBatch(np.array([1, 1, 1]), np.array([1, -1, -1], np.int8), rows)
    assert netted(batch) is batch


def test_only_the_rows_of_one_instant_cancel() -> None:
    """A row of each sign at many instants, so that what was seen at one lies where the next looks."""
    random = np.random.default_rng(0)
    instant = np.sort(random.integers(0, 300, 2000))
    sign, values = random.choice([-1, 1], 2000).astype(np.int8), random.integers(0, 9, 2000)
    changes = SignedBatch(instant, sign, pa.RecordBatch.from_arrays([pa.array(values)], names=["a"]))
    net: Counter[tuple[int, int]] = Counter()
    for at, one, value in zip(instant.tolist(), sign.tolist(), values.tolist(), strict=True):
        net[at, value] += one
    left: Counter[tuple[int, int]] = Counter()
    for at, one, (value,) in netted(changes).changes():
        assert one * net[at, value] > 0
        left[at, value] += one
    assert left == Counter({row: count for row, count in net.items() if count})
