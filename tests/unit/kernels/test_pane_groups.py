"""Rows by pane and group, against dictionaries."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.kernels.pane_groups import PaneGroups

NUMBERS = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**58, -(2**58)]))
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), NUMBERS), min_size=1, max_size=40)


@settings(max_examples=200)
@given(ROWS)
def test_groups_and_what_they_add_up_to(rows: list[tuple[int, int, int | None]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    last, codes = (np.array([row[place] for row in rows]) for place in (0, 1))
    groups = PaneGroups(last, codes, 5)
    expected: dict[tuple[int, int], list[int]] = {}
    for pane, code, value in rows:
        expected.setdefault((pane, code), []).extend([] if value is None else [value])
    assert list(zip(last[groups.first].tolist(), codes[groups.first].tolist(), strict=True)) == list(expected)
    column = pa.array([row[2] for row in rows], pa.int64())
    assert groups.added_up(column, "sum").to_pylist() == [sum(values) if values else None for values in expected.values()]
    assert groups.added_up(column, "count").to_pylist() == [len(values) for values in expected.values()]
    sizes = [sum((pane, code) == key for pane, code, _ in rows) for key in expected]
    assert groups.added_up(column, "count_all").to_pylist() == sizes
    assert groups.added_up(column, "min").to_pylist() == [min(values, default=None) for values in expected.values()]
    exact = groups.added_up(column.cast(pa.decimal128(38, 0)), "sum").to_pylist()
    assert exact == [Decimal(sum(values)) if values else None for values in expected.values()]


def test_narrow_integers_are_added_up_as_wide_ones() -> None:
    groups = PaneGroups(np.zeros(3, np.int64), np.zeros(3, np.int64), 1)
    assert groups.added_up(pa.array([127, 127, None], pa.int8()), "sum").to_pylist() == [254]
