"""Runs the workload in processes that die, and says what came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from crash.workload import leftovers

TESTS = Path(__file__).parents[1]


class Zygote:
    """Starts runs of the workload; see zygote.py."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.seconds = 0.0  # that the last run took
        path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def run(self, directory: Path, fault: str | None = None, kill_after: float | None = None, *, only_open: bool = False) -> int:
        """The exit status: 0 at the end of the workload, -9 if it was killed.  Anything else is a failure of the test.

        With `only_open` it ends as if it were killed when the database is open, and leaves what was counted.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        directory.mkdir(exist_ok=True)
        order = {"directory": str(directory), "fault": fault, "kill_after": kill_after, "only_open": only_open}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"status": "the zygote is dead"}')
        assert answer["status"] in (0, -signal.SIGKILL), f"{order}: {answer}\n{self._log.read_text()[-6000:]}"
        self.seconds = answer["seconds"]
        return int(answer["status"])

    def finish(self, directory: Path) -> dict[str, Any]:
        """Undisturbed from here on; what is seen at the end, and that nothing is left behind."""
        assert self.run(directory) == 0
        assert leftovers(directory / "db") == []
        return seen(directory)


def seen(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / "seen.json").read_text()))
