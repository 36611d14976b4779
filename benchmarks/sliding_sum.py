"""Exact per-row sliding sum and count by key, against Spark Structured Streaming's own window aggregation.

    millstream   SELECT key, sum(value), count(*) FROM events [RANGE 10 MINUTES] GROUP BY key
                 every arrival and every expiry changes the answer; from files to the committed changelog
    spark        groupBy(window('10 minutes', '1 minute'), key), update mode, state in memory, sink that discards
                 the answer moves once a trigger; nothing is written

Both read the same files of 100,000 rows, on the same machine and cores, one after the other, each in a process of its
own; start-up and two warm-up runs over other files are not counted.  Spark's answers move once a trigger and its cost
depends on how often that is: one file a trigger is what it is compared at (an answer about once a second), ten and all
fifty files a trigger are shown beside it.  Ours has no such choice: every row has its own answer.

Answers are checked before times count: ours against DuckDB at ten instants, Spark's against DuckDB over all its windows.

    python benchmarks/sliding_sum.py [--rows 5000000] [--keys 10000]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from report import goal, machine, write_table

HOUR_US = 3_600_000_000
WINDOW_US = 600_000_000
FILE_ROWS = 100_000
FILES_A_TRIGGER = {"spark, a file a trigger": 1, "spark, 10 files a trigger": 10, "spark, all files in one trigger": 1000}
PARTITION_BY = {"millstream": "", "millstream, PARTITION BY key": "PARTITION BY key"}
SQL = "SELECT key, sum(value) AS total, count(*) AS n FROM events [RANGE 10 MINUTES] GROUP BY key"


def generate(directory: Path, rows: int, keys: int, seed: int = 0) -> None:
    """`rows` events spread evenly over an hour, in order, keys uniform."""
    directory.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    ts = np.arange(rows, dtype=np.int64) * HOUR_US // rows
    key, value = rng.integers(0, keys, rows), rng.integers(0, 1000, rows)
    for i, start in enumerate(range(0, rows, FILE_ROWS)):
        part = slice(start, start + FILE_ROWS)
        table = pa.table({"ts": pa.array(ts[part], pa.timestamp("us", "UTC")), "key": key[part], "value": value[part]})
        pq.write_table(table, directory / f"part-{i:05d}.parquet", compression="zstd", compression_level=1)


def run_millstream(files: Path, warm_up: Path, partition_by: str) -> dict[str, float]:
    import millstream

    def once(path: Path) -> tuple[float, dict[str, float]]:
        with tempfile.TemporaryDirectory() as location, millstream.connect(location) as db:
            db.execute(
                f"CREATE STREAM events (ts TIMESTAMP, key BIGINT, value BIGINT) TIMESTAMP BY ts {partition_by} "
                f"FROM 'parquet' OPTIONS (path '{path}')"
            )
            query = db.execute(f"CREATE QUERY q AS {SQL}")
            began = time.perf_counter()
            db.await_drained()
            seconds = time.perf_counter() - began
            if path == files:
                check_millstream(query, files)
            changes = query.stats()["changes"]
        return seconds, {"seconds": seconds, "changes": changes}

    once(warm_up)
    once(warm_up)
    return once(files)[1]


def check_millstream(query: object, files: Path) -> None:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    changes = query.changes()  # type: ignore[attr-defined]
    con.register("changes", changes)
    for t in np.linspace(60_000_000, HOUR_US - 10_000_000, 10).astype(np.int64).tolist():
        ours = con.sql(
            f"SELECT key, total, n FROM changes WHERE epoch_us(instant) <= {t} GROUP BY ALL HAVING sum(diff) > 0 ORDER BY key"
        ).to_arrow_table()
        right = con.sql(
            f"SELECT key, sum(value)::BIGINT AS total, count(*) AS n FROM read_parquet('{files}/*.parquet') "
            f"WHERE epoch_us(ts) BETWEEN {t - WINDOW_US} AND {t} GROUP BY key ORDER BY key"
        ).to_arrow_table()
        assert ours.equals(right.cast(ours.schema)), f"wrong answer at {t}"


def run_spark(files: Path, warm_up: Path, files_a_trigger: int) -> dict[str, float]:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    spark = (
        SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2").config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g").getOrCreate()
    )  # fmt: skip
    spark.sparkContext.setLogLevel("ERROR")

    def once(path: Path, answers: Path | None) -> float:
        reader = spark.readStream.schema("ts timestamp, key long, value long").option("maxFilesPerTrigger", files_a_trigger)
        groups = reader.parquet(str(path)).withWatermark("ts", "0 seconds").groupBy(sf.window("ts", "10 minutes", "1 minute"), "key")
        sums = groups.agg(sf.sum("value").alias("total"), sf.count("*").alias("n"))
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = sums.writeStream.outputMode("update").option("checkpointLocation", checkpoint).trigger(availableNow=True)
            if answers is not None:
                writer = writer.foreachBatch(lambda batch, _: batch.write.mode("append").parquet(str(answers)))
            else:
                writer = writer.format("noop")
            began = time.perf_counter()
            writer.start().awaitTermination()
            return time.perf_counter() - began

    with tempfile.TemporaryDirectory() as answers:
        once(warm_up, Path(answers) / "answers")
        last = spark.read.parquet(f"{answers}/answers").groupBy(sf.col("window.start").alias("s"), "key")
        check_spark(last.agg(sf.max("total").alias("total"), sf.max("n").alias("n")).toArrow(), warm_up)
    once(warm_up, None)
    return {"seconds": once(files, None)}


def check_spark(answers: pa.Table, files: Path) -> None:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("answers", answers)
    wrong = con.sql(
        f"""SELECT count(*) FROM (
              SELECT epoch_us(s) AS s, key, total, n FROM answers EXCEPT
              SELECT m * 60000000 AS s, key, sum(value) AS total, count(*) AS n FROM read_parquet('{files}/*.parquet'),
                     unnest(range(epoch_us(ts) // 60000000 - 9, epoch_us(ts) // 60000000 + 1)) AS t(m) GROUP BY 1, 2)"""
    ).fetchall()
    assert wrong == [(0,)], f"{wrong} windows of Spark differ"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--only", choices=[*FILES_A_TRIGGER, *PARTITION_BY])
    parser.add_argument("--work", type=Path)
    arguments = parser.parse_args()
    if arguments.only:
        files, warm_up = arguments.work / "files", arguments.work / "warm-up"
        if arguments.only in FILES_A_TRIGGER:
            result = run_spark(files, warm_up, FILES_A_TRIGGER[arguments.only])
        else:
            result = run_millstream(files, warm_up, PARTITION_BY[arguments.only])
        print("RESULT " + json.dumps(result))
        return
    work = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    try:
        generate(work / "files", arguments.rows, arguments.keys)
        generate(work / "warm-up", 10 * FILE_ROWS, arguments.keys, seed=1)
        results = {name: _in_own_process(name, work) for name in (*FILES_A_TRIGGER, *PARTITION_BY)}
    finally:
        shutil.rmtree(work)
    rate = {name: arguments.rows / result["seconds"] for name, result in results.items()}
    base = rate[next(iter(FILES_A_TRIGGER))]
    rows = [
        [
            name,
            f"{result['seconds']:.2f}",
            f"{rate[name]:,.0f}",
            f"{result['changes']:,.0f}" if "changes" in result else "not kept",
            f"{rate[name] / base:.1f}",
        ]
        for name, result in results.items()
    ]
    title = f"Sliding sum and count by key: {arguments.rows:,} rows, {arguments.keys:,} keys, 10 minutes"
    goals = [
        goal(f"{name} at least 20 times Spark at a file a trigger: {rate[name] / base:.1f}", reached=rate[name] >= 20 * base)
        for name in PARTITION_BY
    ]
    write_table("sliding_sum", title, ["system", "seconds", "rows/s", "changes", "ratio"], rows, machine(), goals)


def _in_own_process(name: str, work: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, "--only", name, "--work", str(work)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stdout}\n{done.stderr}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    return dict(json.loads(line.removeprefix("RESULT ")))


if __name__ == "__main__":
    main()
