"""Close and reopen, or kill -9, in the middle of a stream: the changelog ends up as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark.test_sources import rows, write

WORKLOAD = Path(__file__).parent / "crash_workload.py"
FILE_SOURCE = Path(__file__).parent / "crash_file_source.py"
FAULTS = ["tick.before_commit:3", "tick.after_commit:2", "changelog.before_publish:3", "stream.before_late:1", "delta.before_commit:3"]
FILE_FAULTS = ["file_journal.begun:2", "delta.after_commit:4", "delta.before_commit:4"]
"""In this order, each reached in a run that goes on where the one before was killed."""


def start(location: Path, fault: str | None = None, program: Path = WORKLOAD, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **({"MILLSTREAM_FAULT": fault} if fault else {})}
    return subprocess.Popen(
        [sys.executable, str(program), str(location), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )


def changelog(location: Path, program: Path = WORKLOAD, *arguments: str) -> list[str]:
    """Run to the end; what the queries have said."""
    process = start(location, None, program, *arguments)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    lines = output.splitlines()
    return lines[lines.index("changelog") + 1 : lines.index("end")]


def kill_at_batch(location: Path, number: int, *arguments: str) -> None:
    """kill -9 of the program, its JVM and its workers, as soon as it has begun the batch."""
    process = start(location, None, WORKLOAD, *arguments)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == f"batch {number}":
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    lines = changelog(tmp_path_factory.mktemp("undisturbed") / "db")
    assert len(lines) > 500
    return lines


def test_killed_again_and_again_during_ticks(undisturbed: list[str], tmp_path: Path) -> None:
    for number in (2, 5, 9):
        kill_at_batch(tmp_path / "db", number)
    assert sorted(changelog(tmp_path / "db")) == sorted(undisturbed)  # the order inside an instant is free


def test_killed_at_one_fault_point_after_the_other(undisturbed: list[str], tmp_path: Path) -> None:
    for fault in FAULTS:
        process = start(tmp_path / "db", fault)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, (fault, output)
    assert sorted(changelog(tmp_path / "db")) == sorted(undisturbed)  # the order inside an instant is free


def test_files_are_read_once_each_though_the_reader_is_killed(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for number in range(20):
        write(rows(number * 10, 10), incoming / f"{number}.parquet")
    for fault in FILE_FAULTS:
        process = start(tmp_path / "db", fault, FILE_SOURCE, str(incoming))
        output, _ = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, (fault, output)
    undisturbed = changelog(tmp_path / "undisturbed", FILE_SOURCE, str(incoming))
    assert len(undisturbed) > 200
    assert sorted(changelog(tmp_path / "db", FILE_SOURCE, str(incoming))) == sorted(undisturbed)
