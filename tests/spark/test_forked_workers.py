"""All Python workers of a session come from one process that has loaded: what that means when somebody is killed, and at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.spark.tick_jobs import SparkRunner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers load for themselves elsewhere")
_PATIENCE_S = 30.0

_PROGRAM = """
import os, sys, threading, time
from millstream.spark.session import create_session
from millstream.spark.tick_jobs import SparkRunner

session = create_session("local[2]")
runner = SparkRunner(session, 2)
runner.process_ids()
begun = sys.argv[1]
def be_busy(_):
    open(begun, "w").close()
    time.sleep(600)
busy = session.sparkContext.parallelize([0], 1)
threading.Thread(target=lambda: busy.foreach(be_busy), daemon=True).start()
while not os.path.exists(begun):
    time.sleep(0.01)
jvm = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
print("ready", jvm, flush=True)
sys.stdin.readline()
session.stop()
print("stopped", flush=True)
sys.stdin.readline()
"""


def process_id(_: object) -> int:
    return os.getpid()


def ancestors(process: int) -> list[int]:
    parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return [] if parent <= 1 else [parent, *ancestors(parent)]


def await_true(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def source_workers(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext.parallelize([0, 1], 2).map(process_id).collect())


def test_workers_of_buckets_and_sources_have_one_ancestor(spark: SparkSession) -> None:
    with closing(SparkRunner(spark, 2)) as runner:
        buckets = runner.process_ids()
        zygotes = {ancestors(worker)[-1] for worker in {*buckets, *source_workers(spark)}}
        assert len(zygotes) == 1
        assert b"millstream.spark.zygote" in Path(f"/proc/{zygotes.pop()}/cmdline").read_bytes()
        assert len(set(buckets)) == 2
        assert runner.process_ids() == buckets


def test_a_worker_has_the_environment_and_the_numbers_of_its_own(spark: SparkSession) -> None:
    def told(_: object) -> tuple[str, float, str]:
        import numpy as np

        return os.environ["MILLSTREAM_BUCKET"], float(np.random.rand()), os.getcwd()

    with closing(SparkRunner(spark, 2)) as runner:
        (one, number, here), (other, different, there) = runner._run(told, [(0, None), (1, None)])
    assert one != other
    assert number != different
    assert here == there == os.getcwd()


def test_when_the_zygote_is_killed_workers_go_on_and_lost_ones_come_back(spark: SparkSession) -> None:
    with closing(SparkRunner(spark, 2)) as runner:
        buckets = runner.process_ids()
        zygote = ancestors(buckets[0])[-1]
        os.kill(zygote, signal.SIGKILL)
        await_true(lambda: not is_running(zygote))
        assert runner.process_ids() == buckets
        daemon = ancestors(buckets[0])[0]
        os.kill(daemon, signal.SIGKILL)
        os.kill(buckets[0], signal.SIGKILL)
        again = runner.process_ids()
        assert again[1] == buckets[1]
        assert ancestors(again[0])[-1] not in (zygote, daemon)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "begun")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.communicate()
    await_true(lambda: not session_of(process.pid))


def session_of(leader: int) -> dict[int, str]:
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, *fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == leader and state != "Z":
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
    return found


def forked(leader: int) -> list[int]:
    """The zygote and what is forked from it, and the processes that Spark has started for them."""
    ours = ("millstream.spark.zygote", "millstream.spark.daemon")  # Spark itself has the daemon's name among its settings
    return [process for process, command in session_of(leader).items() if any(f" {module}" in command for module in ours)]


@pytest.mark.parametrize("end", ["close", "close without those that stand for daemons", "kill the JVM", "kill the driver"])
def test_nothing_is_left_behind(program: subprocess.Popen[str], end: str) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    _, jvm = program.stdout.readline().split()
    assert len(forked(program.pid)) >= 1 + 3 * 3  # the zygote; for each environment what Spark started, a daemon, a worker
    if "without" in end:
        seen = [process for process, command in session_of(program.pid).items() if command.rstrip().endswith(" millstream.spark.daemon")]
        assert len(seen) >= 3
        for process in seen:
            os.kill(process, signal.SIGKILL)
        await_true(lambda: not any(map(is_running, seen)))
    match end:
        case "close" | "close without those that stand for daemons":
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline() == "stopped\n"
        case "kill the JVM":
            os.kill(int(jvm), signal.SIGKILL)
        case _:
            program.kill()
    await_true(lambda: forked(program.pid) == [])


def test_daemons_that_end_with_their_workers_cost_no_row(tmp_path: Path) -> None:
    """Spark finds its idle workers dead, cannot tell the daemon so, and gave the source up for good."""
    program = Path(__file__).with_name("ended_daemons.py")
    done = subprocess.run([sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["300 300"]), done.stderr[-3000:]
