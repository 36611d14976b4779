"""A relation through random statements, folds, merges and reopenings, against the sum of its signs.

Statements may name any instant; those that would come before one that is there already must be refused.
"""

from __future__ import annotations

import tempfile
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import InstantPassed
from millstream.core.schema import Schema
from millstream.state.location import Location
from millstream.state.relation_log import RelationLog

SCHEMA = Schema.of(k="INT", v="STRING")
Row = tuple[int | None, str | None]
rows = st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from("xy"))
statements = st.tuples(st.integers(-2, 3), st.lists(st.tuples(rows, st.sampled_from([1, -1])), min_size=1, max_size=4))
steps = st.lists(statements | st.sampled_from(["fold", "compact", "reopen"]), max_size=25)


def contents_slow(changes: list[tuple[int, Row, int]], at: int) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for instant, row, diff in changes:
        if instant <= at:
            counts[row] += diff
    return +counts


@settings(max_examples=40, deadline=None)
@given(steps)
def test_contents_are_the_sum_of_the_signs(steps: list[object]) -> None:
    with tempfile.TemporaryDirectory() as root, Location.open(root, buckets=1) as location:
        log, now, earliest = RelationLog.open(location, "r", SCHEMA), 0, -1
        changes: list[tuple[int, Row, int]] = []
        for step in steps:
            if step == "fold":
                # as the runtime does it, nobody deletes what is not there
                owed = [row for row, count in _signed(changes, now).items() if count < 0]
                if not owed and log.fold(now, even_if_small=True):
                    earliest = now
            elif step == "compact":
                log.compact(fan_in=2)
            elif step == "reopen":
                log = RelationLog.open(location, "r", SCHEMA)
            else:
                later, signed = step  # type: ignore[misc]
                instant = max(now + later, 0)
                columns = [pa.array([row[i] for row, _ in signed], field.type) for i, field in enumerate(SCHEMA)]
                batch, diff = pa.RecordBatch.from_arrays(columns, names=["k", "v"]), np.array([d for _, d in signed], np.int8)
                if instant <= earliest or instant < max((t for t, _, _ in changes), default=0):
                    with pytest.raises(InstantPassed):
                        log.append(batch, diff, instant)
                else:
                    log.append(batch, diff, instant)
                    changes += [(instant, row, diff) for row, diff in signed]
                    now = instant
            for at in range(max(earliest, now - 3, 0), now + 2):
                assert Counter(tuple(row.values()) for row in log.contents(at).to_pylist()) == contents_slow(changes, at)


def _signed(changes: list[tuple[int, Row, int]], at: int) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for instant, row, diff in changes:
        counts[row] += diff if instant <= at else 0
    return counts
