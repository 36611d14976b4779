"""Copies of a worker process that a user's function makes of it, with os.fork or with multiprocessing.

A copy has the sockets of its original, and as long as it has them nobody sees that the original is gone: Spark would wait for the
answer until the copy ends.  A copy that comes back from the call would answer too, and go on with the rows behind.  So a copy

    has no socket over which the original answers     those of its own making it keeps: they are how multiprocessing talks
    ends where the call ends that made it             (call_limit.py)
    ends when its original does                       on Linux; elsewhere it goes on, and is in nobody's way

Processes that are started otherwise, with subprocess for example, have no socket of ours from the beginning.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import cache, partial
from typing import Any

from millstream.operators.call_limit import PROCESS, open_sockets

_PR_SET_PDEATHSIG = 1
"""Of prctl(2): the signal that a process gets when its parent ends."""


@cache
def guard_against_copies() -> None:
    """In a worker process, before any function is called."""
    PROCESS.sockets, PROCESS.number = open_sockets(), os.getpid()
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # a copy had better load nothing
    os.register_at_fork(after_in_child=partial(_become_a_copy, prctl))


def _become_a_copy(prctl: Any) -> None:
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != PROCESS.number:  # who made it, be it a copy too, has ended before the signal was asked for
            os._exit(0)
    PROCESS.number = os.getpid()
    _leave_sockets()
    PROCESS.is_copy, PROCESS.note = True, None
    if PROCESS.limit is not None:
        PROCESS.limit.end_with_the_call()


def _leave_sockets() -> None:
    """Their descriptors lead nowhere from now on; closed, they would be given to the next file that is opened."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor, inode in open_sockets().items():
        if inode in PROCESS.sockets.values():
            os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
