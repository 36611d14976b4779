"""The program's commands on Spark: in this process where they can share its session, else in one of their own."""

from __future__ import annotations

import io
import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.cli.main import run_program

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from millstream.cli.main import main; main()"]


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Millstream = Callable[..., Done]


@pytest.fixture
def millstream(spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Millstream:
    """Runs a command as the program would, on the session of the tests."""

    def run(*arguments: str, stdin: str = "") -> Done:
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capfd.readouterr()
        status = run_program(arguments)
        shown = capfd.readouterr()
        return Done(status, shown.out, shown.err)

    return run


@pytest.mark.parametrize("batching", ["default", "rows", "one", "random:7"])
def test_scripts_pass_under_every_batching(millstream: Millstream, batching: str) -> None:
    done = millstream("test", "tests/scripts/queries/example.slt", "tests/scripts/restart/in_the_middle.slt", "--batching", batching)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok    tests/scripts/queries/example.slt" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 passed, 0 failed")


def test_a_script_that_fails_gives_status_1_and_can_be_completed(millstream: Millstream, tmp_path: Path) -> None:
    text = (ROOT / "tests" / "scripts" / "queries" / "example.slt").read_text()
    script = tmp_path / "wrong.slt"
    script.write_text(text.replace("+ A,12", "+ A,13", 1))
    assert millstream("test", str(script)).returncode == 1
    done = millstream("test", str(script), "--complete")
    assert done.returncode == 0
    assert f"{script}:18: changes q" in done.stdout
    assert "missing   + A,13" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("0 passed, 1 completed, 0 failed")
    assert script.read_text() == text


def test_run_prints_changes_until_the_sources_are_drained(millstream: Millstream) -> None:
    done = millstream("run", "examples/trades.cql", "--until", "drained")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"hot", "bars", "large"}
    large = [line for line in lines if line.startswith("large")]
    rows = [line.split(",") for path in sorted((ROOT / "examples/data/trades").glob("*.csv")) for line in path.read_text().split()[1:]]
    assert len(large) == sum(int(row[3]) >= 5000 for row in rows)
    assert "60 rows in" in done.stderr


def test_a_second_run_goes_on_and_another_definition_is_refused(millstream: Millstream, tmp_path: Path) -> None:
    script = tmp_path / "job.cql"
    script.write_text(
        f"""
        CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts
          FROM 'csv' OPTIONS (path '{tmp_path / "in"}', header 'true');
        CREATE QUERY volume AS SELECT sym, sum(size) AS n FROM trades [UNBOUNDED] GROUP BY sym;
        """
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("ts,sym,size\n2026-03-02T08:00:00,A,5\n")
    arguments = ["--location", str(tmp_path / "db"), "--until", "drained"]
    first = millstream("run", str(script), *arguments)
    assert first.returncode == 0, first.stderr
    assert [line.split("  ")[2] for line in first.stdout.splitlines()] == ["+ A, 5"]
    (tmp_path / "in" / "2.csv").write_text("ts,sym,size\n2026-03-02T08:00:07,A,7\n")
    second = millstream("run", str(script), *arguments)
    assert second.returncode == 0, second.stderr
    assert [line.split("  ")[2] for line in second.stdout.splitlines()] == ["- A, 5", "+ A, 12"]
    script.write_text(script.read_text().replace("sum(size)", "max(size)"))
    third = millstream("run", str(script), *arguments)
    assert third.returncode == 1
    assert third.stderr.startswith('[ALREADY_EXISTS] "volume" exists already, with another definition')
    assert "sum(size)" in third.stderr.split("hint:")[1]


def test_ctrl_c_stops_a_run_cleanly(tmp_path: Path) -> None:
    arguments = [*PROGRAM, "run", "examples/heartbeat.cql", "--location", str(tmp_path / "db"), "--master", "local[2]"]
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        first = process.stdout.readline()  # blocks until there is an answer
        assert first.startswith("pace  ")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0, errors
    assert "stopped" in errors
    assert "Traceback" not in errors


def test_a_mistake_in_a_script_is_one_error_with_its_place(millstream: Millstream, tmp_path: Path) -> None:
    script = tmp_path / "bad.cql"
    script.write_text("CREATE STREAM s (ts TIMESTAMP, size INT) TIMESTAMP BY ts;\n\nSELECT siez FROM s [NOW];\n")
    done = millstream("run", str(script))
    assert done.returncode == 1
    assert done.stdout == ""
    first, sql, carets, hint = done.stderr.splitlines()[:4]
    assert first == f'[COLUMN_NOT_FOUND] column "siez" does not exist in stream "s" ({script}, line 3)'
    assert (sql, carets, hint) == ("  SELECT siez FROM s [NOW]", "         ^^^^", '  hint: Did you mean "size"?')


def test_the_shell_reads_a_pipe(millstream: Millstream, tmp_path: Path) -> None:
    text = """
        CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts;
        INSERT INTO trades VALUES (TIMESTAMP '1970-01-01T00:00:01Z', 'A', 5), (TIMESTAMP '1970-01-01T00:00:02Z', 'A', 7);
        \\advance 2
        SELECT sym, sum(size) AS n FROM trades [RANGE 10 SECONDS] GROUP BY sym;
        SELECT nothing FROM trades [NOW];
        \\d trades
        \\q
        SHOW STREAMS;
    """
    done = millstream("shell", "--location", str(tmp_path / "db"), stdin=text)
    assert done.returncode == 1
    assert "query_1  1970-01-01T00:00:02Z  + A, 12" in done.stdout
    assert done.stderr.startswith("[COLUMN_NOT_FOUND]")
    assert "TIMESTAMP" in done.stdout
    assert "frontier" not in done.stdout


def test_the_first_query_in_python(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "first_query.py"))
    shown = capfd.readouterr().out
    # the changes: A has 5, then 12, then 7 once the first row has left; B has 1
    assert re.findall(r" (-?1) +([AB]) +([0-9]+)$", shown, re.MULTILINE) == [
        ("1", "A", "5"), ("-1", "A", "5"), ("1", "A", "12"), ("1", "B", "1"), ("-1", "A", "12"), ("1", "A", "7"),
    ]  # fmt: skip


def test_the_demo_ends_by_itself_and_finds_what_happens() -> None:
    done = subprocess.run([*PROGRAM, "demo", "--seconds", "6"], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "port scan of 10.0.1.66" in done.stdout
    assert re.search(r"bulk transfer of 10\.0\.1\.23.* was in query talkers [0-9.]+ s later", done.stdout)
    assert "not found" not in done.stdout
    assert "What next" in done.stdout
