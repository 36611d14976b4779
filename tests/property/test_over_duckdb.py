"""What OVER means, asked of another database: DuckDB's answer over the same rows, ties written out."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.over import OverOp
from millstream.plan.ordering import WHOLE, Frame, OverCall, SortKey
from property.histories import bag

SCHEMA = Schema.of(k="STRING", n="BIGINT", x="BIGINT")
RUNNING = Frame("rows", None, 0)
EDGES = {-2: "2 PRECEDING", -1: "1 PRECEDING", 0: "CURRENT ROW", 1: "1 FOLLOWING", 2: "2 FOLLOWING"}
ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, 2, 4, None]), st.sampled_from([1, 2, 3, None]))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    start, stop = sorted(draw(st.tuples(st.sampled_from(sorted(EDGES)), st.sampled_from(sorted(EDGES)))))
    unit = draw(st.sampled_from(["rows", "range"]))
    return Frame(unit, draw(st.sampled_from([start, None])), draw(st.sampled_from([stop, None])))


def call_sql(call: OverCall, key: SortKey) -> str:
    sort = f"n {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
    ties = ", k ASC NULLS FIRST, x ASC NULLS FIRST" if call.tells_ties_apart else ""
    arguments = [part for part in (call.argument, str(call.parameter) if call.parameter else None) if part]
    own = call.function in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead")
    start = "UNBOUNDED PRECEDING" if call.frame.start is None else EDGES[int(call.frame.start)]
    stop = "UNBOUNDED FOLLOWING" if call.frame.stop is None else EDGES[int(call.frame.stop)]
    frame = "" if own else f"{call.frame.unit.upper()} BETWEEN {start} AND {stop}"
    inside = ", ".join(arguments) or ("*" if call.function == "count" else "")
    return f"{call.function}({inside}) OVER (PARTITION BY k ORDER BY {sort}{ties} {frame})"


@settings(max_examples=120, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=12), key=st.builds(SortKey, st.just("n"), st.booleans(), st.booleans()), data=st.data())
def test_answers_are_those_of_duckdb(rows: list[tuple[Any, ...]], key: SortKey, data: st.DataObject) -> None:
    frame, other = data.draw(frames()), data.draw(frames())
    by_rows = Frame("rows", other.start, other.stop)
    integer, bigint, double = pa.int32(), pa.int64(), pa.float64()
    calls = [
        OverCall("a", "count", None, bigint, frame), OverCall("b", "count", "x", bigint, frame), OverCall("c", "sum", "x", bigint, frame),
        OverCall("d", "avg", "x", double, frame), OverCall("e", "min", "x", bigint, frame), OverCall("f", "max", "x", bigint, by_rows),
        OverCall("g", "row_number", None, integer, RUNNING), OverCall("h", "rank", None, integer, RUNNING),
        OverCall("i", "dense_rank", None, integer, RUNNING), OverCall("j", "percent_rank", None, double, WHOLE),
        OverCall("l", "cume_dist", None, double, WHOLE), OverCall("m", "ntile", None, integer, WHOLE, 2),
        OverCall("o", "lag", "x", bigint, Frame("rows", -1, -1), 1), OverCall("p", "lead", "x", bigint, Frame("rows", 2, 2), 2),
        OverCall("q", "first_value", "x", bigint, by_rows), OverCall("r", "last_value", "x", bigint, by_rows),
        OverCall("s", "nth_value", "x", bigint, by_rows, 2),
    ]  # fmt: skip
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow())
    ours = OverOp(SCHEMA, ("k",), (key,), calls).step(SignedBatch.arrivals(np.zeros(len(rows), np.int64), batch), 0)
    connection = duckdb.connect()
    connection.register("t", pa.table(batch))
    theirs = connection.execute(f"SELECT k, n, x, {', '.join(call_sql(call, key) for call in calls)} FROM t").fetchall()
    assert bag(row for _, _, row in ours.changes()) == bag(theirs)
