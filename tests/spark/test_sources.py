"""Real sources through Structured Streaming: files by path and through Spark, rate, socket, a user's own DataFrame."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from millstream.api import Database
from millstream.core.errors import AlreadyExists, MillstreamError, SourceFailed

Open = Callable[..., Database]
COLUMNS = "(ts TIMESTAMP, k STRING, v INT)"
SUMS = "CREATE QUERY q AS SELECT k, sum(v) AS s FROM s [UNBOUNDED] GROUP BY k"


def rows(start: int, count: int) -> pa.Table:
    stamps = pa.array([(start + i) * 1_000_000 for i in range(count)], pa.timestamp("us", "UTC"))
    return pa.table({"ts": stamps, "k": ["ab"[i % 2] for i in range(count)], "v": pa.array(range(start, start + count), pa.int32())})


def expected(total: int) -> Counter[tuple[str, int]]:
    return Counter([("a", sum(range(0, total, 2))), ("b", sum(range(1, total, 2)))])


def answer(db: Database) -> Counter[tuple[str, int]]:
    return Counter((row["k"], row["s"]) for row in db.query("q").result().to_pylist())


def write(table: pa.Table, path: Path) -> None:
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path)
        case ".csv":
            pa.csv.write_csv(table.set_column(0, "ts", table.column("ts").cast(pa.timestamp("us")).cast(pa.string())), path)
        case ".arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        case ".json":
            path.write_text("".join(f'{{"ts":"{row["ts"].isoformat()}","k":"{row["k"]}","v":{row["v"]}}}\n' for row in table.to_pylist()))


@pytest.mark.parametrize(
    ("format_", "suffix", "options"),
    [
        ("parquet", "parquet", ""),
        ("arrow", "arrow", ""),
        ("csv", "csv", ", header 'true'"),
        ("csv", "csv", ", header 'true', mode 'PERMISSIVE'"),  # an option that only Spark's reader knows
        ("json", "json", ""),
    ],
)
def test_files_are_read_once_each(format_: str, suffix: str, options: str, open_database: Open, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    write(rows(0, 10), incoming / f"0.{suffix}")
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts FROM '{format_}' OPTIONS (path '{incoming}'{options})")
    db.execute(SUMS)
    db.await_drained()
    assert answer(db) == expected(10)
    write(rows(10, 10), incoming / f"1.{suffix}")
    db.await_drained()
    assert answer(db) == expected(20)
    db.close()
    write(rows(20, 10), incoming / f"2.{suffix}")
    db = open_database()  # goes on with the file that came meanwhile, and only with that
    db.await_drained()
    assert answer(db) == expected(30)
    assert db.streams()[0].rows == 30


def test_partitioned_at_ingest(open_database: Open, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    write(rows(0, 100), incoming / "0.parquet")
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts PARTITION BY k FROM 'parquet' OPTIONS (path '{incoming}')")
    db.execute(SUMS)
    db.await_drained()
    assert answer(db) == expected(100)


def test_rate(open_database: Open) -> None:
    db = open_database()
    db.execute(
        "CREATE STREAM s (timestamp TIMESTAMP, value BIGINT) TIMESTAMP BY timestamp FROM 'rate-micro-batch' OPTIONS (rowsPerBatch 50)"
    )
    q = db.execute("SELECT count(*) AS n, max(value) AS m FROM s [UNBOUNDED]")
    while db.streams()[0].rows < 200:
        db.check()
        db.flush()
    (row,) = q.result().to_pylist()
    assert row["m"] + 1 >= row["n"] > 0


@contextmanager
def line_server(lines: list[str]) -> Iterator[int]:
    """Sends the lines to the first client and keeps the connection until the end of the block."""
    server = socket.create_server(("127.0.0.1", 0))
    finished = threading.Event()

    def serve() -> None:
        client, _ = server.accept()
        with client:
            client.sendall("".join(line + "\n" for line in lines).encode())
            finished.wait(60)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        finished.set()
        thread.join()
        server.close()


def test_socket_with_json_messages(open_database: Open) -> None:
    lines = [f'{{"ts": "1970-01-01T00:00:{i:02d}Z", "k": "{"ab"[i % 2]}", "v": {i}}}' for i in range(10)]
    with line_server(lines) as port:
        db = open_database()
        db.execute(
            f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts FROM 'socket' OPTIONS (host '127.0.0.1', port '{port}', value.format 'json')"
        )
        db.execute(SUMS)
        while db.streams()[0].rows < 10:
            db.check()
        db.await_drained()
        assert answer(db) == expected(10)
        db.close()


def test_a_dataframe_of_the_users_own(spark: SparkSession, open_database: Open, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    write(rows(0, 10), incoming / "0.parquet")
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts")
    db.execute(SUMS)
    frame = spark.readStream.schema("ts timestamp, k string, v int").parquet(str(incoming))
    db.stream("s", frame.selectExpr("v + 0 AS v", "ts", "k"))
    db.await_drained()
    assert answer(db) == expected(10)


def test_a_stream_has_one_source(spark: SparkSession, open_database: Open, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        write(rows(0, 10), tmp_path / name / "0.parquet")
    frames = [spark.readStream.schema("ts timestamp, k string, v int").parquet(str(tmp_path / name)) for name in "ab"]
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts SLACK 1 DAY FROM 'parquet' OPTIONS (path '{tmp_path / 'a'}')")
    db.execute(f"CREATE STREAM t {COLUMNS} TIMESTAMP BY ts SLACK 1 DAY")
    db.stream("t", frames[0])
    for name in "st":
        with pytest.raises(AlreadyExists, match=f'stream "{name}" has a source already'):
            db.stream(name, frames[1])
        db.insert(name, rows(5, 1))
    db.await_drained()
    write(rows(10, 10), tmp_path / "a" / "1.parquet")
    db.await_drained()
    assert [stream.rows for stream in db.streams()] == [21, 21]
    db.close()
    write(rows(20, 10), tmp_path / "a" / "2.parquet")
    db = open_database()
    with pytest.raises(AlreadyExists):
        db.stream("s", frames[1])
    db.stream("t", frames[0])
    db.await_drained()
    assert [stream.rows for stream in db.streams()] == [31, 31]


def test_a_dataframe_that_failed_may_be_given_again(spark: SparkSession, open_database: Open, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    write(rows(0, 10), incoming / "0.parquet")
    frame = spark.readStream.schema("ts timestamp, k string, v int").parquet(str(incoming))
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts")
    db.stream("s", frame.selectExpr("ts", "k", "CAST(raise_error('no') AS INT) AS v"))
    with pytest.raises(SourceFailed, match="no"):
        db.await_drained()
    assert db.streams()[0].error is not None
    db.stream("s", frame)
    db.await_drained()
    assert (db.streams()[0].rows, db.streams()[0].error) == (10, None)


def test_a_separator_that_only_spark_takes(open_database: Open, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (incoming / "0.csv").write_text("1970-01-01 00:00:01§ä§1\n")
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts FROM 'csv' OPTIONS (path '{incoming}', sep '§')")
    db.await_drained()
    assert (db.streams()[0].rows, db.streams()[0].rejected) == (1, 0)


@pytest.mark.parametrize("separator", ["", '"', "\n"])
def test_a_separator_that_nobody_takes_is_refused(separator: str, open_database: Open, tmp_path: Path) -> None:
    db = open_database()
    with pytest.raises(SourceFailed, match="cannot stand between values"):
        db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts FROM 'csv' OPTIONS (path '{tmp_path}', sep '{separator}')")
    assert db.streams() == []


def test_late_rows_of_a_source_are_kept(open_database: Open, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    write(pa.concat_tables([rows(0, 10), rows(2, 2)]), incoming / "0.parquet")
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts FROM 'parquet' OPTIONS (path '{incoming}')")
    db.await_drained()
    assert (db.streams()[0].rows, db.streams()[0].late) == (10, 2)
    late = db.execute("SELECT v FROM s.late ORDER BY v")
    assert late.column("v").to_pylist() == [2, 3]


def test_missing_column_is_a_clear_error(open_database: Open) -> None:
    db = open_database()
    with pytest.raises(SourceFailed, match='has no column "ts"'):
        db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts FROM 'rate'")
    assert db.streams() == []


def test_unreadable_file_names_itself_and_stops_a_strict_source(open_database: Open, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (incoming / "bad.parquet").write_bytes(b"this is not parquet")
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts ON ERROR FAIL FROM 'parquet' OPTIONS (path '{incoming}')")
    with pytest.raises(MillstreamError, match=r"bad\.parquet"):
        db.await_drained()
