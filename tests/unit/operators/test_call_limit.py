"""Calls that take too long are ended, others are not, and nobody else's alarm is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from millstream.operators.call_limit import PROCESS, CallLimit, CallTimedOut
from millstream.operators.call_note import read_note


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_one_call_is_ended() -> None:
    began = time.monotonic()
    with pytest.raises(CallTimedOut), CallLimit(0.1, ""):
        busy(60)
    assert time.monotonic() - began < 30


def test_calls_that_go_on_are_not_ended_together() -> None:
    with CallLimit(0.2, "") as limit:
        for limit.row[0] in range(30):
            busy(0.02)


def test_somebody_elses_alarm_goes_on() -> None:
    rung = threading.Event()
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.set())
    timer = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with CallLimit(60, ""):
            busy(0.05)
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] < 0.3
        assert rung.wait(30)
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_another_thread_has_no_limit() -> None:
    done = []

    def run() -> None:
        with CallLimit(0.01, ""):
            busy(0.05)
        done.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done


def test_the_note_is_there_for_as_long_as_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "exchange" / "calling-0.json"
    monkeypatch.setattr(PROCESS, "note", note)
    monkeypatch.setattr(PROCESS, "owner", "7")
    with CallLimit(60, "function f"):
        assert read_note(note) == ("7", "function f")
    assert not note.exists()


DIES_AT_ROW_SEVEN = """
import os, sys
from pathlib import Path
import pyarrow as pa
from millstream.operators.call_limit import PROCESS, CallLimit
PROCESS.note = Path(sys.argv[1])
with CallLimit(60, 'function "f" failed on', [pa.array(range(10)), pa.array(list("abcdefghij"))]) as limit:
    for limit.row[0] in range(10):
        if limit.row[0] == 7:
            os._exit(3)
"""


def test_the_note_of_a_process_that_is_gone_tells_the_row(tmp_path: Path) -> None:
    note = tmp_path / "note"
    assert subprocess.run([sys.executable, "-c", DIES_AT_ROW_SEVEN, str(note)], check=False).returncode == 3
    assert read_note(note) == ("", "function \"f\" failed on (7, 'h')")


def test_a_call_without_arguments_has_a_note_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESS, "note", tmp_path / "note")
    with CallLimit(60, "function f failed on", []):
        assert read_note(tmp_path / "note") == (PROCESS.owner, "function f failed on ()")


CLOSES_ITS_SOCKETS = """
import os, socket, sys
from pathlib import Path
import pyarrow as pa
from millstream.operators.call_limit import PROCESS, CallLimit, open_sockets
ours, others = socket.socketpair()
PROCESS.note, PROCESS.sockets = Path(sys.argv[1]), open_sockets()
with CallLimit(60, 'function "f" failed on', [pa.array([1])]):
    socket.socket().close()
with CallLimit(60, 'function "f" failed on', [pa.array([1])]):
    again = ours.dup()  # the same socket by another number
    ours.close()
assert not PROCESS.note.exists()
with CallLimit(60, 'function "f" failed on', [pa.array([1])]):
    os.closerange(0, 64)
"""


def test_a_process_whose_sockets_a_function_closes_is_ended_and_the_function_is_told(tmp_path: Path) -> None:
    note = tmp_path / "note"
    assert subprocess.run([sys.executable, "-c", CLOSES_ITS_SOCKETS, str(note)], check=False).returncode == 1
    assert read_note(note) == ("", 'function "f" failed on one of its rows, by closing the sockets of its process')
