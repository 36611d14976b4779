"""A projection that shows less of a row leaves out changes of which nothing is left to see, and no others."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import open_inline
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.evaluator import Evaluator
from millstream.operators.row_wise import ProjectOp
from millstream.plan.physical import ComputedColumn
from property.examples import examples

SCHEMA = Schema.of(i="INT", t="STRING", d="DECIMAL(5, 1)")
ROW = st.tuples(st.sampled_from([1, 2, None]), st.sampled_from(["", "x", None]), st.sampled_from([Decimal("0.5"), Decimal("1.5"), None]))
CHANGE = st.tuples(st.integers(0, 1), st.sampled_from([-1, 1]), ROW)


def changes_of(given_: list[tuple[int, int, tuple[Any, ...]]]) -> SignedBatch:
    instants = np.cumsum([step for step, _, _ in given_], dtype=np.int64)
    columns = zip(*(row for _, _, row in given_), strict=True)
    rows = pa.RecordBatch.from_arrays(
        [pa.array(list(values), field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA.to_arrow()
    )
    return SignedBatch(instants, np.array([sign for _, sign, _ in given_], np.int8), rows)


def net(batch: SignedBatch) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for instant, sign, row in zip(batch.instant.tolist(), batch.sign.tolist(), batch.rows.to_pylist(), strict=True):
        found[instant, *row.values()] += sign
    return Counter({change: count for change, count in found.items() if count})


def projected(batch: SignedBatch, names: list[str], *, may_be_idle: bool) -> SignedBatch:
    columns = [ComputedColumn(name, f'"{name}"', SCHEMA[name].type) for name in names]
    schema = Schema(tuple(SCHEMA[name] for name in names))
    return ProjectOp(schema, columns, Evaluator(), may_be_idle=may_be_idle).step(batch, 100)


@settings(max_examples=examples(100))
@given(st.lists(CHANGE, min_size=1, max_size=12), st.sampled_from([["i"], ["t"], ["d"], ["i", "t"], ["t", "d"]]))
def test_each_instant_is_the_same_in_the_end(given_: list[tuple[int, int, tuple[Any, ...]]], names: list[str]) -> None:
    batch = changes_of(given_)
    some, every = projected(batch, names, may_be_idle=True), projected(batch, names, may_be_idle=False)
    assert net(some) == net(every)
    assert len(some) <= len(every)


def test_an_update_that_does_not_show_is_left_out() -> None:
    batch = changes_of(
        [(0, -1, (1, "a", None)), (0, 1, (1, "b", None)), (0, -1, (2, "a", None)), (0, 1, (1, "a", None)), (1, 1, (1, "a", None))]
    )
    assert projected(batch, ["i"], may_be_idle=True).rows["i"].to_pylist() == [2, 1, 1]
    assert len(projected(batch, ["i"], may_be_idle=False)) == 5


def test_what_ends_by_itself_is_not_cancelled_by_what_stays() -> None:
    batch = changes_of([(0, -1, (1, "a", None)), (0, 1, (1, "b", None))])
    ending = SignedBatch(batch.instant, batch.sign, batch.rows, np.array([5, 9], np.int64))
    assert len(projected(ending, ["i"], may_be_idle=True)) == 2


def test_two_zeros_are_two_values() -> None:
    schema = Schema.of(x="DOUBLE")
    rows = pa.RecordBatch.from_arrays([pa.array([-0.0, 0.0])], schema=schema.to_arrow())
    batch = SignedBatch(np.zeros(2, np.int64), np.array([-1, 1], np.int8), rows)
    op = ProjectOp(schema, [ComputedColumn("x", '"x"', schema["x"].type)], Evaluator(), may_be_idle=True)
    assert len(op.step(batch, 1)) == 2


@pytest.mark.parametrize("type_", ["VOID", "INTERVAL", "ARRAY<INT>"])
def test_what_arrow_cannot_compare_stays_as_it_is(type_: str) -> None:
    schema = Schema.of(x=type_)
    rows = pa.RecordBatch.from_arrays([pa.nulls(2, schema["x"].type)], schema=schema.to_arrow())
    batch = SignedBatch(np.zeros(2, np.int64), np.array([-1, 1], np.int8), rows)
    op = ProjectOp(schema, [ComputedColumn("x", '"x"', schema["x"].type)], Evaluator(), may_be_idle=True)
    assert len(op.step(batch, 1)) == 2


def test_a_column_of_nothing_over_groups(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts")
        query = db.execute("SELECT t > 100 AS large, NULL AS nothing FROM (SELECT k, sum(v) AS t FROM s [RANGE 10 SECONDS] GROUP BY k)")
        db.insert("s", [(1_000_000, 1, 5), (2_000_000, 1, 6)])
        db.advance(3_000_000)
        db.flush()
        assert query.result().to_pylist() == [{"large": False, "nothing": None}]
