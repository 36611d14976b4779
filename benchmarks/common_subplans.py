"""Queries with the same join and aggregate and other HAVINGs, running what they have in common once and not: 20 of them against one.

    python benchmarks/common_subplans.py

In one process and one bucket, without Spark; each case in a process of its own.  The time is that of the median tick, reading, operators
and results together, by the processor's clock, the better of two runs in turn.  The answers are checked against DuckDB before anything
counts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb
import numpy as np
import pyarrow as pa

import millstream
from in_process import InProcess
from millstream.api import Database
from millstream.state.location import Location
from report import goal, machine, write_table

QUERIES = 20
TICK_US, TICK_ROWS, KEYS = 1_000_000, 50_000, 2_000
WINDOW_S = 10
WARM_TICKS, TICKS = 12, 20

SHAPES = {
    "aggregate": f"SELECT k, sum(v) AS n, count(*) AS c FROM s [RANGE {WINDOW_S} SECONDS] GROUP BY k HAVING sum(v) > {{least}}",
    "join and aggregate": (
        f"SELECT a.k, sum(a.v + b.w) AS n, count(*) AS c FROM s [RANGE {WINDOW_S} SECONDS] a, t [RANGE {WINDOW_S} SECONDS] b "
        "WHERE a.k = b.k GROUP BY a.k HAVING sum(a.v + b.w) > {least}"
    ),
    "join and aggregate by another key": (
        f"SELECT b.w, sum(a.v) AS n, count(*) AS c FROM s [RANGE {WINDOW_S} SECONDS] a, t [RANGE {WINDOW_S} SECONDS] b "
        "WHERE a.k = b.k GROUP BY b.w HAVING sum(a.v) > {least}"
    ),
}
LEAST = {"aggregate": (13_500, 50), "join and aggregate": (150_000, 1_000), "join and aggregate by another key": (650_000, 1_000)}
"""Of the HAVINGs: that of the first, and how much more each of the others asks.  Few groups have as much."""


def main() -> None:
    rows, goals = [], []
    for shape in SHAPES:
        runs = [[in_own_process(shape, *case) for case in ((1, True), (QUERIES, True), (QUERIES, False))] for _ in range(2)]
        one, on, off = (min(seconds) for seconds in zip(*runs, strict=True))
        rows.append(
            [shape, *(f"{seconds * 1000:.0f} ms" for seconds in (one, on, off)), f"{on / one:.2f}", f"{off / one:.2f}", f"{off / on:.2f}"]
        )
        if shape == "join and aggregate":
            goals.append(
                goal(f"{QUERIES} queries with one join and aggregate take at most 3 times one: {on / one:.2f}", reached=on <= 3 * one)
            )
    write_table(
        "common_subplans",
        "Common subplans run once",
        [
            "a tick of",
            "1 query",
            f"{QUERIES}, sharing",
            f"{QUERIES}, not sharing",
            "sharing / 1",
            "not sharing / 1",
            "not sharing / sharing",
        ],
        rows,
        f"in one process, 1 bucket, {TICK_ROWS:,} rows of s and {TICK_ROWS // 100} of t a tick; {machine()}",
        goals,
    )


def in_own_process(shape: str, queries: int, share: bool) -> float:
    case = json.dumps({"shape": shape, "queries": queries, "share": share})
    done = subprocess.run([sys.executable, __file__, "--case", case], check=True, capture_output=True, text=True)
    found: float = json.loads(done.stdout.splitlines()[-1])
    return found


def run_case(shape: str, queries: int, share: bool) -> float:
    with tempfile.TemporaryDirectory() as directory, opened(directory, share=share) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts")
        db.execute("CREATE STREAM t (ts TIMESTAMP, k BIGINT, w BIGINT) TIMESTAMP BY ts")
        first, more = LEAST[shape]
        least = [first + more * i for i in range(queries)]
        standing = [db.execute(SHAPES[shape].format(least=bound)) for bound in least]
        seconds = []
        for tick in range(WARM_TICKS + TICKS):
            for name, column in (("s", "v"), ("t", "w")):
                db.insert(name, rows_of(name, tick).rename_columns(["ts", "k", column]))
            db.advance((tick + 1) * TICK_US - 1)
            began = time.process_time()
            db.flush()
            seconds.append(time.process_time() - began)
        assert (len([part for part in db.sharing() if part.kind == "operator"]) > 0) == (share and queries > 1)
        for query, bound in zip(standing, least, strict=True):
            assert isinstance(query, millstream.Query)
            check(query, shape, bound, WARM_TICKS + TICKS)
        return statistics.median(seconds[WARM_TICKS:])


def opened(directory: str, *, share: bool) -> Database:
    return Database(Location.open(directory, buckets=1), InProcess(), share_subplans=share)


def rows_of(stream: str, tick: int) -> pa.Table:
    rng = np.random.default_rng([tick, stream == "s"])
    count = TICK_ROWS if stream == "s" else TICK_ROWS // 100
    ts = tick * TICK_US + np.sort(rng.integers(0, 20, count)) * (TICK_US // 20)
    return pa.table(
        [pa.array(ts, pa.timestamp("us", "UTC")), rng.integers(0, KEYS, count), rng.integers(0, 100, count)], names=["ts", "k", "x"]
    )


def check(query: millstream.Query, shape: str, least: int, ticks: int) -> None:
    con = duckdb.connect()
    low, high = query.frontier - WINDOW_S * 1_000_000, query.frontier
    for name, column in (("s", "v"), ("t", "w")):
        rows = pa.concat_tables([rows_of(name, tick) for tick in range(ticks)]).rename_columns(["ts", "k", column])
        con.register(f"all_{name}", rows)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM all_{name} WHERE epoch_us(ts) BETWEEN {low} AND {high}")
    con.register("ours", query.result())
    right = SHAPES[shape].format(least=least).replace(f"[RANGE {WINDOW_S} SECONDS]", "")
    assert con.sql(f"SELECT count(*) FROM ((SELECT * FROM ours) EXCEPT ALL ({right}))").fetchall() == [(0,)]
    assert con.sql(f"SELECT count(*) FROM (({right}) EXCEPT ALL (SELECT * FROM ours))").fetchall() == [(0,)]


if __name__ == "__main__":
    if "--case" in sys.argv:
        print(json.dumps(run_case(**json.loads(sys.argv[-1]))))
    else:
        main()
