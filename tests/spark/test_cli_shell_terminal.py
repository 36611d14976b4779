"""The shell on a real terminal: prompt, several lines, live results, Ctrl-C, leaving."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")


class Terminal:
    """A program on a pseudo-terminal, as a person would use it."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment,
            # only the controlling terminal turns Ctrl-C into a signal
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self._seen = b""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, words: str, timeout_s: float = 90) -> str:
        """Reads until the words appear; what was shown up to them is consumed."""
        deadline = time.monotonic() + timeout_s
        while words.encode() not in _ESCAPES.sub(b"", self._seen):
            if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"{words!r} did not appear in {_ESCAPES.sub(b'', self._seen).decode(errors='replace')}")
            chunk = os.read(self._master, 65536)
            if b"\x1b[6n" in chunk:
                self.type("\x1b[1;1R")  # the prompt asks where the cursor is
            self._seen += chunk
        shown = _ESCAPES.sub(b"", self._seen)
        self._seen = shown[shown.index(words.encode()) + len(words.encode()) :]
        return shown.decode(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)


def test_a_person_at_the_shell(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50"}
    program = [sys.executable, "-c", "from millstream.cli.main import main; main()", "shell", "--master", "local[1]"]
    terminal = Terminal(program, environment)
    try:
        terminal.expect("millstream>")
        terminal.type("CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT)\r")
        terminal.expect("...")
        terminal.type("TIMESTAMP BY ts;\r")
        terminal.expect("ok")
        terminal.expect("millstream>")
        terminal.type("INSERT INTO trades VALUES (TIMESTAMP '1970-01-01T00:00:01Z', 'A', 5);\r")
        terminal.expect("ok")
        terminal.type("\\advance 1\r")
        terminal.type("SELECT sym, sum(size) AS n FROM trades [RANGE 10 SECONDS] GROUP BY sym;\r")
        terminal.expect("1970-01-01T00:00:01Z  + A, 5")
        terminal.type("\x03")
        terminal.expect("(1 change, up to 1970-01-01T00:00:01Z)")
        terminal.expect("millstream>")
        terminal.type("SELECT nothing FROM trades [NOW];\r")
        terminal.expect("[COLUMN_NOT_FOUND]")
        terminal.expect("millstream>")
        terminal.type(
            "CREATE STREAM beats (timestamp TIMESTAMP, value BIGINT) TIMESTAMP BY timestamp FROM 'rate' OPTIONS (rowsPerSecond '50');\r"
        )
        terminal.expect("ok")
        for i in range(3):
            # ticks run all the time now: Ctrl-C must not reach them
            terminal.expect("millstream>")
            terminal.type(f"SELECT count(*) AS n{i} FROM beats [RANGE 10 SECONDS];\r")
            terminal.expect("Z  + ")
            terminal.expect("Z  + ")
            terminal.type("\x03")
            terminal.expect("changes, up to ")
        terminal.expect("millstream>")
        terminal.type("SHOW QUERIES;\r")
        terminal.expect("(0 rows)")
        terminal.type("\\q\r")
        assert terminal.process.wait(timeout=60) == 0
    finally:
        terminal.close()
    assert "+CREATE STREAM trades" in (tmp_path / "millstream" / "history").read_text()
