"""How long one call of a user's Python function may take, and what is left to say if it takes its process with it.

    every eighth of the limit, SIGALRM ──► is it still the same call?  ── for as long as the limit ──► CallTimedOut, raised inside it
    twice the limit without a look     ──► the process ends itself (faulthandler's thread needs no GIL)

A call that goes on from row to row is never ended, however many rows there are.  Python's own loops end at once, and so do sleeps,
locks and sockets.  Code in C that never comes back can only be ended with its process; only a process that has a note to leave does
that, for whoever finds the note to know which call it was.  Only the main thread gets signals: that is where Spark's workers run
their tasks.  Elsewhere there is no limit.

A function may also close the sockets over which its process would answer.  Such a process is ended, too, with its note left.
"""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

import pyarrow as pa

from millstream.operators.call_note import write_note

LOOKS = 8
"""So many times within the limit we look whether the call goes on."""
_GRACE_S = 1.0


class CallTimedOut(BaseException):
    """Not an Exception: `except Exception` in the function must not swallow it.  Who catches even this, gets it again."""


@dataclass
class Process:
    """This process, as far as calls are concerned."""

    note: Path | None = None  # where it says which call it is in; None: nobody would look
    owner: str = ""  # the query that calls
    sockets: dict[int, int] = field(default_factory=dict)  # those it had before any function was called: descriptor and inode
    limit: CallLimit | None = None  # of the calls that it is in
    is_copy: bool = False  # that a function has made of it (forked_copies.py)
    number: int = 0  # the system's, once copies of it are guarded against: what its copies find as their parent's


PROCESS = Process()


def open_sockets() -> dict[int, int]:
    """The sockets of this process, as far as the system lets us list them."""
    found = {}
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        inode = _socket(int(name))
        if inode is not None:
            found[int(name)] = inode
    return found


def _socket(descriptor: int) -> int | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_ino if stat.S_ISSOCK(status.st_mode) else None


def _has_lost_sockets() -> bool:
    """Spark may give one of them another descriptor from task to task: it is lost when none is left."""
    if all(_socket(descriptor) == inode for descriptor, inode in PROCESS.sockets.items()):
        return False
    return not set(PROCESS.sockets.values()) <= set(open_sockets().values())


class _NoMoreRows:
    """In the place of the row that is being called: whoever goes on to the next one has come to its end."""

    def __getitem__(self, _: int) -> int:
        return 0

    def __setitem__(self, _: int, row: int) -> None:
        os._exit(0)


class CallLimit:
    """Entered around the calls of one batch; `row[0]` is the one that is being called.  `told` says which call it is.

    `arguments` are those of a function that is called row by row: what is told ends with the row's.
    """

    def __init__(self, seconds: float, told: str, arguments: Sequence[pa.Array] | None = None) -> None:
        self.row: memoryview | _NoMoreRows = memoryview(bytearray(8)).cast("q")
        self._arguments = arguments
        self._seconds = seconds
        self._told = told
        self._seen = 0
        self._since = 0.0
        self._note = PROCESS.note
        self._ends_here = False
        self._is_set = math.isfinite(seconds) and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> CallLimit:
        PROCESS.limit = self
        if self._note is not None:
            self.row = write_note(self._note, PROCESS.owner, self._told, self._arguments)
        if self._is_set:
            self._since = self._began = time.monotonic()
            self._handler = signal.signal(signal.SIGALRM, self._look)
            self._timer = signal.setitimer(signal.ITIMER_REAL, self._seconds / LOOKS, self._seconds / LOOKS)
            self._put_off_the_end()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._ends_here:
            os._exit(0)
        PROCESS.limit = None
        if self._is_set:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._handler)
            left, interval = self._timer
            if left:  # somebody else's alarm goes on
                signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - self._began), 1e-6), interval)
        if self._note is not None:
            faulthandler.cancel_dump_traceback_later()
            if _has_lost_sockets():
                self._end_process(self._note)
            self._note.unlink(missing_ok=True)

    def end_with_the_call(self) -> None:
        """In a copy of the process that was called: it is in one of the calls, and the others are not its business."""
        self.row, self._ends_here = _NoMoreRows(), True

    def _end_process(self, note: Path) -> NoReturn:
        """It cannot answer any more; which of the rows it was that closed its sockets, nobody has seen."""
        rows = "" if self._arguments is None else " one of its rows"
        write_note(note, PROCESS.owner, f"{self._told}{rows}, by closing the sockets of its process", None)
        os._exit(1)

    def _look(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.row[0] != self._seen:
            self._seen, self._since = self.row[0], now
            self._put_off_the_end()
        elif now - self._since >= self._seconds:
            raise CallTimedOut

    def _put_off_the_end(self) -> None:
        if self._note is not None:
            faulthandler.dump_traceback_later(2 * self._seconds + _GRACE_S, exit=True)
