"""Ctrl-C as something to look at, for a loop that prints until it is told to stop.

Python raises KeyboardInterrupt wherever the program happens to be.  If that is inside a finalizer, of which a driver of
Spark has many, it is printed or forgotten, and whoever pressed Ctrl-C has to press it again.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """While inside, the first Ctrl-C is remembered; a second one is raised as always: its sender does not want to wait."""

    came = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
