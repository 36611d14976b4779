"""What a change costs OVER and the first rows of an order: how many a second, and whether the cost grows with what is kept.

    python benchmarks/over_functions.py

Throughput: 10,000 partitions, a sliding window, each step as many rows enter as leave.  Growth: rows are appended to 50 partitions
that hold 60 times as many as at first; and where a result is the same for a whole partition, it stays as it is.  Answers are
checked against DuckDB before times count; processor time, medians of several steps.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch, concat
from millstream.operators.operator import Operator
from millstream.operators.over import OverOp
from millstream.operators.top_k import TopKOp
from millstream.plan.ordering import WHOLE, Frame, OverCall, SortKey
from report import goal, machine, write_table

Ints = npt.NDArray[np.int64]

SCHEMA = Schema.of(ts="TIMESTAMP", k="BIGINT", x="BIGINT")
BY_TIME = (SortKey("ts"),)
RUNNING, UP_TO_PEERS = Frame("rows", None, 0), Frame("range", None, 0)
BIGINT, INT = pa.int64(), pa.int32()
OVER = "OVER (PARTITION BY k ORDER BY ts)"

Case = tuple[str, Callable[[], Operator]]


def over(function: str, argument: str | None, type_: pa.DataType, frame: Frame, parameter: int = 0) -> Callable[[], Operator]:
    return lambda: OverOp(SCHEMA, ("k",), BY_TIME, (OverCall("r", function, argument, type_, frame, parameter),))


SLIDING: list[Case] = [
    (f"lag(x) {OVER}", over("lag", "x", BIGINT, Frame("rows", -1, -1), 1)),
    ("sum(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)", over("sum", "x", BIGINT, Frame("rows", -3, 0))),
    (f"row_number() {OVER}", over("row_number", None, INT, RUNNING)),
    ("top 3 by ts", lambda: TopKOp(SCHEMA, ("k",), BY_TIME, 3)),
]
APPENDED: list[Case] = [
    (f"sum(x) {OVER}", over("sum", "x", BIGINT, UP_TO_PEERS)),
    (f"max(x) {OVER}", over("max", "x", BIGINT, UP_TO_PEERS)),
    (f"first_value(x) {OVER}", over("first_value", "x", BIGINT, UP_TO_PEERS)),
    (f"rank() {OVER}", over("rank", None, INT, RUNNING)),
    (f"dense_rank() {OVER}", over("dense_rank", None, INT, RUNNING)),
    (f"row_number() {OVER}", over("row_number", None, INT, RUNNING)),
    (f"lag(x) {OVER}", over("lag", "x", BIGINT, Frame("rows", -1, -1), 1)),
    ("max(x) OVER (PARTITION BY k)", over("max", "x", BIGINT, WHOLE)),
    ("first_value(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
     over("first_value", "x", BIGINT, WHOLE)),
]  # fmt: skip


def arrivals(first: int, count: int, partitions: int, rng: np.random.Generator) -> SignedBatch:
    ts = first + np.arange(count)
    x = rng.integers(0, 1000, count)
    x[ts < partitions] = 1000  # the greatest value is there from the beginning, and stays
    columns = [pa.array(ts, pa.timestamp("us", "UTC")), pa.array(ts % partitions), pa.array(x)]
    return SignedBatch.arrivals(ts, pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow()))


def sliding(make: Callable[[], Operator], text: str, *, partitions: int = 10_000, held: int = 200_000, step: int = 50_000) -> float:
    """Changes a second, once the window is full."""
    rng, operator, took = np.random.default_rng(0), make(), []
    chunks: list[SignedBatch] = []
    out: list[SignedBatch] = []
    for i in range(held // step + 6):
        arriving = arrivals(i * step, step, partitions, rng)
        chunks.append(arriving)
        batch = arriving
        if len(chunks) > held // step:
            left = chunks[len(chunks) - held // step - 1]
            order = np.argsort(np.concatenate([arriving.instant, left.instant + held]), kind="stable")
            gone = SignedBatch(left.instant + held, -left.sign, left.rows)
            batch = concat([arriving, gone]).take(order)
        began = time.process_time()
        out.append(operator.step(batch, (i + 1) * step))
        took.append(len(batch) / (time.process_time() - began))
    check(text, out, chunks[-(held // step) :])
    return statistics.median(took[held // step + 1 :])


def appending(make: Callable[[], Operator], text: str, *, partitions: int = 50, step: int = 2_000) -> tuple[float, float]:
    """Seconds of a step while few rows are kept, and when there are 60 times as many."""
    make().step(arrivals(0, step, partitions, np.random.default_rng(0)), step)  # loads what is compiled
    rng, operator, took = np.random.default_rng(0), make(), []
    chunks = [arrivals(i * step, step, partitions, rng) for i in range(4 + 60 * 4)]
    out = []
    for i, batch in enumerate(chunks):
        began = time.process_time()
        out.append(operator.step(batch, (i + 1) * step))
        took.append(time.process_time() - began)
    check(text, out, chunks)
    return statistics.median(took[1:8]), statistics.median(took[-20:])


def check(text: str, out: Sequence[SignedBatch], held: Sequence[SignedBatch]) -> None:
    """The sum of all changes is what DuckDB says about the rows that are held."""
    changes, con = concat(out), duckdb.connect()
    con.register("held", pa.Table.from_batches([batch.rows for batch in held]))
    con.register("changes", pa.Table.from_batches([changes.rows]).append_column("_sign", pa.array(changes.sign)))
    if text.startswith("top"):
        right = "SELECT * FROM held QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts) <= 3"
    else:
        right = f"SELECT *, {text} AS r FROM held"
    columns = "ts, k, x" if text.startswith("top") else "ts, k, x, r"
    ours = f"SELECT {columns} FROM changes GROUP BY {columns} HAVING sum(_sign) = 1"
    odd = f"SELECT count(*) FROM (SELECT sum(_sign) AS n FROM changes GROUP BY {columns}) WHERE n NOT IN (0, 1)"
    assert con.sql(odd).fetchall() == [(0,)], text
    assert con.sql(f"SELECT count(*) FROM (({ours}) EXCEPT ({right}))").fetchall() == [(0,)], text
    assert con.sql(f"SELECT count(*) FROM (({right}) EXCEPT ({ours}))").fetchall() == [(0,)], text


def main() -> None:
    rows, goals = [], []
    for text, make in SLIDING:
        rows.append([text, "sliding", f"{sliding(make, text) / 1000:,.0f} thousand changes/s", ""])
    for text, make in APPENDED:
        few, many = appending(make, text)
        rows.append([text, "appended", f"{1000 * many:.1f} ms for 2,000 rows", f"{many / few:.2f}"])
        goals.append(goal(f"{text} costs at most 1.5 times as much with 60 times the rows: {many / few:.2f}", reached=many <= 1.5 * few))
    write_table("over_functions", "What a change costs OVER", ["call", "input", "cost", "times that of a 60th"], rows, machine(), goals)


if __name__ == "__main__":
    main()
