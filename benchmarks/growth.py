"""Does a row cost more when the log is long?  Sliding sums by key while a hundred million rows come in, a million at a time, on Spark.

The log keeps all of them, the window holds 600,000.  Seconds are from `insert` to the end of `flush`; the answer at the end is checked
against numpy.  What the window's length does to the cost is in results/comparison.md (window10).

    python benchmarks/growth.py [--rows 100000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from statistics import median

import numpy as np
import pyarrow as pa

import millstream
from report import goal, machine, write_table

PIECE = 1_000_000
WINDOW_US, STEP_US = 600_000_000, 1000
KEYS = 10_000
AT_MOST = 1.3
LOOK = 5
"""So many pieces are looked at together."""


def piece(number: int) -> pa.Table:
    rng = np.random.default_rng(number)
    ts = np.arange(number * PIECE, (number + 1) * PIECE) * STEP_US
    columns = {"ts": pa.array(ts, pa.timestamp("us", "UTC")), "key": rng.integers(0, KEYS, PIECE), "value": rng.integers(0, 1000, PIECE)}
    return pa.table(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    count = parser.parse_args().rows // PIECE
    seconds = []
    with tempfile.TemporaryDirectory() as location, millstream.connect(location, tick_interval=None) as db:
        db.execute("CREATE STREAM events (ts TIMESTAMP, key BIGINT, value BIGINT) TIMESTAMP BY ts PARTITION BY key RETAIN 3 DAYS")
        query = db.execute("CREATE QUERY q AS SELECT key, sum(value) AS total FROM events [RANGE 600 SECONDS] GROUP BY key")
        for number in range(count):
            rows = piece(number)
            began = time.perf_counter()
            db.insert("events", rows)
            db.flush()
            seconds.append(time.perf_counter() - began)
            if number % 10 == 9:
                print(f"{number + 1:4d} million rows, {seconds[-1]:.2f} s for the last", flush=True)
        check(query)
    looks = sorted({LOOK, min(20, count), min(50, count), count})
    found = [(upto, median(seconds[upto - LOOK : upto])) for upto in looks]
    rows = [[f"{upto} million", f"{took:.2f}", f"{PIECE / took:,.0f}", f"{took / found[0][1]:.2f}"] for upto, took in found]
    worst = max(took for _, took in found) / found[0][1]
    goals = [
        goal(f"a row costs at most {AT_MOST} times as much with {count} million rows in the log: {worst:.2f}", reached=worst <= AT_MOST)
    ]
    header = ["rows in the log", "seconds for a million more", "rows/s", "times the first"]
    write_table("growth", f"A row's cost while the log grows to {count} million rows", header, rows, machine(), goals)


def check(query: millstream.Query) -> None:
    """Against the rows that the window holds at the frontier."""
    now = query.frontier
    held = [piece(number) for number in range(max(0, (now - WINDOW_US) // STEP_US // PIECE), now // STEP_US // PIECE + 1)]
    ts, key, value = (np.concatenate([part[name].to_numpy() for part in held]) for name in ("ts", "key", "value"))
    at = ts.astype("datetime64[us]").astype(np.int64)
    inside = (at >= now - WINDOW_US) & (at <= now)
    right = np.bincount(key[inside], value[inside], KEYS).astype(np.int64)
    told = query.result()
    ours = np.zeros(KEYS, np.int64)
    ours[told["key"].to_numpy()] = told["total"].to_numpy()
    assert (ours == right).all(), "wrong sums"


if __name__ == "__main__":
    main()
