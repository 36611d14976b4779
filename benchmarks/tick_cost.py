"""What a tick costs on Spark: when there is nothing to do, and when the window grows while the tick stays the same.

    python benchmarks/tick_cost.py

Empty tick: the frontier moves, no row enters or leaves.  Fixed tick: 100,000 rows of 10,000 keys enter and as many
leave, per-row sliding sum and count, with a window of 1, 10 and 60 minutes at the same rate.  The answer is checked
against DuckDB before times count; medians of all ticks after the window has filled.
"""

from __future__ import annotations

import statistics
import time

import duckdb
import numpy as np
import pyarrow as pa

import millstream
from report import goal, machine, write_table

KEYS, TICK_ROWS, TICK_US = 10_000, 100_000, 30_000_000
MINUTE_US = 60_000_000


def main() -> None:
    empty_ms = empty_tick()
    seconds = {minutes: fixed_tick(minutes) for minutes in (1, 10, 60)}
    rows = [["empty tick", f"{empty_ms:.0f} ms", ""]]
    rows += [[f"{TICK_ROWS:,} rows, window {m} min", f"{1000 * s:.0f} ms", f"{s / seconds[1]:.2f}"] for m, s in seconds.items()]
    worst = max(seconds.values()) / seconds[1]
    goals = [
        goal(f"an empty tick below 150 ms: {empty_ms:.0f} ms", reached=empty_ms < 150),
        goal(f"a tick costs at most 1.3 times as much with a window of 60 minutes as with one of 1: {worst:.2f}", reached=worst <= 1.3),
    ]
    write_table("tick_cost", "What a tick costs", ["tick", "median", "times the 1-minute window"], rows, machine(), goals)


def empty_tick() -> float:
    with millstream.connect(tick_interval=None) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts")
        query = db.execute("SELECT k, sum(v) AS s FROM s [RANGE 10 MINUTES] GROUP BY k")
        db.insert("s", [(0, 1, 1)])
        db.flush()
        took = []
        for i in range(1, 60):
            db.advance(i * 1000)
            began = time.perf_counter()
            db.flush()
            took.append(time.perf_counter() - began)
        assert query.result().to_pylist() == [{"k": 1, "s": 1}]
        return 1000 * statistics.median(took[10:])


def fixed_tick(minutes: int) -> float:
    rng = np.random.default_rng(0)
    window_ticks = minutes * MINUTE_US // TICK_US
    with millstream.connect(tick_interval=None) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts PARTITION BY k")
        query = db.execute(f"SELECT k, sum(v) AS s, count(*) AS n FROM s [RANGE {minutes} MINUTES] GROUP BY k")
        took, tables = [], []
        for i in range(window_ticks + 15):
            ts = i * TICK_US + np.arange(TICK_ROWS) * TICK_US // TICK_ROWS
            stamps = pa.array(ts, pa.timestamp("us", "UTC"))
            tables.append(pa.table({"ts": stamps, "k": rng.integers(0, KEYS, TICK_ROWS), "v": rng.integers(0, 1000, TICK_ROWS)}))
            began = time.perf_counter()
            db.insert("s", tables[-1])
            db.flush()
            took.append(time.perf_counter() - began)
        check(query, pa.concat_tables(tables[-window_ticks - 2 :]), minutes)
        return statistics.median(took[window_ticks + 2 :])


def check(query: millstream.Query, rows: pa.Table, minutes: int) -> None:
    con = duckdb.connect()
    con.register("rows", rows)
    con.register("ours", query.result())
    low, high = query.frontier - minutes * MINUTE_US, query.frontier
    right = f"SELECT k, sum(v)::BIGINT AS s, count(*) AS n FROM rows WHERE epoch_us(ts) BETWEEN {low} AND {high} GROUP BY k"
    assert con.sql(f"SELECT count(*) FROM (SELECT * FROM ours EXCEPT {right})").fetchall() == [(0,)]
    assert con.sql(f"SELECT count(*) FROM (({right}) EXCEPT SELECT * FROM ours)").fetchall() == [(0,)]


if __name__ == "__main__":
    main()
