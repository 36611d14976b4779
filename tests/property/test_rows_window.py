"""Windows by count against their definition: the newest n of each partition, every instant, any cut, through operator and engine."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators import rows_window
from millstream.operators.newest_rows import NewestRowsOp
from millstream.operators.rows_window import RowsWindowOp
from millstream.plan.window import RowsWindow
from property.engine_model import Action, Row, StreamModel, actions
from property.engine_run import Engine, engines, running
from property.histories import assert_netted, contents_at, no_input
from property.test_engine import FIRST, LAST, changes_of
from property.test_engine import contents_at as answer_at

SCHEMA = Schema.of(k="STRING", n="BIGINT")


def newest(rows: list[tuple[int, Any]], t: int, spec: RowsWindow, partition: int | None) -> list[Any]:
    """`rows` are (ts, row) in order of arrival."""
    seen: dict[Any, list[tuple[int, Any]]] = {}
    for ts, row in sorted((row for row in rows if row[0] <= t), key=lambda row: row[0]):  # stable: ties stay in arrival order
        seen.setdefault(None if partition is None else row[partition], []).append((ts, row))
    kept = [pair for group in seen.values() for pair in group[-spec.rows :]]
    return [row for ts, row in kept if spec.range_us is None or t - spec.range_us <= ts]


def specs() -> st.SearchStrategy[RowsWindow]:
    return st.builds(RowsWindow, st.just("ROWS"), st.integers(1, 4), st.sampled_from([(), ("k",)]), st.sampled_from([None, 0, 2, 5]))


def operator_of(spec: RowsWindow) -> RowsWindowOp | NewestRowsOp:
    return RowsWindowOp(SCHEMA, spec) if spec.partition_by else NewestRowsOp(SCHEMA, spec)


@settings(max_examples=200, deadline=None)
@given(
    arrivals=st.lists(st.tuples(st.sampled_from([0, 0, 1, 2, 7]), st.sampled_from(["a", "b", None])), max_size=40),
    spec=specs(), cuts=st.sets(st.integers(-1, 60)), saved=st.booleans(), looked=st.booleans(), sweep=st.sampled_from([1, 5, 4096]),
    most_chunks=st.sampled_from([1, 2, 32]), largest_chunk=st.sampled_from([1, 60, 1 << 28]),
)  # fmt: skip
def test_contents_equal_the_definition(
    arrivals: list[tuple[int, str | None]], spec: RowsWindow, cuts: set[int], saved: bool, looked: bool, sweep: int,
    most_chunks: int, largest_chunk: int,
) -> None:  # fmt: skip
    stamps = np.cumsum([gap for gap, _ in arrivals]).tolist()
    rows = [(ts, (k, n)) for n, (ts, (_, k)) in enumerate(zip(stamps, arrivals, strict=True))]
    with patch.multiple(rows_window, _WORTH_SWEEPING=sweep, _MOST_CHUNKS=most_chunks, _LARGEST_CHUNK=largest_chunk):
        operator, changes, after = operator_of(spec), [], -1
        for frontier in sorted(cuts | {max(stamps, default=0) + 8}):
            part = [(ts, row) for ts, row in rows if after < ts <= frontier]
            columns = {"k": [row[0] for _, row in part], "n": [row[1] for _, row in part]}
            batch = pa.RecordBatch.from_pydict(columns, schema=SCHEMA.to_arrow())
            changes += operator.step(SignedBatch.arrivals(np.array([ts for ts, _ in part], np.int64), batch), frontier).changes()
            expected = Counter(newest(rows, frontier, spec, 0 if spec.partition_by else None))
            if looked:  # which sweeps
                assert Counter(tuple(row.values()) for row in operator.contents(no_input).to_pylist()) == expected
            assert operator.state_rows() == expected.total()
            after = frontier
            if saved:
                arrays, operator = operator.save(), operator_of(spec)
                operator.load(arrays)
    assert [change[0] for change in changes] == sorted(change[0] for change in changes)
    if spec.partition_by:
        assert_netted(changes)  # no two rows are equal here
    for t in range(-1, max(stamps, default=0) + 9):
        assert contents_at(changes, t) == Counter(newest(rows, t, spec, 0 if spec.partition_by else None)), t


QUERIES = {
    "rows": ("SELECT k, v FROM s {window}", lambda rows: Counter((row[1], row[2]) for row in rows)),
    "filtered": ("SELECT k FROM s {window} WHERE v > 1", lambda rows: Counter((row[1],) for row in rows if (row[2] or 0) > 1)),
    "by key": ("SELECT k FROM s {window} WHERE k = 'a'", lambda rows: Counter((row[1],) for row in rows if row[1] == "a")),
    "grouped": ("SELECT v, count(*) AS n FROM s {window} GROUP BY v", lambda rows: Counter(Counter(row[2] for row in rows).items())),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(QUERIES))
@settings(max_examples=60)
@given(
    history=actions(), spec=specs(), slack=st.integers(0, 3), partition=st.sampled_from(["", " PARTITION BY k"]), engine=engines(),
)  # fmt: skip
def test_answers_equal_recomputation_at_every_instant(
    name: str, history: list[Action], spec: RowsWindow, slack: int, partition: str, engine: Engine
) -> None:
    sql, answer = QUERIES[name]
    window = "PARTITION BY k " if spec.partition_by else ""
    window += f"ROWS {spec.rows}" + (f" RANGE {spec.range_us} MICROSECONDS" if spec.range_us is not None else "")
    model = StreamModel(slack)
    with running(engine, {"s": model}) as run:
        run.db.execute(f"CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts SLACK {slack} MICROSECONDS{partition}")
        run.db.execute("CREATE QUERY q AS " + sql.format(window=f"[{window}]"))
        for action in history:
            run.do(action, "s")
        changes = changes_of(run.db.query("q").changes())
        assert_netted(changes)
        arrived: list[tuple[int, Row]] = [(row[0], row) for row in model.rows]
        for t in range(FIRST, min(model.frontier, LAST) + 1):
            assert answer_at(changes, t) == answer(newest(arrived, t, spec, 1 if spec.partition_by else None)), t
