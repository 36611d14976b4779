"""Rows beyond the frontier: released in (ts, arrival) order, each once, whatever the cuts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.pending import PendingRows

SCHEMA = Schema.of(arrival="BIGINT")


@given(st.lists(st.tuples(st.lists(st.integers(0, 20), max_size=5), st.integers(-1, 22)), max_size=30))
def test_released_as_if_sorted_all_the_time(steps: list[tuple[list[int], int]]) -> None:
    pending, waiting, arrivals = PendingRows(SCHEMA), [], 0
    for stamps, frontier in steps:
        numbered = [(ts, arrivals + i) for i, ts in enumerate(stamps)]
        arrivals += len(stamps)
        rows = pa.RecordBatch.from_pydict({"arrival": pa.array([n for _, n in numbered], pa.int64())})
        pending.add(SignedBatch.arrivals(np.array(stamps, np.int64), rows))
        waiting = sorted(waiting + numbered)
        due, waiting = [row for row in waiting if row[0] <= frontier], [row for row in waiting if row[0] > frontier]
        released = pending.release(frontier)
        assert list(zip(released.instant.tolist(), released.rows.column(0).to_pylist(), strict=True)) == due
        assert len(pending) == len(waiting)
