"""What a program takes, with all the processes that it starts: time, processor time, memory, seen from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVERY = 0.1
MEMORY_EVERY = 5
"""Memory is looked at in every so many looks: it takes the kernel a while to add up."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SESSION, _USER, _SYSTEM = 3, 11, 12  # places in /proc/PID/stat behind the name


@dataclass(frozen=True)
class Run:
    wall: float
    cpu: float
    peak_bytes: int
    """Of all processes together; pages that several share count once."""
    result: dict[str, Any]
    """What the program said of itself."""


class RunFailed(Exception):
    """The program failed, or took too long; what it said last."""


def measured(command: Sequence[str], *, environment: Mapping[str, str], timeout: float, until: Path | None = None) -> Run:
    """Runs it in a session of its own; nothing of it is left afterwards.

    What it does once it has made the file `until` is not measured.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=dict(environment), start_new_session=True)
        cpu: dict[int, float] = {}
        peak, looks, status, ended = 0, 0, None, None
        try:
            while status is None and time.perf_counter() - began < timeout:
                if ended is None and until is not None and until.exists():
                    ended = time.perf_counter()
                if ended is None:
                    cpu |= _cpu(process.pid)
                    if looks % MEMORY_EVERY == 0:
                        peak = max(peak, sum(_memory(pid) for pid in cpu))
                    looks += 1
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(EVERY)
            wall = (ended or time.perf_counter()) - began
        finally:
            left = _end(process)
        out.seek(0)
        err.seek(0)
        lines, complaint = out.read().splitlines(), err.read()
    if status is None:
        raise RunFailed(f"took more than {timeout:.0f} s")
    if status != 0:
        raise RunFailed(f"exit status {status}: {_last_line(complaint)}\n{complaint[-3000:]}")
    if left:
        raise RunFailed(f"left processes behind: {left}")
    said = [line for line in lines if line.startswith("RESULT ")]
    if not said:
        raise RunFailed("told no result\n" + complaint[-3000:])
    return Run(wall, sum(cpu.values()), peak, json.loads(said[-1].removeprefix("RESULT ")))


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def _end(process: subprocess.Popen[bytes]) -> list[int]:
    """Whoever is left of the session is stopped, after a moment in which it may end by itself."""
    if process.poll() is None:
        process.kill()
        process.wait()
    deadline = time.perf_counter() + 5
    while (left := list(_cpu(process.pid))) and time.perf_counter() < deadline:
        time.sleep(EVERY)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def _cpu(session: int) -> dict[int, float]:
    """Seconds of processor time of each living process of the session."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[_SESSION]) == session and fields[0] != "Z":
                    found[int(entry.name)] = (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS
    return found


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
