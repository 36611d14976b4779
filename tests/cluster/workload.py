"""Two streams and queries of every kind over them, in numbered batches: the same whoever runs them, and on what."""

from __future__ import annotations

import pyarrow as pa

from millstream.api import Database

ROWS = 2_000
SPAN_US = 400
"""Event time of a batch."""
STREAMS = ("a", "b")
QUERIES = {
    "windowed": "SELECT k, sum(v) AS s, count(*) AS n, max(v) AS hi FROM a [RANGE 300 MICROSECONDS] GROUP BY k",
    "unbounded": "SELECT k, count(*) AS n, sum(v) AS s, min(v) AS lo FROM a GROUP BY k",
    "joined": "SELECT x.k, x.v, y.v AS w FROM a [RANGE 100 MICROSECONDS] AS x, b [RANGE 60 MICROSECONDS] AS y WHERE x.k = y.k",
    "of_sums": "SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM b [RANGE 500 MICROSECONDS] GROUP BY k) GROUP BY n",
    "entering": "SELECT ISTREAM(k, v) FROM b [ROWS 50] WHERE v > 90",
}


def create(db: Database) -> None:
    for name in STREAMS:
        db.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts SLACK 5 MICROSECONDS")
    for name, sql in QUERIES.items():
        db.execute(f"CREATE QUERY {name} AS {sql}")


def insert(db: Database, number: int) -> None:
    for stream, name in enumerate(STREAMS):
        places = range(number * ROWS, (number + 1) * ROWS)
        stamps = [i * SPAN_US // ROWS + (i * 7919 + stream) % 5 for i in places]
        keys, values = [(i * 31 + stream) % 101 for i in places], [(i * 17 + stream) % 97 for i in places]
        db.insert(name, pa.table({"ts": pa.array(stamps, pa.timestamp("us", "UTC")), "k": keys, "v": values}))


def changes(db: Database) -> dict[str, list[str]]:
    """Of every query, sorted: the order inside an instant is free."""
    told = {}
    for name in QUERIES:
        columns = [column.cast(pa.int64()).to_pylist() for column in db.query(name).changes().columns]
        told[name] = sorted(" ".join(map(str, row)) for row in zip(*columns, strict=True))
    return told
