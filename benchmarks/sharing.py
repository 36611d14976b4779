"""Windows over one stream, sharing their rows and not: memory of 1, 10 and 60 minutes, or of as many rows as come in them, and throughput
of 1, 4 and 16 queries.

    python benchmarks/sharing.py [--spark]

In one process and one bucket, without Spark unless asked for; each case in a process of its own, so that its resident memory says
something: the process at the end less the process before the first row.  Throughput is that of the median tick, reading, operators and
results together, by the time of the processor (on Spark by the clock), the better of two runs in turn.  The answers are checked against
DuckDB before anything counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import millstream
from in_process import InProcess
from millstream.api import Database
from millstream.state.location import Location
from report import goal, machine, write_table

MINUTE_US, TICK_US, TICK_ROWS, KEYS = 60_000_000, 30_000_000, 20_000, 1_000
ROWS_A_MINUTE = TICK_ROWS * MINUTE_US // TICK_US
MEGABYTE = 1 << 20


def main(*, spark: bool) -> None:
    memory, goals = memory_table(spark=spark)
    speed, more = throughput_table(spark=spark)
    header = ["windows over one stream", "sharing", "not sharing", "not sharing / sharing"]
    where = "on Spark, 1 bucket" if spark else "in one process, 1 bucket"
    write_table(
        "sharing_spark" if spark else "sharing",
        "Sharing the rows of windows",
        header,
        memory + speed,
        f"{where}; {machine()}",
        goals + more,
    )


def memory_table(*, spark: bool) -> tuple[list[list[str]], list[str]]:
    rows, found = [], {}
    cases = [("memory", minutes) for minutes in ([1], [10], [60], [1, 10, 60], [60, 60, 60, 60])]
    for what, minutes in [*cases, ("memory by count", [60]), ("memory by count", [1, 10, 60])]:
        on, off = (in_own_process(what, minutes, share, spark) for share in (True, False))
        by_count = what == "memory by count"
        sizes = [f"{m * ROWS_A_MINUTE:,}" if by_count else str(m) for m in minutes]
        name = " and ".join(sizes) + (" rows" if by_count else " minutes") + (", a query each" if len(minutes) > 1 else "")
        for size, unit in (("store", "in stores"), ("resident", "resident")):
            ratio = f"{off[size] / max(on[size], 1):.2f}"
            rows.append([f"{name}, {unit}", *(f"{case[size] / MEGABYTE:.1f} MB" for case in (on, off)), ratio])
        found[what, *minutes] = on["store"], off["store"]
    largest, together = found["memory", 60][0], found["memory", 1, 10, 60]
    total = sum(found["memory", minutes][1] for minutes in (1, 10, 60))
    most = together[0] / largest
    by_count_most = found["memory by count", 1, 10, 60][0] / found["memory by count", 60][0]
    return rows, [
        goal(f"three windows together take what the largest takes, at most 1.05 times: {most:.2f}", reached=most <= 1.05),
        goal(f"three windows by count as well: {by_count_most:.2f}", reached=by_count_most <= 1.05),
        goal(f"without sharing they take the sum: {together[1] / total:.2f} times", reached=abs(together[1] / total - 1) < 0.05),
    ]  # fmt: skip


def throughput_table(*, spark: bool) -> tuple[list[list[str]], list[str]]:
    rows, gains = [], {}
    for count in (1, 4, 16):
        runs = [
            [in_own_process("throughput", [1 + i for i in range(count)], share, spark)["rows_per_second"] for share in (True, False)]
            for _ in range(2)
        ]
        on, off = map(max, zip(*runs, strict=True))
        gains[count] = on / off
        unit = "a second" if spark else "a second of the processor"
        name = f"{count} quer{'y' if count == 1 else 'ies'}, rows of the stream {unit}"
        rows.append([name, f"{on:,.0f}", f"{off:,.0f}", f"{off / on:.2f}"])
    return rows, [goal(f"16 queries run at least 1.2 times as fast with sharing: {gains[16]:.2f}", reached=gains[16] >= 1.2)]


def in_own_process(what: str, minutes: list[int], share: bool, spark: bool) -> dict[str, float]:
    case = json.dumps({"what": what, "minutes": minutes, "share": share, "spark": spark})
    done = subprocess.run([sys.executable, __file__, "--case", case], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- one case, in its own process


def run_case(what: str, minutes: list[int], share: bool, spark: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory, opened(directory, share=share, spark=spark) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT, note STRING) TIMESTAMP BY ts")
        queries = [db.execute(text_of(what, m)) for m in minutes]
        warm(db)
        before = resident(db, spark=spark)
        fed = Feed(db, time.perf_counter if spark else time.process_time)
        if what != "throughput":
            for _ in range(max(minutes) * MINUTE_US // TICK_US + 4):
                fed.tick()
        else:
            for _ in range(10):
                fed.tick()
            fed.seconds.clear()
            for _ in range(30):
                fed.tick()
        after = resident(db, spark=spark)
        rows = fed.table()
        for m, query in zip(minutes, queries, strict=True):
            check(query, rows, m)
        return {
            "store": sum(store.bytes for store in db.stores()),
            "resident": after - before,
            "rows_per_second": TICK_ROWS / statistics.median(fed.seconds),
        }


def text_of(what: str, minutes: int) -> str:
    """By count: of as many rows as come in so many minutes, so that it has the same ones at the end of a tick."""
    window = f"[ROWS {minutes * ROWS_A_MINUTE}]" if what == "memory by count" else f"[RANGE {minutes} MINUTES]"
    if what == "throughput":
        return f"SELECT sum(v) AS s, count(*) AS n FROM s {window}"
    return f"SELECT k, sum(v) AS s, count(*) AS n FROM s {window} GROUP BY k"


def opened(directory: str, *, share: bool, spark: bool) -> Database:
    if spark:
        return millstream.connect(directory, buckets=1, tick_interval=None, share_windows=share)
    return Database(Location.open(directory, buckets=1), InProcess(), share_windows=share)


def warm(db: Database) -> None:
    """Kernels are compiled, libraries loaded."""
    db.insert("s", rows_at(np.array([-MINUTE_US]), np.random.default_rng(0)))
    db.advance(-1)
    db.flush()


class Feed:
    """The same rows every time, so none is kept here."""

    def __init__(self, db: Database, clock: Callable[[], float]) -> None:
        self._db, self._clock, self._ticks = db, clock, 0
        self.seconds: list[float] = []

    def tick(self) -> None:
        self._db.insert("s", rows_of(self._ticks))
        self._ticks += 1
        self._db.advance(self._ticks * TICK_US - 1)
        began = self._clock()
        self._db.flush()
        self.seconds.append(self._clock() - began)

    def table(self) -> pa.Table:
        return pa.concat_tables([rows_of(tick).select(["ts", "k", "v"]) for tick in range(self._ticks)])


def rows_of(tick: int) -> pa.Table:
    """Those of a tick are a second apart in groups, so that answers change at 30 instants of it."""
    rng = np.random.default_rng(tick)
    return rows_at(tick * TICK_US + np.sort(rng.integers(0, 30, TICK_ROWS)) * 1_000_000, rng)


def rows_at(ts: npt.NDArray[np.int64], rng: np.random.Generator) -> pa.Table:
    note = pa.array(["nobody reads this"]).take(pa.array(np.zeros(len(ts), np.int64)))
    stamps = pa.array(ts, pa.timestamp("us", "UTC"))
    return pa.table({"ts": stamps, "k": rng.integers(0, KEYS, len(ts)), "v": rng.integers(0, 1000, len(ts)), "note": note})


def check(query: millstream.Query, rows: pa.Table, minutes: int) -> None:
    con = duckdb.connect()
    con.register("rows", rows)
    con.register("ours", query.result())
    low, high = query.frontier - minutes * MINUTE_US, query.frontier
    grouped = "k" in query.result().column_names
    columns = "k, sum(v)::BIGINT AS s, count(*) AS n" if grouped else "sum(v)::BIGINT AS s, count(*) AS n"
    right = f"SELECT {columns} FROM rows WHERE epoch_us(ts) BETWEEN {low} AND {high}{' GROUP BY k' if grouped else ''}"
    assert con.sql(f"SELECT count(*) FROM (SELECT * FROM ours EXCEPT {right})").fetchall() == [(0,)]
    assert con.sql(f"SELECT count(*) FROM (({right}) EXCEPT SELECT * FROM ours)").fetchall() == [(0,)]


def resident(db: Database, *, spark: bool) -> int:
    """Of the process that holds the caches."""
    pa.default_memory_pool().release_unused()
    process = db._engine.runner.process_ids()[0] if spark else os.getpid()  # type: ignore[attr-defined]
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if "--case" in sys.argv:
        print(json.dumps(run_case(**json.loads(sys.argv[-1]))))
    else:
        main(spark="--spark" in sys.argv)
