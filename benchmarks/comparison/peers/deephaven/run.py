"""Deephaven, embedded (the server's wheel).

Each file is parsed by Arrow and added to an append-only input table; the tables behind it follow in the same cycle of the
update graph.  2 threads for the graph, short cycles.  An append-only table keeps all rows, so memory grows with the data.

w1  `rolling_sum_time` and `rolling_count_time` by key: closed at both ends.
w2  Sums by minute and key, which ten merged views give to the ten windows of a minute.
w7  Sums since the beginning: an append-only table cannot forget, and `time_window` goes by the clock on the wall.
w3 and w4 are not here: `join` has no condition on time, so each row would meet all earlier rows of its key.
"""

import os
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from deephaven_server import Server

from comparison.peers import common

WORKLOADS = {"w1": "rows", "w2": "windows", "w7": "running"}

JVM = [
    "-Xmx6g",
    "-DPeriodicUpdateGraph.targetCycleDurationMillis=10",
    "-DPeriodicUpdateGraph.updateThreads=2",
    "-DOperationInitializationThreadPool.threads=2",
    "-DAuthHandlers=io.deephaven.auth.AnonymousAuthenticationHandler",
]


def read_rows(path: str, *, string_keys: bool) -> pa.Table:
    types = {"ts": pa.timestamp("ns"), "key": pa.string() if string_keys else pa.int64(), "value": pa.int64()}
    rows = pa.csv.read_csv(
        path, read_options=pa.csv.ReadOptions(column_names=list(types)), convert_options=pa.csv.ConvertOptions(column_types=types)
    )
    return rows.set_column(0, "ts", rows["ts"].cast(pa.timestamp("ns", "UTC")))


def w1(job: common.Job, events):
    from deephaven import updateby

    window = {"ts_col": "ts", "rev_time": f"PT{job.window_s}S"}
    sums = [updateby.rolling_sum_time(cols="total=value", **window), updateby.rolling_count_time(cols="n=value", **window)]
    return events.update_by(sums, by="key").view(["ts", "key", "total", "n"])


def w2(job: common.Job, events):
    from deephaven import agg, merge

    slide_ns = job.slide_s * 1_000_000_000
    rows = events.view([f"pane = epochNanos(lowerBin(ts, {slide_ns}))", "key", "value"])
    panes = rows.agg_by([agg.sum_("total=value"), agg.count_("n")], by=["pane", "key"])
    shifted = [panes.view([f"end = pane + {shift * slide_ns}", "key", "total", "n"]) for shift in range(1, job.window_s // job.slide_s + 1)]
    windows = merge(shifted).agg_by([agg.sum_(["total", "n"])], by=["end", "key"])
    return windows.view(["ts = epochNanosToInstant(end)", "key", "total", "n"])


def w7(job: common.Job, events):
    from deephaven import agg

    keys = events.agg_by([agg.sum_("total=value")], by="key").view("band = (long) (total / 1000)")
    return keys.agg_by([agg.count_("members")], by="band").agg_by([agg.max_("top=members"), agg.count_("bands")])


def main() -> None:
    job = common.job(WORKLOADS)
    Server(port=0, jvm_args=JVM).start()
    from deephaven import arrow, input_table
    from deephaven.execution_context import get_exec_ctx
    from deephaven.update_graph import exclusive_lock

    paths = job.streams["events"]
    started = perf_counter()
    events = input_table(init_table=arrow.to_table(read_rows(paths[0], string_keys=job.string_keys)))
    answers = globals()[job.workload](job, events)
    for path in paths[1:]:
        events.add(arrow.to_table(read_rows(path, string_keys=job.string_keys)))
    # the lock is free between two cycles only: the last answers are out
    with exclusive_lock(get_exec_ctx().update_graph):
        count = answers.size
    ended = perf_counter()
    if job.answers:
        rows = arrow.to_arrow(answers)
        if "ts" in rows.column_names:
            rows = rows.set_column(0, "ts", pc.cast(rows["ts"], pa.timestamp("us", "UTC")).cast(pa.timestamp("us")))
        common.write_answers(job.answers, [rows])
    common.result(started, count, ended)
    os._exit(0)


main()
