"""Millstream itself, as a runner like the others: files of CSV in, the committed changelog of the query out, on Spark in local mode.

Every row has its own answer and everything is durable before it counts; there is nothing to choose but the declared key, by which the
stream is split as it comes in.
"""

import re
import threading
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

import millstream
from comparison.auctions import QUERIES
from comparison.peers import common
from comparison.workloads import WORKLOADS as ASKED
from comparison.workloads import Workload, as_sql
from nexmark.queries import SCHEMA

WORKLOADS = {
    "w1": "changes", "w2": "changes", "w3": "changes", "w4": "changes", "w6": "changes", "w7": "changes",
    "q0": "changes", "q1": "changes", "q2": "changes", "q3": "changes", "q4": "changes", "q5": "changes", "q6": "changes",
    "q7": "changes", "q8": "changes", "q15": "changes", "q16": "changes", "q17": "changes", "q18": "changes",
}  # fmt: skip

KEYS = {
    "q3": {"person": "id", "auction": "seller"},
    "q4": {"auction": "id", "bid": "auction"},
    "q5": {"bid": "auction"},
    "q6": {"auction": "id", "bid": "auction", "closing": "id"},
    "q8": {"person": "id", "auction": "seller"},
    "q16": {"bid": "channel"},
    "q17": {"bid": "auction"},
    "q18": {"bid": "auction"},
}
"""Of the streams of Nexmark: by which each is split as it comes in, for a query that joins or groups by it."""

PACED = True
TICK = 0.05
"""Where the delay is measured: ticks come as soon as there are rows, and no more often than this."""


def main() -> None:
    job = common.job(WORKLOADS)
    workload = (ASKED | QUERIES)[job.workload].varied("strings" if job.string_keys else "base")
    with millstream.connect(Path(job.scratch, "db"), **({"tick_interval": TICK} if job.pace else {})) as db:
        with db.sources_held():
            queries = [_nexmark(db, job)] if job.workload in QUERIES else _asked(db, job, workload)
        started = perf_counter()
        if job.pace:
            common.result(started, None, delays=_delays(db, queries[0], job, workload))
            return
        db.await_drained()
        ended = perf_counter()
        if job.answers:
            pq.write_table(_answers(queries), job.answers)
        if job.last:
            Path(job.scratch, common.MEASURED).touch()
            pq.write_table(queries[0].result(), job.last)
        common.result(started, queries[0].stats()["changes"] if len(queries) == 1 else None, ended)


def _asked(db: millstream.Database, job: common.Job, workload: Workload) -> list[millstream.Query]:
    for stream, files in job.streams.items():
        columns = ", ".join(f"{name} {kind}" for name, kind in workload.columns(stream).items())
        source = "" if job.pace else _source(files)
        db.execute(f"CREATE STREAM {stream} ({columns}) TIMESTAMP BY ts PARTITION BY key {source}")
    conditions = [as_sql(each) for each in job.selections] or [""]
    asked = [workload.sql.format(w=job.window_s, slide=job.slide_s, condition=condition) for condition in conditions]
    return [db.execute(f"CREATE QUERY q{number} AS {sql}") for number, sql in enumerate(asked)]


def _nexmark(db: millstream.Database, job: common.Job) -> millstream.Query:
    """The streams of schema.cql that the query reads, each from its files; q6 reads the auctions a second time, as they close."""
    streams = job.streams | ({"closing": job.streams["auction"]} if job.workload == "q6" else {})
    declared = {said.split()[2]: said for said in re.findall(r"CREATE STREAM[^;]*", SCHEMA)}
    for stream, files in streams.items():
        key = KEYS.get(job.workload, {}).get(stream)
        db.execute(f"{declared[stream]} {f'PARTITION BY {key}' if key else ''} {_source(files)}")
    db.execute(QUERIES[job.workload].sql)
    return db.query(job.workload)


def _source(files: list[str]) -> str:
    return f"FROM 'csv' OPTIONS (path '{Path(files[0]).parent}')"


def _delays(db: millstream.Database, query: millstream.Query, job: common.Job, workload: Workload) -> list[float]:
    """Seconds from the call of `insert` to the commit that makes the rows' changes final."""
    slices = common.slices({stream: _table(workload, stream, files) for stream, files in job.streams.items()}, job.pace)
    inserted: list[tuple[float, int]] = []  # when, and the frontier after it
    committed: list[tuple[float, int]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            if not committed or committed[-1][1] < query.frontier:
                committed.append((perf_counter(), query.frontier))
            done.wait(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for due, tables in common.paced(slices):
        for stream, table in tables.items():
            db.insert(stream, table)
        last = max(pc.max(table["ts"]).value for table in tables.values())
        db.advance(last)
        inserted.append((due, last))
    db.flush()
    done.set()
    watcher.join()
    committed.append((perf_counter(), query.frontier))
    frontiers = np.array([frontier for _, frontier in committed])
    return [committed[int(np.searchsorted(frontiers, last))][0] - due for due, last in inserted]


def _table(workload: Workload, stream: str, files: list[str]) -> pa.Table:
    types = {
        "ts": pa.timestamp("us"),
        **{name: pa.string() if kind == "STRING" else pa.int64() for name, kind in list(workload.columns(stream).items())[1:]},
    }
    read, convert = csv.ReadOptions(column_names=list(types)), csv.ConvertOptions(column_types=types)
    table = pa.concat_tables([csv.read_csv(path, read, convert_options=convert) for path in files]).combine_chunks()
    return table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))


def _answers(queries: list[millstream.Query]) -> pa.Table:
    if len(queries) == 1:
        return queries[0].changes()
    changes = [query.changes() for query in queries]
    return pa.concat_tables([table.add_column(0, "query", pa.repeat(number, table.num_rows)) for number, table in enumerate(changes)])


main()
