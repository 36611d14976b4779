"""The cluster of a test run, by scripts/cluster, and a driver program on it; both as processes that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
SCRIPT = CHECKOUT / "scripts" / "cluster"
WORKERS = ("worker-1", "worker-2")


class Cluster:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.master = self.start()

    def start(self) -> str:
        """Also brings workers back that were killed."""
        return self._script("start").strip()

    def stop(self) -> None:
        ours = set(self._processes().values())
        self._script("stop")
        assert not ours & processes().keys(), "a process of the cluster outlived it"

    def worker(self, name: str) -> int:
        """The process id of the daemon."""
        return self._processes()[name]

    def _processes(self) -> dict[str, int]:
        state = json.loads((self._directory / "state.json").read_text())
        return {name: int(process["pid"]) for name, process in state["processes"].items()}

    def executors(self, worker: str) -> list[int]:
        """Its children that run tasks."""
        daemon = self.worker(worker)
        return [pid for pid, (parent, command) in processes().items() if parent == daemon and "CoarseGrainedExecutorBackend" in command]

    def _script(self, action: str) -> str:
        command = [sys.executable, str(SCRIPT), action, "--dir", str(self._directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def kill(*processes: int) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)


def executor_of(python_worker: int) -> int:
    """A worker's parent is a daemon of Python, whose parent is the zygote of the executor, named in its command."""
    running = processes()
    daemon, _ = running[python_worker]
    _, zygote = running[running[daemon][0]]
    return int(zygote.split("millstream.spark.zygote ")[1].split()[0])


def processes() -> dict[int, tuple[int, str]]:
    """id -> (parent, command) of all processes that run here."""
    if Path("/proc/self/stat").exists():  # small images of Linux have no ps
        return dict(filter(None, map(_described, Path("/proc").glob("[0-9]*"))))
    listed = subprocess.run(["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    lines = (line.split(maxsplit=2) for line in listed.splitlines())
    return {int(pid): (int(parent), " ".join(command)) for pid, parent, *command in lines}


def _described(process: Path) -> tuple[int, tuple[int, str]] | None:
    try:
        state, parent, *_ = (process / "stat").read_text().rpartition(")")[2].split()
        command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return (int(process.name), (int(parent), command)) if state != "Z" else None


class DriverProcess:
    """driver.py, run as a program."""

    def __init__(self, master: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("driver.py")), master],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.warnings: deque[str] = deque()
        self._answer()

    def __call__(self, do: str, *, on_batch: Callable[[int], None] | None = None, on_warning: Callable[[str], None] | None = None,
                 **arguments: Any) -> Any:  # fmt: skip
        """One command; its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._answer(on_batch, on_warning)
        if "error" in answer:
            raise DriverError(answer["error"], answer["message"])
        return answer["done"]

    def stop(self) -> None:
        """It, its JVM and what else it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _answer(self, on_batch: Callable[[int], None] | None = None, on_warning: Callable[[str], None] | None = None) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told: dict[str, Any] = json.loads(line)
            if "done" in told:
                return told
            if "warning" in told:
                self.warnings.append(told["warning"])
                if on_warning is not None:
                    on_warning(told["warning"])
            elif on_batch is not None:
                on_batch(told["batch"])
        raise AssertionError(f"the driver ended with {self._process.wait()}")


class DriverError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"[{code}] {message}")
        self.code = code
