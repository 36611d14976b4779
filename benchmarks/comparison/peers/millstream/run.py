"""Millstream itself, as a runner like the others: files of CSV in, the committed changelog of the query out, on Spark in local mode.

Every row has its own answer and everything is durable before it counts; there is nothing to choose but the declared key, by which the
stream is split as it comes in.
"""

import tempfile
from pathlib import Path
from time import perf_counter

import pyarrow.parquet as pq

import millstream
from comparison.peers import common
from comparison.workloads import WORKLOADS as ASKED

WORKLOADS = {"w1": "changes", "w2": "changes", "w3": "changes", "w4": "changes", "w7": "changes"}


def main() -> None:
    job = common.job(WORKLOADS)
    workload = ASKED[job.workload].varied("strings" if job.string_keys else "base")
    with tempfile.TemporaryDirectory() as location, millstream.connect(location) as db:
        with db.sources_held():
            for stream, files in job.streams.items():
                columns = ", ".join(f"{name} {kind}" for name, kind in workload.columns(stream).items())
                db.execute(
                    f"CREATE STREAM {stream} ({columns}) TIMESTAMP BY ts PARTITION BY key "
                    f"FROM 'csv' OPTIONS (path '{Path(files[0]).parent}')"
                )
            query = db.execute(f"CREATE QUERY q AS {workload.sql.format(w=job.window_s, slide=job.slide_s)}")
        started = perf_counter()
        db.await_drained()
        ended = perf_counter()
        stats = query.stats()
        if job.answers:
            pq.write_table(query.changes(), job.answers)
        common.result(started, stats["changes"], ended)


main()
