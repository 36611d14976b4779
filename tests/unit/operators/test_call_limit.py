"""Calls that take too long are ended, others are not, and nobody else's alarm is lost."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import pytest

from millstream.operators.call_limit import PROCESS, CallLimit, CallTimedOut


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
        for limit.row in range(30):
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
        assert json.loads(note.read_text()) == {"owner": "7", "told": "function f"}
    assert not note.exists()
