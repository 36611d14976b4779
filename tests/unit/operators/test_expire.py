"""Where rows that end are taken back, by what arrives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.instant import NEVER_BEFORE
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.expire import ExpireOp

SCHEMA = Schema.of(k="STRING")


def batch(*changes: tuple[int, int, str, int]) -> SignedBatch:
    """(instant, sign, row, end)"""
    instant, sign, row, end = zip(*changes, strict=True)
    rows = pa.RecordBatch.from_arrays([pa.array(row)], schema=SCHEMA.to_arrow())
    return SignedBatch(np.array(instant), np.array(sign, np.int8), rows, np.array(end))


def test_a_row_that_comes_and_goes_at_once_tells_nothing() -> None:
    """A join makes such pairs when a row of one side comes as its partner is taken back."""
    expire = ExpireOp(SCHEMA, by_input=True)
    expire.step(batch((1, 1, "a", 5)), NEVER_BEFORE)
    assert len(expire.step(batch((6, 1, "b", 9), (6, -1, "b", 9)), NEVER_BEFORE)) == 0
    assert list(expire.step(batch((7, 1, "c", 12)), NEVER_BEFORE).changes()) == [(7, -1, ("a",)), (7, 1, ("c",))]


def test_rows_with_other_ends_do_not_cancel() -> None:
    expire = ExpireOp(SCHEMA, by_input=True)
    expire.step(batch((1, 1, "a", 9)), NEVER_BEFORE)
    expire.step(batch((6, -1, "a", 9), (6, 1, "a", 7)), NEVER_BEFORE)
    assert list(expire.step(batch((8, 1, "c", 12)), NEVER_BEFORE).changes()) == [(8, -1, ("a",)), (8, 1, ("c",))]
