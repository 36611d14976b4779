"""Bad inputs of sources that Spark reads: every case of tests/bad_inputs/json.txt, and what stops a source or does not.

MILLSTREAM_REGENERATE=1 pytest -n 0 tests/spark/test_bad_inputs.py      writes what each gets into docs/bad-inputs.md
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value
from pyspark.sql import SparkSession

from bad_inputs.namespace import value_of
from bad_inputs.page import ALL, PAGE, Case, line_of, page, recorded
from millstream.api import Database
from millstream.core.errors import FunctionFailed, SourceFailed
from millstream.core.schema import Schema
from millstream.language.catalog import StreamEntry
from millstream.runtime.dead_letters import Part
from millstream.runtime.row_times import RowTimes
from millstream.spark import sources
from millstream.spark.declared_columns import declared_columns, part_of
from millstream.spark.file_readers import FileReader
from millstream.spark.lost_files import ENDS_ITS_READER

Open = Callable[..., Database]

COLUMNS = "(ts TIMESTAMP, k STRING, v INT, dec DECIMAL(5,2), d DOUBLE)"
SCHEMA = Schema.of(ts="TIMESTAMP", k="STRING", v="INT", dec="DECIMAL(5,2)", d="DOUBLE")
GOOD = b'{"ts": "2024-01-01T00:00:00Z", "k": "good", "v": 1}'


def outcome(reasons: list[str]) -> str:
    return f"rejected: {'; '.join(reasons)}" if reasons else "taken"


def check(case: Case, got: str) -> None:
    assert got.startswith(case.expected), (case.text, got)
    if not os.environ.get("MILLSTREAM_REGENERATE"):
        assert recorded(case) == line_of(case, got)


@contextmanager
def regenerated() -> Iterator[dict[Case, str]]:
    outcomes: dict[Case, str] = {}
    yield outcomes
    if os.environ.get("MILLSTREAM_REGENERATE"):
        PAGE.write_text(page(outcomes))


def test_messages(spark: SparkSession) -> None:
    """As Kafka has them: bytes in a column `value`."""
    cases = ALL["json"]
    frame = spark.createDataFrame(pa.table({"value": [value_of(case.text) for case in cases]})).coalesce(1)
    entry = StreamEntry("s", SCHEMA, "ts", format="kafka", options={"value.format": "json"})
    rows = declared_columns(frame, entry).toArrow()
    with regenerated() as outcomes:
        for i, case in enumerate(cases):
            part = part_of(rows.slice(i, 1), SCHEMA, RowTimes("s", "ts", 0), "kafka")
            assert part.rows.num_rows + len(part.rejected) == 1
            assert all(letter.source == "kafka" for letter in part.rejected)
            outcomes[case] = outcome([letter.reason for letter in part.rejected])
    for case, got in outcomes.items():
        check(case, got)


def test_messages_with_values_that_their_types_do_not_have(spark: SparkSession) -> None:
    schema = Schema.of(ts="TIMESTAMP", f="FLOAT", day="DATE", m="MAP<STRING,INT>", l="ARRAY<FLOAT>")
    texts = ['"f": 1.5, "l": [2.5]', '"f": 1e300', '"day": "+12024-01-01"', '"m": {"a": 1, "a": 2}', '"l": [1, 1e300]']
    values = [f'{{"ts": "2024-01-01T00:00:00Z", {text}}}'.encode() for text in texts]
    frame = spark.createDataFrame(pa.table({"value": values})).coalesce(1)
    rows = declared_columns(frame, StreamEntry("s", schema, "ts", format="kafka", options={"value.format": "json"})).toArrow()
    part = part_of(rows, schema, RowTimes("s", "ts", 0), "kafka")
    assert part.rows.select(["f", "l"]).to_pylist() == [{"f": 1.5, "l": [2.5]}]
    endings = ("it is too great", "it is outside the years 1 to 9999", "it has a key twice")
    assert {next((end for end in endings if letter.reason.endswith(end)), letter.reason) for letter in part.rejected} == set(endings)


def test_lines_of_json_files(open_database: Open, tmp_path: Path) -> None:
    """All of them in one file; the good lines are taken, each bad one is a letter with the same reason as a message's."""
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    lines = [value_of(case.text) for case in ALL["json"]]
    (incoming / "a.json").write_bytes(b"\n".join([*lines, GOOD]) + b"\n")
    db = open_database()
    db.execute(f"CREATE STREAM s {COLUMNS} TIMESTAMP BY ts SLACK 1 DAY FROM 'json' OPTIONS (path '{incoming}')")
    db.await_drained()
    letters = db.execute("SELECT * FROM s.rejected").to_pylist()
    good = [case for case in ALL["json"] if case.expected == "taken"]
    (info,) = db.streams()
    assert (info.rows, info.late, info.rejected) == (len(good) + 1, 0, len(lines) - len(good)), [letter["reason"] for letter in letters]
    # a year that Spark takes and we do not is found when the file's name is gone
    assert {letter["source"].removeprefix(f"file:{incoming}").lstrip("/") for letter in letters} == {"a.json", "json"}
    assert max(len(letter["row"]) for letter in letters) < 4200
    assert db.execute("SHOW STREAMS").to_pylist()[0]["rejected"] == info.rejected


def test_a_failing_source_stops_and_another_goes_on(open_database: Open, tmp_path: Path) -> None:
    for name in ("strict", "lenient"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_bytes(GOOD + b"\n" + b"broken\n")
    db = open_database()
    db.execute(f"CREATE STREAM strict {COLUMNS} TIMESTAMP BY ts ON ERROR FAIL FROM 'json' OPTIONS (path '{tmp_path}/strict')")
    db.execute(f"CREATE STREAM lenient {COLUMNS} TIMESTAMP BY ts FROM 'json' OPTIONS (path '{tmp_path}/lenient')")
    with pytest.raises(SourceFailed, match=r"strict/0\.json: the text is not what the source's format has"):
        db.await_drained()
    (tmp_path / "lenient" / "1.json").write_bytes(GOOD + b"\n")
    db._sources.drain("lenient")  # type: ignore[union-attr]
    found = {stream.name: (stream.rows, stream.rejected) for stream in db.streams()}
    assert found == {"strict": (0, 0), "lenient": (2, 1)}


def test_files_by_path(open_database: Open, tmp_path: Path) -> None:
    """A file that cannot be read is one letter, and the next file is read; with ON ERROR FAIL the source stops there."""
    stamps = pa.array([0, 1], pa.timestamp("us", "UTC"))
    for name in ("strict", "lenient"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.parquet").write_bytes(b"this is not parquet")
        pq.write_table(pa.table({"ts": stamps, "v": [1, 2**40]}), tmp_path / name / "1.parquet")
    db = open_database()
    db.execute(f"CREATE STREAM lenient (ts TIMESTAMP, v INT) TIMESTAMP BY ts FROM 'parquet' OPTIONS (path '{tmp_path}/lenient')")
    db.await_drained()
    letters = db.execute("SELECT row, source FROM lenient.rejected ORDER BY source").to_pylist()
    assert letters == [
        {"row": None, "source": f"{tmp_path}/lenient/0.parquet"},
        {"row": '{"ts": "1970-01-01T00:00:00.000001+00:00", "v": 1099511627776}', "source": f"{tmp_path}/lenient/1.parquet, row 1"},
    ]
    assert (db.streams()[0].rows, db.streams()[0].rejected) == (1, 2)
    db.execute(
        f"CREATE STREAM strict (ts TIMESTAMP, v INT) TIMESTAMP BY ts ON ERROR FAIL FROM 'parquet' OPTIONS (path '{tmp_path}/strict')"
    )
    with pytest.raises(SourceFailed, match=r"strict/0\.parquet: the file cannot be read"):
        db.await_drained()
    assert [stream.rows for stream in db.streams()] == [1, 0]
    db.close()
    again = open_database()
    assert [(stream.name, stream.rejected) for stream in again.streams()] == [("lenient", 2), ("strict", 0)]
    assert len(again.execute("SELECT * FROM lenient.rejected")) == 2


def test_values_that_a_cast_loses(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("2024-01-01", "1", 1.0), ("2024-01-01", "2147483648", 2.0), ("noon", "3", float("nan")), (None, "4", 4.0)],
        "ts string, v string, n double",
    )
    schema = Schema.of(ts="TIMESTAMP", v="INT", n="INT")
    part = part_of(declared_columns(frame, StreamEntry("s", schema, "ts")).toArrow(), schema, RowTimes("s", "ts", 0), "DataFrame")
    assert part.rows.column("v").to_pylist() == [1]
    assert [letter.reason for letter in part.rejected] == [
        'column "v" takes INT, not 2147483648',
        'column "ts" takes TIMESTAMP, not noon; column "n" takes INT, not NaN',
        'column "ts" of "s" is its timestamp and cannot be NULL',
    ]
    assert part.rejected[0].row == '{"ts":"2024-01-01","v":"2147483648","n":2.0}'


def test_a_function_that_hangs_fails_its_query_alone(open_database: Open) -> None:
    def hang(value: int) -> Any:
        while value == 8:
            pass
        return value

    db = open_database()
    db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
    db.function("hang", hang, "INT", timeout=0.5)
    hanging = db.execute("CREATE QUERY hanging AS SELECT hang(v) AS x FROM s [RANGE 1 HOUR]")
    other = db.execute("CREATE QUERY other AS SELECT sum(v) AS n FROM s [RANGE 1 HOUR]")
    db.insert("s", [(0, 7)])
    db.advance(1)
    db.flush()
    assert hanging.result().column("x").to_pylist() == [7]
    for v in (8, 9):
        db.insert("s", [(v, v)])
        db.advance(v)
        db.flush()
    assert other.result().column("n").to_pylist() == [24]
    with pytest.raises(FunctionFailed, match=r'function "hang" gave no answer on \(8\) within 0.5 seconds'):
        hanging.result()
    states = {query["name"]: query["state"] for query in db.execute("SHOW QUERIES").to_pylist()}
    assert states == {"hanging": "failed", "other": "running"}
    with pytest.raises(FunctionFailed, match="no answer"):
        db.execute("SELECT hang(n - 16) AS x FROM other")


@pytest.mark.parametrize("way", ["a loop in C", "an exit", "closed sockets"])
def test_a_function_that_takes_its_process_with_it_fails_its_query_alone(open_database: Open, way: str) -> None:
    def fatal(value: int) -> Any:
        if value != 8:
            return value
        if way != "closed sockets":  # a copy of the process would keep them open
            multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,)).start()
        if way == "an exit":
            os._exit(3)
        if way == "closed sockets":
            os.closerange(0, 64)
            return value
        return sum(itertools.repeat(0))  # never gives the interpreter back

    db = open_database()
    db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
    db.function("fatal", fatal, "INT", timeout=0.5)
    failing = db.execute("CREATE QUERY failing AS SELECT fatal(v) AS x FROM s [RANGE 1 HOUR]")
    other = db.execute("CREATE QUERY other AS SELECT k, sum(v) AS n FROM s [RANGE 1 HOUR] GROUP BY k")
    for v in (7, 8, 9):
        db.insert("s", [(v, "b", 1), (v, "b", 1), (v, "a", v), (v, "b", 1)])
        db.advance(v)
        db.flush()
    assert sorted(other.result().to_pylist(), key=str) == [{"k": "a", "n": 24}, {"k": "b", "n": 9}]
    place = "one of its rows, by closing the sockets of its process" if way == "closed sockets" else r"\(8\)"
    with pytest.raises(FunctionFailed, match=rf'function "fatal" failed on {place}: it ended its process'):
        failing.result()
    states = {query["name"]: query["state"] for query in db.execute("SHOW QUERIES").to_pylist()}
    assert states == {"failing": "failed", "other": "running"}


class DeadlyReader(FileReader):
    """Stands for code of pyarrow's that does not survive a file."""

    def read(self, path: str, times: RowTimes) -> Part:
        if "deadly" in path:
            os._exit(1)
        return super().read(path, times)


def test_a_file_that_ends_its_reader_is_a_dead_letter_and_the_next_is_read(
    open_database: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for i, name in enumerate(("good", "deadly", "next", "twice")):
        path = incoming / f"{name}.arrow"
        table = pa.table({"ts": pa.array([i], pa.timestamp("us")), "v": pa.array([i], pa.int32())})
        if name == "twice":
            table = table.append_column("v", table.column("v"))
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
        os.utime(path, (i, i))
    schema = Schema.of(ts="TIMESTAMP", v="INT")
    register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(sources, "fast_file_reader", lambda entry: DeadlyReader("arrow", "s", schema))
    db = open_database()
    db.execute(f"CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts FROM 'arrow' OPTIONS (path '{incoming}')")
    db.await_drained()
    unregister_pickle_by_value(sys.modules[__name__])
    (stream,) = [stream for stream in db.streams() if stream.name == "s"]
    assert (stream.rows, stream.rejected, stream.error) == (2, 2, None)
    letters = db.execute("SELECT source, reason FROM s.rejected").to_pylist()  # type: ignore[union-attr]
    assert sorted(Path(letter["source"]).name for letter in letters) == ["deadly.arrow", "twice.arrow"]
    assert any(ENDS_ITS_READER in letter["reason"] for letter in letters)
