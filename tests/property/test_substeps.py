"""Cuts of a step: nothing lost, nothing twice, each part within its span of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.runtime.substeps import substeps

SCHEMA = Schema.of(n="BIGINT")


def batch(instants: list[int]) -> SignedBatch:
    rows = pa.RecordBatch.from_pydict({"n": range(len(instants))}, schema=SCHEMA.to_arrow())
    return SignedBatch.arrivals(np.array(sorted(instants), np.int64), rows)


@given(inputs=st.lists(st.lists(st.integers(0, 20), max_size=30), min_size=1, max_size=3), rows=st.integers(1, 40))
def test_the_parts_are_the_whole_and_lie_between_the_cuts(inputs: list[list[int]], rows: int) -> None:
    batches = [batch(instants) for instants in inputs]
    parts = list(substeps(batches, 20, rows))
    assert parts[-1][1] == 20
    cuts = [upto for _, upto in parts]
    assert cuts == sorted(set(cuts))
    for i, whole in enumerate(batches):
        assert [change for part, _ in parts for change in part[i].changes()] == list(whole.changes())
        for (part, upto), after in zip(parts, [-1, *cuts[:-1]], strict=True):
            assert all(after < instant <= upto for instant in part[i].instant.tolist())
