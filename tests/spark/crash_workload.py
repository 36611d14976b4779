"""A program that is killed on purpose: twelve batches into a stream, a tick after each, then the whole changelog.

    python crash_workload.py LOCATION [MASTER]

It can be started again at any time and goes on where the database says it was.  Prints `batch N` before each tick
and, at the end, the changelog as JSON lines between markers.
"""

from __future__ import annotations

import sys

import millstream
from millstream.api import Database

BATCHES, ROWS = 12, 60
QUERIES = {
    "sums": "SELECT k, sum(v) AS s, count(*) AS n, min(x) AS lo FROM s [RANGE 40 MICROSECONDS] GROUP BY k",
    "total": "SELECT count(*) AS n, sum(x) AS s FROM s",
    "entering": "SELECT ISTREAM(k, v) FROM s [RANGE 10 MICROSECONDS] WHERE v > 2",
}


def batch(number: int) -> list[tuple[int, str | None, int | None, float]]:
    """Deterministic rows with ties, disorder within the slack, late rows and NULLs."""
    rows = []
    for i in range(number * ROWS, (number + 1) * ROWS):
        ts = i // 3 + (i * 7919 % 5) - (40 if i % 31 == 30 else 0)
        rows.append((ts, None if i % 13 == 0 else "abc"[i % 3], None if i % 11 == 0 else i * 31 % 7, i * 0.1))
    return rows


def run(db: Database) -> list[str]:
    """What is left to do, then all that the queries have said."""
    db.execute("CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, v INT, x DOUBLE) TIMESTAMP BY ts SLACK 5 MICROSECONDS")
    for name, sql in QUERIES.items():
        db.execute(f"CREATE QUERY IF NOT EXISTS {name} AS {sql}")
    stream = db.streams()[0]
    done, rest = divmod(stream.rows + stream.late, ROWS)
    assert rest == 0, "a batch was inserted in part"
    for number in range(done, BATCHES):
        print(f"batch {number}", flush=True)
        db.insert("s", batch(number))
        db.flush()
    db.flush()
    return [
        f"{name} {instant.isoformat()} {diff:+d} {row}"
        for name in QUERIES
        for instant, diff, *row in zip(*(column.to_pylist() for column in db.query(name).changes().columns), strict=True)
    ]


def main(location: str, master: str = "local[2]") -> None:
    with millstream.connect(location, master=master, tick_interval=None) as db:
        print("changelog", *run(db), "end", sep="\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
