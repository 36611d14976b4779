"""The comparison beside peers: its rows, the right answers, and what it measures of a program."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from comparison.answers import Answers
from comparison.auctions import QUERIES
from comparison.data import Data
from comparison.measure import RunFailed, measured
from comparison.systems import systems
from comparison.workloads import WORKLOADS, as_sql, selections
from inline import open_inline

ROWS, FILE_ROWS, STEP_US = 4000, 400, 400_000
SHAPES = {"rows", "rows_open", "windows", "files", "changes", "selected", "running", "tumbling"}


@pytest.mark.parametrize("name", ["w1", "w2", "w3", "w4", "w7"])
def test_our_answers_are_right_and_a_wrong_one_is_found(name: str, tmp_path: Path) -> None:
    workload = replace(WORKLOADS[name], keys=50)
    files = Data(tmp_path / "data", workload, step_us=STEP_US, file_rows=FILE_ROWS).files(ROWS)
    with open_inline(tmp_path / "db") as db:
        for stream in files:
            db.execute(f"CREATE STREAM {stream} ({', '.join(f'{n} {t}' for n, t in workload.columns(stream).items())}) TIMESTAMP BY ts")
        query = db.execute(f"CREATE QUERY q AS {workload.sql.format(w=workload.window_s, slide=workload.slide_s)}")
        for stream, paths in files.items():
            rows = duckdb.sql(f"SELECT * FROM read_csv({[str(path) for path in paths]}, header = false)").to_arrow_table()
            db.insert(stream, rows.rename_columns(list(workload.columns(stream))))
        db.flush()
        changes = query.changes()
    told = tmp_path / "changes.parquet"
    duckdb.sql(f"COPY (SELECT * FROM changes) TO '{told}'")
    assert Answers(workload, files).differences("changes", told) == 0
    place = changes.num_rows // 3
    spoilt = changes.slice(0, place).to_pylist() + changes.slice(place + 1).to_pylist()  # one change is lost
    lost = changes.schema.empty_table().from_pylist(spoilt, changes.schema)
    duckdb.sql(f"COPY (SELECT * FROM lost) TO '{told}'")
    assert lost.num_rows == changes.num_rows - 1
    assert Answers(workload, files).differences("changes", told) > 0


def test_the_same_rows_each_time_and_no_more_than_asked_for(tmp_path: Path) -> None:
    workload = WORKLOADS["w3"].varied("strings")
    one = Data(tmp_path / "one", workload, file_rows=FILE_ROWS)
    other = Data(tmp_path / "other", workload, file_rows=FILE_ROWS)
    few, many = one.files(800), other.files(1200)
    assert [path.read_text() for path in few["a"]] == [path.read_text() for path in many["a"][:2]]
    assert sorted(few["b"][0].parent.iterdir()) == few["b"]
    assert few["a"][0].read_text().splitlines()[1].startswith("2026-01-01 00:00:00.002,key-0")


def test_selections_are_the_same_for_all_and_for_somebody(tmp_path: Path) -> None:
    workload = replace(WORKLOADS["w6"], keys=100)
    wanted = selections(workload)
    assert wanted == selections(workload)
    assert len(wanted) == 1000
    files = Data(tmp_path, workload, file_rows=FILE_ROWS).files(ROWS)
    right = tmp_path / "right.parquet"
    database = duckdb.connect()
    names = [str(path) for path in files["events"]]
    database.execute(f"CREATE TABLE events AS SELECT * FROM read_csv({names}, header = false, names = ['ts', 'key', 'value'])")
    parts = [f"SELECT {number}::BIGINT AS query, * FROM events WHERE {as_sql(each)}" for number, each in enumerate(wanted)]
    database.execute(f"COPY ({' UNION ALL '.join(parts)}) TO '{right}'")
    assert Answers(workload, files).differences("selected", right) == 0


def test_every_peer_says_what_it_can() -> None:
    found = systems()
    assert next(iter(found)) == "millstream"
    assert {"spark", "pyflink", "siddhi", "deephaven", "pathway", "bytewax", "duckdb"} <= set(found)
    for system in found.values():
        assert set(system.shapes) <= set(WORKLOADS | QUERIES), system.name
        assert set(system.shapes.values()) <= SHAPES, system.name
        assert not system.requirements.exists() or system.version, system.name


def test_what_a_program_takes_with_all_that_it_starts() -> None:
    inner = "import time\nheap = bytearray(200_000_000)\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])\nprint('RESULT {{\"seconds\": 1}}')"
    run = measured([sys.executable, "-c", outer], environment=os.environ, timeout=60)
    assert run.result == {"seconds": 1}
    assert run.cpu > 0.4
    assert run.peak_bytes > 200_000_000
    assert run.wall > 0.5


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("pass", "told no result"),
        ("import time\ntime.sleep(60)", "took more than"),
        ("import subprocess\nsubprocess.Popen(['sleep', '60'])\nprint('RESULT {}')", "left processes behind"),
    ],
)
def test_a_program_that_fails_is_told_and_nothing_of_it_is_left(program: str, reason: str) -> None:
    with pytest.raises(RunFailed, match=reason):
        measured([sys.executable, "-c", program], environment=os.environ, timeout=3)
