"""Flink 2.3 by its Python API: tables over CSV files and queries, all of it SQL, which runs wholly in the JVM; Python only hands it over.

Chosen for speed on two cores: parallelism 2, object reuse, state on the heap, no checkpoints, mini-batches where the aggregate is not
over a window, the blackhole sink unless answers are asked for.  Each stream is one large file, as Flink does not promise to read
several in order, and a row that comes too late is dropped; only q0 to q2, for which the order does not matter, read many, with both cores.

w1  OVER RANGE: closed on both ends.
w2  HOP: Flink sums slices of a slide and merges them.
w3, w4  Interval joins forget rows but never take back pairs, so maximum, sum and count run over all pairs and triples so far.
w7  Flink retracts through the whole chain, but OVER answers only when a row arrives and tells nothing of rows that leave, so a key's
    total would be too high until its next row: the sums run since the beginning.
q0 to q8, q15 to q18  In auctions.py.  q6 is not possible: it needs OVER over rows that still change.

At a pace: in paced.py.
"""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pyarrow as pa
from pyarrow import csv, json
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, Table, TableDescriptor, TableEnvironment
from pyflink.table.types import DecimalType, DoubleType, TimestampType, VarCharType

from comparison.peers.common import Job, job, result, write_answers
from comparison.peers.pyflink import auctions, paced

ONE_FILE = True
"""Of each stream; the harness makes it before the time counts."""
PACED = True
SETTINGS = {
    "pipeline.object-reuse": "true",
    "parallelism.default": "2",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.network.max": "128mb",
    "taskmanager.numberOfTaskSlots": "4",
}
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "20000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}
QUERIES = {
    "w1": """
        SELECT ts, `key`, sum(`value`) OVER w AS total, count(*) OVER w AS n
        FROM events
        WINDOW w AS (PARTITION BY `key` ORDER BY ts RANGE BETWEEN {range} PRECEDING AND CURRENT ROW)
    """,
    "w2": """
        SELECT window_end AS ts, `key`, sum(`value`) AS total, count(*) AS n
        FROM HOP(TABLE events, DESCRIPTOR(ts), {slide}, {range})
        GROUP BY window_start, window_end, `key`
    """,
    "w3": """
        SELECT a.grp, max(b.`value`) AS top
        FROM a JOIN b ON a.`key` = b.`key` AND a.ts BETWEEN b.ts - {range} AND b.ts + {range}
        GROUP BY a.grp
    """,
    "w4": """
        SELECT a.`key`, sum(c.`value`) AS total, count(*) AS n
        FROM a
        JOIN b ON a.`key` = b.`key` AND a.ts BETWEEN b.ts - {range} AND b.ts + {range}
        JOIN c ON a.`key` = c.`key` AND a.ts BETWEEN c.ts - {range} AND c.ts + {range}
            AND b.ts BETWEEN c.ts - {range} AND c.ts + {range}
        GROUP BY a.`key`
    """,
    "w7": """
        SELECT max(n) AS top, count(*) AS bands
        FROM (SELECT band, count(*) AS n FROM (SELECT sum(`value`) / 1000 AS band FROM events GROUP BY `key`) GROUP BY band)
    """,
}
KEYS = {"w3": (0,), "w4": (0,), "w7": (), **auctions.KEYS}
WORKLOADS = {
    "w1": "rows", "w2": "windows", "w3": "running", "w4": "running", "w7": "running",
    "q0": "rows", "q1": "rows", "q2": "rows", "q3": "rows", "q4": "running", "q5": "windows", "q7": "windows", "q8": "windows",
    "q15": "running", "q16": "running", "q17": "running", "q18": "running",
}  # fmt: skip
TYPES = {"TIMESTAMP": "TIMESTAMP(3)"}
ARROW = {TimestampType: pa.timestamp("us"), VarCharType: pa.string(), DecimalType: pa.decimal128(38, 3), DoubleType: pa.float64()}


def start_jvm() -> None:
    os.environ["JVM_ARGS"] = "-XX:+UseParallelGC -Xmx6g"
    get_gateway()


def stop_jvm() -> None:
    """Ends the gateway's JVM and waits for it; it would go by itself, but only after this process."""
    pid = get_gateway().jvm.java.lang.ProcessHandle.current().pid()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def settings(spec: Job) -> dict[str, str]:
    if spec.pace:
        batched = paced.MINI_BATCHED.get(spec.workload)
        return SETTINGS | paced.SETTINGS | (MINI_BATCH | batched if batched else {})
    return SETTINGS | (MINI_BATCH if WORKLOADS[spec.workload] == "running" else {})


def tables(spec: Job) -> TableEnvironment:
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in settings(spec).items():
        t_env.get_config().set(name, value)
    for stream, files in spec.streams.items():
        columns = ", ".join(f"`{column}` {TYPES.get(kind, kind)}" for column, kind in spec.columns[stream].items())
        options = f"'connector' = 'filesystem', 'path' = '{place(spec, stream, files)}', 'format' = 'csv'"
        options += paced.MONITORED if spec.pace else ""
        t_env.execute_sql(f"CREATE TABLE {stream} ({columns}, WATERMARK FOR ts AS ts) WITH ({options})")
    return t_env


def place(spec: Job, stream: str, files: list[str]) -> str | Path:
    """Where the rows of a stream are."""
    if spec.pace:
        return paced.folder(spec, stream)
    return Path(files[0]).parent if spec.workload in auctions.IN_ANY_ORDER else spec.one_file[stream]


def asked(spec: Job) -> str:
    return (QUERIES | auctions.QUERIES)[spec.workload].format(range=interval(spec.window_s), slide=interval(spec.slide_s))


def interval(seconds: int) -> str:
    return f"INTERVAL '0 {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}' DAY TO SECOND"


def last_rows(query: Table, key: tuple[int, ...]) -> pa.Table:
    """A running relation at its end: the last row of each group."""
    types = arrow_types(query)
    row = pa.struct(list(types.items()))
    wanted = json.ParseOptions(explicit_schema=pa.schema({"before": row, "after": row, "op": pa.string()}))
    rows = {}
    for part in written(query, "debezium-json"):
        for change in json.read_json(part, parse_options=wanted).to_pylist():
            values = list((change["before"] if change["op"] == "d" else change["after"]).values())
            group = tuple(values[place] for place in key)
            if change["op"] == "d":
                del rows[group]
            else:
                rows[group] = values
    columns = zip(*rows.values(), strict=True)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)], names=list(types))


def all_rows(query: Table) -> pa.Table:
    """Rows that stay."""
    types = arrow_types(query)
    as_typed = csv.ConvertOptions(column_types=types)
    return pa.concat_tables(
        csv.read_csv(part, csv.ReadOptions(column_names=list(types)), convert_options=as_typed) for part in written(query, "csv")
    )


def written(query: Table, form: str) -> Iterator[Path]:
    """By way of files, as there are too many rows for PyFlink's own collect(); a group's changes are in those of one writer, in order."""
    with tempfile.TemporaryDirectory() as folder:
        sink = TableDescriptor.for_connector("filesystem").option("path", folder).format(form).build()
        query.execute_insert(sink).wait()
        parts = [part for part in Path(folder).iterdir() if part.stat().st_size]
        yield from sorted(parts, key=lambda part: tuple(map(int, part.name.split("-")[-2:])))


def arrow_types(query: Table) -> dict[str, pa.DataType]:
    schema = query.get_schema()
    names_and_types = zip(schema.get_field_names(), schema.get_field_data_types(), strict=True)
    return {name: ARROW.get(type(kind), pa.int64()) for name, kind in names_and_types}


def main() -> None:
    spec = job(WORKLOADS)
    if spec.pace:
        paced.add_reporter()
    start_jvm()
    query = tables(spec).sql_query(asked(spec))
    started = perf_counter()
    answers, delays = None, None
    if spec.pace:
        query.execute_insert(TableDescriptor.for_connector("blackhole").build())
        delays = paced.delays(spec)
    elif spec.answers is None:
        query.execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
    elif WORKLOADS[spec.workload] == "running":
        answers = write_answers(spec.answers, [last_rows(query, KEYS[spec.workload])])
    else:
        answers = write_answers(spec.answers, [all_rows(query)])
    ended = perf_counter()
    stop_jvm()
    result(started, answers, ended, delays)
    os._exit(0)  # what Python still holds of the JVM's objects would be let go over a closed connection, with a traceback each


if __name__ == "__main__":
    main()
