"""Where a test may kill the process, as kill -9 would: before and after every write and every commit.

    MILLSTREAM_FAULT=tick.before_commit             the first time that the point is reached
    MILLSTREAM_FAULT=tick.before_commit:3           the third time
    MILLSTREAM_FAULT=delta.after_commit@queries     the first time that it is reached with this detail

Only names and counting live here; what must hold afterwards is the tests' business (tests/crash).  While nothing is armed, which is
always but in tests, a point costs a call and a comparison (60 ns on a busy machine).
"""

from __future__ import annotations

import os
import signal
from collections import Counter

reached: Counter[str] = Counter()
"""How often each point was, by name and by name@detail; counted only while something is armed."""

_armed: tuple[str, int] | None = None


def arm(fault: str | None) -> None:
    """The process ends at this point, in the form above; None: nowhere; an empty name: nowhere, but points are counted."""
    global _armed
    reached.clear()
    name, _, nth = (fault or "").partition(":")
    _armed = None if fault is None else (name, int(nth or 1))


def fault_point(name: str, detail: str = "") -> None:
    """Does nothing unless a crash is wanted exactly here."""
    if _armed is not None:
        _reach(name, detail)


def _reach(name: str, detail: str) -> None:
    assert _armed is not None
    for key in (name, f"{name}@{detail}") if detail else (name,):
        reached[key] += 1
        if (key, reached[key]) == _armed:
            os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("MILLSTREAM_FAULT"))
