"""Ctrl-C while changes are shown, at the worst moment: inside a finalizer, where Python forgets a KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from inline import open_inline
from millstream.cli.interrupts import Interrupt
from millstream.cli.shell_session import ShellSession

TIMES_LOOKED = 25


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    """A program that was started in the background may have inherited that Ctrl-C is nothing to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Dying:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


class InterruptedConsole(Console):
    """Ctrl-C comes while the first change is written; whoever goes on writing has not heard it."""

    written = 0

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **options)
        if any(" + A, 5" in str(one) for one in objects):
            Dying()
            self.written += 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_ctrl_c_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    def look(_: float) -> None:
        nonlocal looked
        looked += 1
        assert looked < TIMES_LOOKED, "Ctrl-C was forgotten"

    monkeypatch.setattr("millstream.cli.shell_session.time.sleep", look)
    console = InterruptedConsole(file=StringIO(), width=500)
    with open_inline(tmp_path / "db") as db:
        session = ShellSession(db, console, Console(file=StringIO()), interactive=True)
        session.run("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts;")
        session.run("INSERT INTO s VALUES (TIMESTAMP '1970-01-01T00:00:01Z', 'A', 5);")
        session.run("\\advance 1")
        session.run("SELECT k, v FROM s [RANGE 10 SECONDS];")
        assert not db.queries()
    assert console.written == 1
    assert "(1 change, up to 1970-01-01T00:00:01Z)" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_second_one_is_raised_and_afterwards_each_one() -> None:
    with Interrupt() as interrupt:
        assert not interrupt.came
        signal.raise_signal(signal.SIGINT)
        assert interrupt.came
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
