"""Spark Structured Streaming.

local[2], 2 shuffle partitions, a million rows a trigger, as many as a tick of ours takes, state in the in-memory store, checkpoints
on the RAM disk if there is one, the noop sink unless answers are asked for.  For the joins, a last file with one far-away row
closes all windows.

w1  Spark has no OVER on a stream, so this is by hand: files enter whole (`binaryFile`), Arrow parses them in a Python worker
    and cuts them into two buckets of keys, and `applyInPandasWithState` keeps the window of each bucket as numpy columns.
    So the JVM handles no single row before the answers.
w2  `window()` in append mode.
w3  A time-interval join, then `window()` of one minute over the later of the two instants: the tumbling approximation,
    for Spark cannot take back a pair.  `greatest` drops the mark of an event time, so the alias gives it back.
w4  The same with two joins.
w7  Not possible: an aggregation over an aggregation needs retractions, which Spark does not have.
q0 to q8, q15 to q18  In auctions.py; those that run since the beginning in update mode.  q4 and q6 are not possible, as w7.
"""

import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from time import perf_counter, time

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState

from comparison.peers import common, sliding_sums
from comparison.peers.spark import auctions

WORKLOADS = {
    "w1": "rows", "w2": "windows", "w3": "tumbling", "w4": "tumbling",
    "q0": "rows", "q1": "rows", "q2": "rows", "q3": "rows", "q5": "windows", "q7": "windows", "q8": "windows",
    "q15": "running", "q16": "running", "q17": "running", "q18": "running",
}  # fmt: skip

# Spark sends 0 to one of two partitions and 2 to the other
BUCKETS = [0, 2]
FILES_A_TRIGGER = 10
PACED = True  # with triggers one after the other, each of what has come
FIRST_SLICES = 20  # before the pace counts: until then it compiles
BINARY_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
FAR_AWAY = "2100-01-01 00:00:00.000"


def main() -> None:
    job = common.job(WORKLOADS)
    ram_disk = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=ram_disk) as work:
        spark = session(work)
        started = perf_counter()
        if job.workload in auctions.QUERIES:
            link_in_time_order(job, Path(work))
            answers = auctions.QUERIES[job.workload]({name: events(spark, job, work, name) for name in job.streams})
        else:
            copy_in_time_order(job, Path(work, "coming") if job.pace else Path(work))
            for name in job.streams:
                Path(work, name).mkdir(exist_ok=True)
            answers = globals()[job.workload](spark, job, work)
        if job.pace:
            common.result(started, None, delays=delays(answers, job, Path(work)))
            spark.stop()
            return
        kept = run(answers, job, work)
        ended = perf_counter()
        if job.answers:
            common.write_answers(job.answers, kept)
        spark.stop()
    common.result(started, sum(len(answer) for answer in kept) if job.answers else None, ended)


def session(work: str) -> SparkSession:
    settings = {
        "spark.driver.memory": "6g",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.local.dir": work,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.openCostInBytes": "1",  # else one file is one task
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    # of the Python workers
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def copy_in_time_order(job: common.Job, work: Path) -> None:
    """Spark takes the files of a folder in the order of their times of change."""
    for number, (stream, paths) in enumerate(job.streams.items(), start=1):
        folder = work / stream
        folder.mkdir(parents=True)
        copies = [Path(shutil.copyfile(path, folder / f"{position:06d}.csv")) for position, path in enumerate(paths)]
        if job.workload in ("w3", "w4") and not job.pace:
            copies.append(folder / "last.csv")
            # a key of its own for each stream, so that nothing joins
            columns = [FAR_AWAY, f"-{number}", "0", "0"] if (job.workload, stream) == ("w3", "a") else [FAR_AWAY, f"-{number}", "0"]
            copies[-1].write_text(",".join(columns) + "\n")
        for second, copy in enumerate(copies, start=1_700_000_000):
            os.utime(copy, (second, second))


def link_in_time_order(job: common.Job, work: Path) -> None:
    """As above, without copies: these files are large."""
    for stream, paths in job.streams.items():
        (work / stream).mkdir()
        for position, path in enumerate(paths):
            (work / stream / f"{position:06d}.csv").symlink_to(path)
            os.utime(path, (1_700_000_000 + position,) * 2)


def run(answers: DataFrame, job: common.Job, work: str) -> list[pa.Table]:
    """Runs through all files, and returns the answers if they are asked for."""
    kept: list[pa.Table] = []
    mode = "update" if WORKLOADS[job.workload] == "running" else "append"
    writer = answers.writeStream.outputMode(mode).option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True)
    if job.answers:
        writer = writer.foreachBatch(lambda batch, _: kept.append(batch.toArrow()))
    else:
        writer = writer.format("noop")
    writer.start().awaitTermination()
    if kept and job.workload in auctions.KEYS:
        changes = pa.concat_tables(kept).to_pandas()
        kept = [pa.Table.from_pandas(changes.drop_duplicates(auctions.KEYS[job.workload], keep="last"), preserve_index=False)]
    return kept


def delays(answers: DataFrame, job: common.Job, work: Path) -> list[float]:
    """Seconds from when a slice is due to the end of the trigger that took it: by then what it changes is told, or kept for later."""
    writer = answers.writeStream.outputMode("append").option("checkpointLocation", f"{work}/checkpoint").trigger(processingTime="0 seconds")
    query = writer.format("noop").start()
    slices = [{name: work / "coming" / name / f"{number:06d}.csv" for name in job.streams} for number in range(len(list(job.files())))]

    def come(paths: dict[str, Path]) -> None:
        for name, path in paths.items():
            os.utime(path)  # the time of the move does not count, and it takes them by time
            path.rename(work / name / path.name)

    for paths in slices[:FIRST_SLICES]:
        come(paths)
    query.processAllAvailable()
    first, since_epoch, dues = len(query.recentProgress), time() - perf_counter(), []
    for due, paths in common.paced(slices[FIRST_SLICES:]):
        come(paths)
        dues.append(due + since_epoch)
    query.processAllAvailable()
    triggers = query.recentProgress[first:]
    taken = np.cumsum([trigger.numInputRows for trigger in triggers])
    starts = [datetime.fromisoformat(trigger.timestamp).timestamp() for trigger in triggers]
    ends = [start + trigger.durationMs["triggerExecution"] / 1e3 for start, trigger in zip(starts, triggers, strict=True)]
    upto = np.arange(1, len(dues) + 1) * (taken[-1] / len(dues))
    return [ends[place] - due for place, due in zip(np.searchsorted(taken, upto - 0.5), dues, strict=True)]


def files_a_trigger(job: common.Job) -> int:
    """At a pace, all that has come: such files are small."""
    return 10_000 if job.pace else FILES_A_TRIGGER


def stream(spark: SparkSession, job: common.Job, work: str, name: str) -> DataFrame:
    """The rows of a stream, its columns named after it."""
    key = "STRING" if job.string_keys else "BIGINT"
    grp = f"{name}_grp BIGINT, " if (job.workload, name) == ("w3", "a") else ""
    schema = f"{name}_ts TIMESTAMP, {name}_key {key}, {grp}{name}_value BIGINT"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_a_trigger(job)).csv(f"{work}/{name}")
    return rows.withWatermark(f"{name}_ts", "0 seconds")


def events(spark: SparkSession, job: common.Job, work: str, name: str) -> DataFrame:
    schema = ", ".join(f"{column} {kind}" for column, kind in job.columns[name].items())
    files = FILES_A_TRIGGER * (1 if "bid" in job.streams else 12)  # the others are a twelfth of the events
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).csv(f"{work}/{name}")
    return rows.withWatermark("ts", "0 seconds")


def w1(spark: SparkSession, job: common.Job, work: str) -> DataFrame:
    key_type = "STRING" if job.string_keys else "BIGINT"
    files = (
        spark.readStream.format("binaryFile").schema(BINARY_FILE).option("maxFilesPerTrigger", files_a_trigger(job)).load(f"{work}/events")
    )
    buckets = files.select("path", "content").mapInArrow(bucketed(string_keys=job.string_keys), "bucket INT, path STRING, rows BINARY")
    return buckets.groupBy("bucket").applyInPandasWithState(
        sliding(job.window_s * 1_000_000),
        f"ts TIMESTAMP_NTZ, key {key_type}, total BIGINT, n BIGINT",
        "window BINARY",
        "append",
        "NoTimeout",
    )


def bucketed(*, string_keys: bool):
    """Parses files, and cuts each into as many Arrow streams as there are buckets of keys."""

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, content in (row for batch in batches for row in zip(*batch.columns, strict=True)):
            parts = [ipc_bytes(half) for half in sliding_sums.halves(sliding_sums.read_rows(content.as_buffer(), string_keys=string_keys))]
            columns = [pa.array(BUCKETS, pa.int32()), pa.array([path.as_py()] * len(parts)), pa.array(parts, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["bucket", "path", "rows"])

    return parse


def ipc_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def sliding(range_us: int):
    def slide(_, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        sums = pickle.loads(state.get[0]) if state.exists else sliding_sums.SlidingSums(range_us)
        for part in pd.concat(frames).sort_values("path")["rows"]:  # in order of time, as the files are
            yield pd.DataFrame(sums.step(pa.ipc.open_stream(part).read_all()))
        state.update((pickle.dumps(sums, protocol=5),))

    return slide


def w2(spark: SparkSession, job: common.Job, work: str) -> DataFrame:
    hopping = sf.window("events_ts", f"{job.window_s} seconds", f"{job.slide_s} seconds")
    sums = (sf.sum("events_value").alias("total"), sf.count("*").alias("n"))
    rows = stream(spark, job, work, "events")
    return (
        rows.groupBy(hopping, "events_key")
        .agg(*sums)
        .select(sf.col("window.end").cast("timestamp_ntz").alias("ts"), sf.col("events_key").alias("key"), "total", "n")
    )


def latest(*instants: str) -> Column:
    return sf.greatest(*instants).alias("ts", metadata={"spark.watermarkDelayMs": 0})


def w3(spark: SparkSession, job: common.Job, work: str) -> DataFrame:
    a, b = (stream(spark, job, work, name) for name in "ab")
    near = sf.expr(f"b_ts BETWEEN a_ts - INTERVAL {job.window_s} SECONDS AND a_ts + INTERVAL {job.window_s} SECONDS")
    pairs = a.join(b, (sf.col("a_key") == sf.col("b_key")) & near).select(latest("a_ts", "b_ts"), "a_grp", "b_value")
    tops = pairs.groupBy(sf.window("ts", f"{job.slide_s} seconds"), "a_grp").agg(sf.max("b_value").alias("top"))
    return tops.select(sf.col("window.end").cast("timestamp_ntz").alias("ts"), sf.col("a_grp").alias("grp"), "top")


def w4(spark: SparkSession, job: common.Job, work: str) -> DataFrame:
    a, b, c = (stream(spark, job, work, name) for name in "abc")
    within = f"INTERVAL {job.window_s} SECONDS"
    near = sf.expr(f"a_key = b_key AND b_ts BETWEEN a_ts - {within} AND a_ts + {within}")
    pairs = a.join(b, near).select(latest("a_ts", "b_ts"), sf.least("a_ts", "b_ts").alias("first_ts"), "a_key")
    near = sf.expr(f"a_key = c_key AND c_ts BETWEEN ts - {within} AND ts + {within} AND c_ts <= first_ts + {within}")
    triples = pairs.join(c, near).select(latest("ts", "c_ts"), "a_key", "c_value")
    sums = triples.groupBy(sf.window("ts", f"{job.slide_s} seconds"), "a_key").agg(
        sf.sum("c_value").alias("total"), sf.count("*").alias("n")
    )
    return sums.select(sf.col("window.end").cast("timestamp_ntz").alias("ts"), sf.col("a_key").alias("key"), "total", "n")


if __name__ == "__main__":
    main()
