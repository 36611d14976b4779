"""Each operator: rows per second on a core, alone and on Spark, and what a row costs as the window grows 60-fold.

    python benchmarks/operators.py [--only NAME] [--without-spark]

Alone: the query's circuit in this process, one core, without reading or writing anything.  Rows come at a fixed rate, so a window of
1, 10 and 60 minutes makes the same changes a step (as many rows leave as enter) while it holds 60 times as many rows.  A row's
cost is the processor time of a step of ten seconds of rows, divided by these rows: what entering and, later, leaving costs.  The
windows take turns, and of each one's turns the least median counts; what the machine does for a while, it does to all windows of a
turn, so growth is the median of the turns' own.  Rows per second come from steps ten times as long, with a window of 10 minutes.

On Spark: ten minutes of rows fill a window of 10 minutes, another ten minutes are measured, from `insert` to the
committed changelog, and divided by the cores.

Every answer is compared whole with DuckDB's, at the end of each run, before its times count.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import millstream
from millstream.core.instant import BEGINNING
from millstream.core.signed_batch import SignedBatch
from operator_cases import CASES, DDL, Case
from operator_circuits import Circuits
from operator_feed import RELATIONS, SECOND_US, Feed, Fingerprint
from report import goal, machine, write_table

MINUTES = (1, 10, 60)
STEP_S, TURNS, WARM_STEPS, STEPS = 10, 5, 2, 7
LONG_STEP_S, LONG_STEPS = 100, 4
MOST_GROWTH = 1.5
SPARK_MINUTES = 10


@dataclass(frozen=True)
class Measured:
    case: Case
    row_us: dict[int, float]  # by the window's minutes
    growth: float
    rows_a_second: float
    out_per_row: float
    spark_rows_a_second: float | None

    @property
    def verdict(self) -> str:
        if self.case.growing_output:
            return "output grows"
        return "reached" if self.growth <= MOST_GROWTH else "MISSED"

    def cells(self) -> list[str]:
        on_spark = "" if self.spark_rows_a_second is None else f"{self.spark_rows_a_second:,.0f}"
        costs = [f"{self.row_us[minutes]:.2f}" for minutes in MINUTES]
        return [
            self.case.name, f"{self.rows_a_second:,.0f}", on_spark, f"{self.out_per_row:.1f}", *costs, f"{self.growth:.2f}", self.verdict,
        ]  # fmt: skip


class InProcess:
    """One case with one window, stepped along its feed; counts and checks what comes out."""

    def __init__(self, case: Case, minutes: int) -> None:
        self.filled_s = 60 * minutes
        self.feed = Feed(case, minutes, self.filled_s + TURNS * (WARM_STEPS + STEPS) * STEP_S + LONG_STEPS * LONG_STEP_S)
        self._circuits = Circuits(statements(case, self.feed))
        self._answer = Fingerprint()
        self._at_s = 0
        self.out = 0

    def step(self, seconds: int) -> float:
        """Processor time of a step over so many seconds of rows, per row."""
        until = self._at_s + seconds
        inputs = {name: arrivals(self.feed.rows(name, self._at_s, until)) for name in self.feed.streams}
        since_ever = self._at_s == 0
        inputs |= {name: held(rows if since_ever else rows.slice(0, 0)) for name, rows in RELATIONS.items()}
        began = time.process_time()
        changes = self._circuits.step(inputs, until * SECOND_US - 1)
        took = time.process_time() - began
        self._at_s, self.out, self._schema = until, len(changes), changes.rows.schema
        self._answer.add(pa.Table.from_batches([changes.rows]), pa.array(changes.sign))
        return took / sum(len(inputs[name]) for name in self.feed.streams)

    def turn(self) -> float:
        """The median of some steps, after others that bring its state near again."""
        return statistics.median([self.step(STEP_S) for _ in range(WARM_STEPS + STEPS)][WARM_STEPS:])

    def check(self) -> None:
        self._answer.assert_is_of(self.feed.right(self._at_s * SECOND_US - 1), self._schema)


def measure(case: Case, *, on_spark: bool) -> Measured:
    runs = {minutes: InProcess(case, minutes) for minutes in MINUTES}
    for run in runs.values():
        run.step(run.filled_s)
    turns = [{minutes: run.turn() for minutes, run in runs.items()} for _ in range(TURNS)]
    row_us = {minutes: 1e6 * min(turn[minutes] for turn in turns) for minutes in MINUTES}
    growth = statistics.median(turn[MINUTES[-1]] / turn[MINUTES[0]] for turn in turns)
    run = runs[SPARK_MINUTES]
    rows_a_second = 1 / min(run.step(LONG_STEP_S) for _ in range(LONG_STEPS))
    out_per_row = run.out / (LONG_STEP_S * case.rate * len(case.streams))
    for run in runs.values():
        run.check()
    return Measured(case, row_us, growth, rows_a_second, out_per_row, spark_rate(case) if on_spark else None)


def spark_rate(case: Case) -> float:
    """Rows per second and core, from `insert` to the commit."""
    half_s = 60 * SPARK_MINUTES
    feed = Feed(case, SPARK_MINUTES, 2 * half_s)
    with millstream.connect(tick_interval=None) as db:
        for text in statements(case, feed):
            query = db.execute(text)
        for name, rows in RELATIONS.items():
            db.insert(name, rows)
        for name in case.streams:
            db.insert(name, feed.rows(name, 0, half_s))
        db.flush()
        began = time.perf_counter()
        for name in case.streams:
            db.insert(name, feed.rows(name, half_s, 2 * half_s))
        db.flush()
        took = time.perf_counter() - began
        changes, answer = query.changes(), Fingerprint()
        rows = changes.select(range(2, changes.num_columns))
        answer.add(rows, changes["diff"])
        answer.assert_is_of(feed.right(query.frontier), rows.schema)
    return len(case.streams) * half_s * case.rate / took / (os.cpu_count() or 1)


def statements(case: Case, feed: Feed) -> list[str]:
    queries = {"inner_query": case.over, "q": case.sql}
    return [
        *DDL.split(";\n")[:-1], DDL.split(";\n")[-1].rstrip(";"),
        *(f"CREATE QUERY {name} AS {feed.filled(sql)}" for name, sql in queries.items() if sql),
    ]  # fmt: skip


def arrivals(rows: pa.Table) -> SignedBatch:
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return SignedBatch.arrivals(rows["ts"].cast(pa.int64()).to_numpy(), batch)


def held(rows: pa.Table) -> SignedBatch:
    """Rows of a relation, there since ever."""
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return SignedBatch.arrivals(np.full(rows.num_rows, BEGINNING, np.int64), batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name holds this; writes no table")
    parser.add_argument("--without-spark", action="store_true", help="writes no table")
    arguments = parser.parse_args()
    found = []
    for case in CASES:
        if arguments.only in case.name:
            found.append(measure(case, on_spark=not arguments.without_spark))
            print(*found[-1].cells(), sep=" | ", flush=True)
    if not arguments.only and not arguments.without_spark:
        write_results(found)


def write_results(found: list[Measured]) -> None:
    bounded = [measured for measured in found if not measured.case.growing_output]
    missed = [measured.case.name for measured in bounded if measured.growth > MOST_GROWTH]
    text = f"a row costs at most {MOST_GROWTH} times as much in a window of 60 minutes as in one of 1, unless the output itself grows"
    header = [
        "operator", "rows/s, one core", "on Spark, per core", "rows out per row in", *(f"µs a row, {minutes} min" for minutes in MINUTES),
        "60 min / 1 min", f"at most {MOST_GROWTH}",
    ]  # fmt: skip
    goals = [
        goal(
            f"{text}: {len(bounded) - len(missed)} of {len(bounded)}" + (f"; not {', '.join(missed)}" if missed else ""), reached=not missed
        )
    ]
    write_table("operators", "Operators, one by one", header, [measured.cells() for measured in found], machine(), goals)


if __name__ == "__main__":
    main()
