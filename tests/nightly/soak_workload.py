"""A program that runs for a while as a user's would: rows arrive all the time, queries come and go, a relation changes.

    python soak_workload.py LOCATION MINUTES

Event time runs sixty times as fast as the clock, so that an hour of retention is a minute.  Every few seconds it prints a JSON line
with what it holds on disk and in memory: of itself, of the JVM and of the Python workers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import millstream

ROWS_A_SECOND, KEYS, FASTER = 2_000, 500, 60
EVERY_S, TICK_S = 5.0, 1.0
STATEMENTS = [
    """CREATE STREAM s (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts SLACK 1 SECOND PARTITION BY k RETAIN 20 MINUTES""",
    """CREATE RELATION names (k INT PRIMARY KEY, name STRING)""",
    """CREATE QUERY sums RETAIN 20 MINUTES AS SELECT k, sum(v) AS total, count(*) AS n FROM s [RANGE 10 MINUTES] GROUP BY k""",
    """CREATE QUERY extremes RETAIN 20 MINUTES AS SELECT min(v) AS least, max(v) AS most FROM s [RANGE 15 MINUTES]""",
    """CREATE QUERY newest RETAIN 5 MINUTES AS SELECT k, v FROM s [PARTITION BY k ROWS 3]""",
    """CREATE QUERY entering RETAIN 5 MINUTES AS SELECT ISTREAM(k, v) FROM s [RANGE 1 MINUTE] WHERE v > 900""",
    """CREATE QUERY named RETAIN 10 MINUTES AS SELECT n.name, u.total FROM sums AS u JOIN names AS n ON u.k = n.k WHERE n.k < 20""",
    """CREATE QUERY pairs RETAIN 5 MINUTES AS SELECT a.k, count(*) AS n FROM s [RANGE 1 MINUTE] a JOIN s [RANGE 10 SECONDS] b ON a.k = b.k
       GROUP BY a.k""",
]


def processes(root: int) -> Iterator[tuple[str, int]]:
    """(what it is, its resident bytes) of all processes below this one, itself included."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents.setdefault(int((entry / "stat").read_text().rpartition(")")[2].split()[1]), []).append(int(entry.name))
        except (OSError, IndexError):
            continue  # it has ended meanwhile
    waiting = [root]
    while waiting:
        process = waiting.pop()
        waiting += parents.get(process, [])
        try:
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            resident = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            continue
        yield "driver" if process == root else "jvm" if b"java" in command.split(b"\0")[0] else "workers", resident


def measured(location: Path, started: float, rows: int) -> dict[str, float]:
    sizes = []
    for directory, _, files in os.walk(location):
        for name in files:
            try:
                sizes.append(os.path.getsize(os.path.join(directory, name)))
            except FileNotFoundError:
                continue  # vacuumed meanwhile
    found = {
        "seconds": time.monotonic() - started,
        "rows": rows,
        "files": len(sizes),
        "disk": sum(sizes),
        "driver": 0,
        "jvm": 0,
        "workers": 0,
    }
    for kind, resident in processes(os.getpid()):
        found[kind] += resident
    return found


def main(location: str, minutes: float) -> None:
    rng = np.random.default_rng(0)
    started = measured_at = time.monotonic()
    rows = turn = 0
    # ticks at a pace that the machine keeps whatever else it does: every one makes files, which stay for ten minutes
    with millstream.connect(location, master="local[2]", tick_interval=TICK_S) as db:
        for statement in STATEMENTS:
            db.execute(statement)
        while (now := time.monotonic()) < started + minutes * 60:
            turn += 1
            count = max(1, int((now - started) * ROWS_A_SECOND) - rows)
            ts = (np.arange(rows, rows + count) * (1_000_000 * FASTER) // ROWS_A_SECOND) - rng.integers(
                0, 1_100_000, count
            )  # a few are late
            table = {"ts": pa.array(ts, pa.timestamp("us", "UTC")), "k": rng.integers(0, KEYS, count, np.int32),
                     "v": rng.integers(0, 1000, count, np.int32)}  # fmt: skip
            db.insert("s", pa.table(table))
            rows += count
            if turn % 5 == 0:
                db.insert("names", [(turn % 40, f"name {turn}")])
            if turn % 50 == 0:
                with db.execute("SELECT count(*) AS n FROM s [RANGE 30 SECONDS]") as passing:
                    db.flush()
                    assert len(passing.result()) == 1
            if turn % 100 == 0:
                db.execute("DROP QUERY IF EXISTS coming")
                db.execute("CREATE QUERY coming AS SELECT k, avg(v) AS mean FROM s [RANGE 5 MINUTES] GROUP BY k")
            if now - measured_at > EVERY_S:
                print(json.dumps(measured(Path(location), started, rows)), flush=True)
                measured_at = now
            time.sleep(0.1)  # a source's pace, not a synchronisation
        db.flush()
        table = db.query("sums").result()
        print(json.dumps({"sums": sum(table.column("n").to_pylist()), "frontier": db.query("sums").frontier, "rows": rows}), flush=True)
        states = {row["name"]: row["state"] for row in db.execute("SHOW QUERIES").to_pylist()}
        print(json.dumps({"states": states}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
