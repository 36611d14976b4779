"""Rows sorted out, however they are handed over: each is taken as it would be alone, or rejected for its own reason alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import MillstreamError
from millstream.core.instant import LAST
from millstream.core.schema import Schema
from millstream.runtime.row_times import RowTimes
from millstream.runtime.rows import table_of
from millstream.runtime.sorting_out import sorted_out

SCHEMA = Schema.of(ts="TIMESTAMP", k="STRING", v="TINYINT", d="DOUBLE")
TIMES = RowTimes("s", "ts", 1000, max_ahead_us=500)

STAMPS = st.sampled_from([0, 1, 1500, 1501, None, LAST + 1, -(2**62), "noon", 1.5])
VALUES = st.sampled_from([0, 127, 128, -128, -129, None, 1.0, 1.5, float("nan"), float("inf"), "x", True])
TEXTS = st.sampled_from(["a", "", None, "\ud800", 5, b"b"])
DOUBLES = st.sampled_from([0.0, float("nan"), float("-inf"), 10**400, None, "x", 3])
ROWS = st.lists(
    st.one_of(st.tuples(STAMPS, TEXTS, VALUES, DOUBLES), st.sampled_from([(), (0,), "row", None, {"ts": 1, "w": 1}, {"v": 1}])), max_size=12
)


def alone_slow(row: Any) -> dict[str, Any] | None:
    """What is taken of the row, by itself; None if it is refused."""
    try:
        table = table_of([row], SCHEMA, "s")
        TIMES.check(table)
    except MillstreamError:
        return None
    return table.to_pylist()[0]


@settings(max_examples=300)
@given(ROWS)
def test_a_row_is_judged_by_itself(rows: list[Any]) -> None:
    part = sorted_out(rows, SCHEMA, TIMES, str)
    alone = [alone_slow(row) for row in rows]
    assert repr(part.rows.to_pylist()) == repr([row for row in alone if row is not None])
    assert [letter.source for letter in part.rejected] == [str(i) for i, row in enumerate(alone) if row is None]
    assert [letter.row for letter in part.rejected] == [repr(rows[i]) for i, row in enumerate(alone) if row is None]
    assert all(letter.reason for letter in part.rejected)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1) | st.none() | st.integers(0, 2000), st.integers(-300, 300) | st.none()), max_size=40
    )
)
def test_columns_are_judged_row_by_row_too(rows: list[tuple[int | None, int | None]]) -> None:
    table = pa.table({"ts": pa.array([ts for ts, _ in rows], pa.int64()), "v": pa.array([v for _, v in rows], pa.int64())})
    part = sorted_out(table, SCHEMA, TIMES, str)
    good = [(ts, v) for ts, v in rows if ts is not None and -62_135_596_800_000_000 <= ts <= 1500 and (v is None or -128 <= v <= 127)]
    assert list(zip(part.rows.column("ts").cast(pa.int64()).to_pylist(), part.rows.column("v").to_pylist(), strict=True)) == good
    assert len(part.rejected) == len(rows) - len(good)
