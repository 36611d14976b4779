"""Millstream itself, as a runner like the others: files of CSV in, the committed changelog of the query out, on Spark in local mode.

Every row has its own answer and everything is durable before it counts; there is nothing to choose but the declared key, by which the
stream is split as it comes in.
"""

import tempfile
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq

import millstream
from comparison.peers import common
from comparison.workloads import WORKLOADS as ASKED
from comparison.workloads import as_sql

WORKLOADS = {"w1": "changes", "w2": "changes", "w3": "changes", "w4": "changes", "w6": "selected", "w7": "changes"}


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
            conditions = [as_sql(each) for each in job.selections] or [""]
            asked = [workload.sql.format(w=job.window_s, slide=job.slide_s, condition=condition) for condition in conditions]
            queries = [db.execute(f"CREATE QUERY q{number} AS {sql}") for number, sql in enumerate(asked)]
        started = perf_counter()
        db.await_drained()
        ended = perf_counter()
        if job.answers:
            pq.write_table(_answers(queries), job.answers)
        common.result(started, queries[0].stats()["changes"] if len(queries) == 1 else None, ended)


def _answers(queries: list[millstream.Query]) -> pa.Table:
    if len(queries) == 1:
        return queries[0].changes()
    rows = [query.changes().drop_columns(["instant", "diff"]) for query in queries]
    return pa.concat_tables([table.add_column(0, "query", pa.repeat(number, table.num_rows)) for number, table in enumerate(rows)])


main()
