"""How long a restart takes with 10,000,000 rows in a window: from its snapshot, and from the log alone.

    python benchmarks/recovery.py

A stream of 30,000,000 rows, of which the window holds the last third, and a query over it.  Each restart is a process of its own: the time
runs from opening the database (Spark is up) to the first answer, which is checked against DuckDB.  `sum` keeps little beside the window,
whose rows are read from the log; `min` and `max` keep every value, so their snapshots are as large as the window.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import millstream
from millstream.runtime import rounds
from millstream.spark.session import create_session
from report import goal, machine, write_table

ROWS, WINDOW_ROWS, BATCH, KEYS = 30_000_000, 10_000_000, 1_000_000, 10_000
STEP_US = 10  # between rows
QUERIES = {"sum and count": "sum(v) AS a, count(*) AS b", "min and max": "min(v) AS a, max(v) AS b"}


def main() -> None:
    rows, goals = [], []
    for name, select in QUERIES.items():
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            fill(place, select)
            took = {how: restarted(place, how) for how in ("snapshot", "log", "snapshot", "log")}  # the second time with warm files
        ratio = took["log"] / took["snapshot"]
        rows.append([name, f"{took['snapshot']:.1f} s", f"{took['log']:.1f} s", f"{ratio:.1f}"])
        goals.append(goal(f"{name}: a restart is faster with the snapshot than without: {ratio:.1f} times", reached=ratio > 1))
    note = f"{ROWS:,} rows in the log, {WINDOW_ROWS:,} in the window, {KEYS:,} keys; {machine()}"
    write_table(
        "recovery", "Restarts with a large window", ["query", "with its snapshot", "from the log alone", "times"], rows, note, goals
    )


def fill(place: Path, select: str) -> None:
    rng = np.random.default_rng(0)
    with millstream.connect(place / "db", tick_interval=None) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts PARTITION BY k")
        window = f"[RANGE {WINDOW_ROWS * STEP_US} MICROSECONDS]"
        db.execute(f"CREATE QUERY q AS SELECT k, {select} FROM s {window} GROUP BY k")
        for start in range(0, ROWS, BATCH):
            ts = pa.array((start + np.arange(BATCH)) * STEP_US, pa.timestamp("us", "UTC"))
            table = pa.table({"ts": ts, "k": rng.integers(0, KEYS, BATCH), "v": rng.integers(0, 1 << 40, BATCH)})
            db.insert("s", table)
            db.flush()
            if start >= ROWS - WINDOW_ROWS - BATCH:
                pq.write_table(table, place / f"{start:09d}.parquet")


def restarted(place: Path, how: str) -> float:
    process = subprocess.run([sys.executable, __file__, str(place), how], capture_output=True, text=True, check=True)
    return float(process.stdout.splitlines()[-1])


def restart(place: Path, how: str) -> None:
    rounds.SNAPSHOT_TICKS = 1 << 60  # a snapshot after this one would take the place of that of the workload
    spark = create_session("local[*]")
    with millstream.connect(spark=spark, tick_interval=None) as warm:  # Spark and its workers are up
        warm.execute("CREATE STREAM w (ts TIMESTAMP) TIMESTAMP BY ts")
        warm.execute("SELECT count(*) AS n FROM w [RANGE 1 SECOND]")
        warm.insert("w", [(0,), (1,)])
        warm.flush()
        began = time.perf_counter()
        with millstream.connect(place / "db", spark=spark, tick_interval=None) as db:
            if how == "log":
                db._engine.queries["q"].snapshot = None
            answer = db.query("q").result()
            took = time.perf_counter() - began
            check(db.query("q"), answer, place)
    print(took)


def check(query: millstream.Query, answer: pa.Table, place: Path) -> None:
    con = duckdb.connect()
    con.register("ours", answer)
    low, high = query.frontier - WINDOW_ROWS * STEP_US, query.frontier
    shown = "sum(v)::BIGINT, count(*)" if "sum" in query.sql else "min(v), max(v)"
    right = f"SELECT k, {shown} FROM '{place}/*.parquet' WHERE epoch_us(ts) BETWEEN {low} AND {high} GROUP BY k"
    assert con.sql(f"SELECT count(*) FROM (SELECT * FROM ours EXCEPT {right})").fetchall() == [(0,)]
    assert con.sql(f"SELECT (SELECT count(*) FROM ours) = (SELECT count(*) FROM ({right}))").fetchall() == [(True,)]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        restart(Path(sys.argv[1]), sys.argv[2])
    else:
        main()
