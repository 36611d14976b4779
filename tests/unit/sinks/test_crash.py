"""kill -9 at every step of a delivery: what arrives in the end is what an undisturbed run delivers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from unit.sinks import workload

WORKLOAD = workload.__file__
PATHS = os.pathsep.join(path for path in sys.path if path)


def killed(location: Path, sink: str, fault: str) -> str:
    """What it printed before its end."""
    environment = {**os.environ, "MILLSTREAM_FAULT": fault, "PYTHONPATH": PATHS}
    command = [sys.executable, WORKLOAD, str(location), sink]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, f"{fault} was not reached:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(
    ("format_", "fault"),
    [
        ("parquet", "sink.before_write:1"),
        ("parquet", "sink.after_write:2"),
        ("parquet", "sink.after_commit:3"),
        ("delta", "sink.before_write:2"),
        ("delta", "sink.after_commit:2"),
    ],
)
def test_files_and_tables_hold_each_change_once(format_: str, fault: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = f"INTO '{format_}' OPTIONS (path '{out}')"
    killed(tmp_path / "db", sink, fault)
    workload.run(tmp_path / "db", sink)
    expected = workload.changes(tmp_path / "db")
    assert workload.delivered(out, format_) == (sorted(expected, key=str) if format_ == "delta" else expected)
    assert not list(out.glob(".changes*"))


@pytest.mark.parametrize(
    ("mode", "fault"),
    [
        ("changes", "sink.after_write:2"),
        ("upsert", "sink.before_write:2"),
        ("upsert", "sink.after_write:3"),
        ("upsert", "sink.after_commit:2"),
    ],
)
def test_postgres_holds_each_batch_once(mode: str, fault: str, postgres: str, tmp_path: Path) -> None:
    table = f"crash {mode} {fault}"
    sink = f"INTO 'postgres' OPTIONS (url '{postgres}', table '{table}', mode '{mode}')"
    killed(tmp_path / "db", sink, fault)
    workload.run(tmp_path / "db", sink)
    expected = workload.changes(tmp_path / "db")
    with psycopg.connect(postgres) as connection:
        rows = connection.execute(f"SELECT nullif(k, ''), v{', diff' if mode == 'changes' else ''} FROM \"{table}\"").fetchall()
    if mode == "changes":
        assert Counter(rows) == Counter((k, v, diff) for _, diff, k, v in expected)
    else:
        assert Counter(rows) == workload.net(expected)
        assert len(rows) == 6


@pytest.mark.parametrize(("fault", "again"), [("sink.before_write:2", 0), ("sink.after_write:2", 1), ("sink.after_commit:2", 0)])
def test_the_console_repeats_at_most_the_batch_that_was_cut_off(
    fault: str, again: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = killed(tmp_path / "db", "INTO 'console'", fault).splitlines()
    workload.run(tmp_path / "db", "INTO 'console'")
    after = capsys.readouterr().out.splitlines()
    workload.run(tmp_path / "whole", "INTO 'console'")
    undisturbed = capsys.readouterr().out.splitlines()
    repeated = len(before) + len(after) - len(undisturbed)
    assert bool(repeated) == bool(again)
    assert before + after[repeated:] == undisturbed
