"""Daemons as Spark starts them, with this process in the place of the JVM: whose forks their workers are, and who ends when."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.spark.zygote_socket import Order, Refused, ask, note_refusal, receive, refuse, socket_path, take

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="daemons load for themselves elsewhere")
_PATIENCE_S = 60.0


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def await_true(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Daemon:
    """What Spark has of one."""

    def __init__(self, directory: str, **environment: str) -> None:
        surroundings = {
            **os.environ, "TMPDIR": directory, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), "SPARK_REUSE_WORKER": "1",
            "PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": directory, **environment,
        }  # fmt: skip
        command = [sys.executable, "-m", "millstream.spark.daemon", "pyspark.worker"]
        self._said = tempfile.TemporaryFile("w+")  # the zygote has it, too, for as long as it runs  # noqa: SIM115
        self.seen = subprocess.Popen(command, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, bufsize=0)
        assert self.seen.stdout is not None
        (size,) = struct.unpack("!i", self.seen.stdout.read(4))
        self._path = self.seen.stdout.read(size)
        self._workers: list[socket.socket] = []

    def worker(self) -> int:
        """Of a new one."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._path)
        self._workers.append(connection)
        (process,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
        return int(process)

    def kill(self, worker: int) -> None:
        assert self.seen.stdin is not None
        self.seen.stdin.write(struct.pack("!i", worker))

    def close(self) -> str:
        """As Spark does, and as the system does for Spark when it is killed; what was said on stderr."""
        assert self.seen.stdin is not None
        self.seen.stdin.close()
        self.seen.wait(_PATIENCE_S)
        for connection in self._workers:
            connection.close()
        with self._said as said:
            said.seek(0)
            return said.read()


@pytest.fixture
def directory() -> Iterator[str]:
    path = tempfile.mkdtemp(dir="/tmp")  # the names of sockets are short
    yield path
    shutil.rmtree(path)


def test_workers_of_all_daemons_have_one_ancestor_which_ends_with_the_last(directory: str) -> None:
    one, other = Daemon(directory, MILLSTREAM_BUCKET="0.0.0"), Daemon(directory, MILLSTREAM_BUCKET="0.1.0")
    workers = [one.worker(), one.worker(), other.worker()]
    zygotes = {parent(parent(worker)) for worker in workers}
    assert len(zygotes) == 1
    assert [Path(f"/proc/{worker}/comm").read_text() for worker in workers] == ["bucket 0.0.0\n", "bucket 0.0.0\n", "bucket 0.1.0\n"]
    assert len({parent(worker) for worker in workers}) == 2

    one.kill(workers[0])
    await_true(lambda: not Path(f"/proc/{workers[0]}").exists())  # not even as a zombie
    assert one.close() == ""
    await_true(lambda: not is_running(workers[1]))
    assert is_running(workers[2])
    assert is_running(zygotes.pop())

    zygote = parent(parent(workers[2]))
    assert other.close() == ""
    await_true(lambda: not is_running(workers[2]) and not is_running(zygote))
    assert list(Path(directory, f"millstream-{os.getuid()}").iterdir()) == []


def test_a_daemon_ends_with_its_stdin_whatever_has_become_of_the_process_that_stood_for_it(directory: str) -> None:
    daemon = Daemon(directory)
    worker = daemon.worker()
    zygote = parent(parent(worker))
    daemon.seen.send_signal(signal.SIGTERM)
    daemon.seen.wait(_PATIENCE_S)
    assert parent(daemon.worker()) == parent(worker)
    daemon.close()
    await_true(lambda: not is_running(worker) and not is_running(zygote))


def test_a_zygote_that_is_killed_leaves_its_daemons_and_another_takes_its_place(directory: str) -> None:
    one = Daemon(directory)
    worker = one.worker()
    first = parent(parent(worker))
    os.kill(first, signal.SIGKILL)
    await_true(lambda: not is_running(first))
    assert one.seen.poll() is None
    assert parent(one.worker()) == parent(worker)
    other = Daemon(directory)
    second = parent(parent(other.worker()))
    assert second not in (first, other.seen.pid)
    assert one.close() == ""
    assert other.close() == ""
    await_true(lambda: not is_running(worker) and not is_running(second))


def test_a_killed_daemon_is_seen_to_have_ended(directory: str) -> None:
    daemon = Daemon(directory)
    os.kill(parent(daemon.worker()), signal.SIGKILL)
    assert daemon.seen.wait(_PATIENCE_S) is not None
    daemon.close()


@pytest.mark.parametrize("trouble", ["threads", "does not load", "no private directory"])
def test_without_a_zygote_a_daemon_does_it_itself(directory: str, trouble: str) -> None:
    environment = {}
    match trouble:
        case "threads":
            environment["OMP_NUM_THREADS"] = "2"  # numpy's algebra starts one when it is loaded
        case "does not load":
            Path(directory, "numba.py").write_text("raise ImportError('broken')")
            environment["PYTHONPATH"] = os.pathsep.join([directory, *sys.path])
        case _:
            Path(directory, f"millstream-{os.getuid()}").mkdir(mode=0o755)
    daemon = Daemon(directory, **environment)
    assert parent(daemon.worker()) == daemon.seen.pid
    said = daemon.close()
    if trouble == "threads":
        again = Daemon(directory, **environment)  # which starts no other zygote to hear the same
        assert parent(again.worker()) == again.seen.pid
        assert again.close() == ""
    assert {"threads": "has 2 threads", "does not load": "broken"}.get(trouble, "not a directory of this user alone") in said


def test_surroundings_that_libraries_look_at_have_a_zygote_of_their_own(monkeypatch: pytest.MonkeyPatch, directory: str) -> None:
    monkeypatch.setenv("TMPDIR", directory)
    ours, other = os.getpid(), os.getppid()
    path = socket_path(ours)
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("MILLSTREAM_BUCKET", "3.1.0")
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    assert socket_path(ours) == path
    assert socket_path(other) != path
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert socket_path(ours) != path


def test_a_zygote_to_which_nobody_comes_ends(directory: str) -> None:
    """Who starts one may be killed before it says what for."""
    path = Path(directory, "17-0")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        command = [sys.executable, "-m", "millstream.spark.zygote", "17", str(path), str(listener.fileno())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, env=environment, pass_fds=[listener.fileno()], timeout=_PATIENCE_S, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not path.exists()


def test_notes_of_refusals_go_when_their_jvm_has_ended(directory: str) -> None:
    ended, ours = Path(directory, "4194305-0.refused"), Path(directory, f"{os.getpid()}-0.refused")
    ended.touch()
    ours.touch()
    note_refusal(str(Path(directory, f"{os.getpid()}-1")))
    assert sorted(path.name for path in Path(directory).iterdir()) == sorted([ours.name, f"{os.getpid()}-1.refused"])


def test_an_order_arrives_with_the_streams() -> None:
    asking, asked = socket.socketpair()
    order = Order(["daemon", "pyspark.worker"], "/", {"not UTF-8": "\udc80", "long": "x" * 50_000})
    if os.fork() == 0:
        try:
            there, streams = receive(asked)
            assert there == order
            assert [os.fstat(stream) for stream in streams] == [os.fstat(stream) for stream in (0, 1, 2)]
            take(asked)
        finally:
            os._exit(0)
    asked.close()
    handle = ask(asking, order)
    assert handle is not None
    os.close(handle)
    os.wait()


def test_a_refusal_and_an_end_are_two_answers() -> None:
    asking, asked = socket.socketpair()
    refuse(asked)
    with pytest.raises(Refused):
        ask(asking, Order([], "/", {}))
    asking, asked = socket.socketpair()
    asked.close()
    assert ask(asking, Order([], "/", {})) is None


def test_an_order_that_ends_in_the_middle_leaves_no_stream_open() -> None:
    asking, asked = socket.socketpair()
    socket.send_fds(asking, [b"o"], (0, 1, 2))
    asking.sendall(b'[["daemon"], "/"')
    asking.close()
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError):  # noqa: PT011
        receive(asked)
    assert set(os.listdir("/proc/self/fd")) == before
