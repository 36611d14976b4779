"""Deephaven, embedded (the server's wheel).

Each file is parsed by Arrow and added to an append-only input table; the tables behind it follow in the same cycle of the
update graph.  2 threads for the graph, short cycles.  An append-only table keeps all rows, so memory grows with the data.

w1  `rolling_sum_time` and `rolling_count_time` by key: closed at both ends.
w2  Sums by minute and key, which ten merged views give to the ten windows of a minute.
w7  Sums since the beginning: an append-only table cannot forget, and `time_window` goes by the clock on the wall.
w3 and w4 are not here: `join` has no condition on time, so each row would meet all earlier rows of its key.

At a pace each slice is a file, parsed when it is due and added without waiting; a cycle takes all that has been added until it begins.  A
slice's effect is there when a listener hears, in the cycle in which the input table has its rows and after the answers have followed.
"""

import os
import threading
from bisect import bisect_left
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from deephaven_server import Server

from comparison.peers import common

WORKLOADS = {"w1": "rows", "w2": "windows", "w7": "running"}
PACED = True
FIRST_SLICES = 20  # before the pace counts: until then it compiles

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


def delays(job: common.Job, events, answers) -> list[float]:
    """Seconds from when a slice is due to the cycle that has taken it; the first one is in the table already."""
    from deephaven import arrow
    from deephaven.table_listener import listen

    paths, each = job.streams["events"][1:], events.size
    heard: list[tuple[int, float]] = []
    all_there = threading.Event()

    def hear(update, is_replay: bool) -> None:
        heard.append((events.size, perf_counter()))
        if heard[-1][0] == each * (1 + len(paths)):
            all_there.set()

    handle = listen(events, hear, dependencies=answers)
    for path in paths[:FIRST_SLICES]:
        events.add(arrow.to_table(read_rows(path, string_keys=job.string_keys)))
    dues = []
    for due, slices in common.paced({"events": path} for path in paths[FIRST_SLICES:]):
        events.add_async(arrow.to_table(read_rows(slices["events"], string_keys=job.string_keys)))
        dues.append(due)
    all_there.wait()
    handle.stop()
    sizes = [size for size, _ in heard]
    return [heard[bisect_left(sizes, each * (1 + FIRST_SLICES + number))][1] - due for number, due in enumerate(dues, start=1)]


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
    if job.pace:
        common.result(started, None, delays=delays(job, events, answers))
        os._exit(0)
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
