"""Where a test may kill the process: `MILLSTREAM_FAULT=name` or `name:3` (the third time) ends it there, as kill -9 would.

Only names and counting live here; what must hold afterwards is the tests' business.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

_reached: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Does nothing unless the environment asks for a crash exactly here."""
    wanted = os.environ.get("MILLSTREAM_FAULT")
    if not wanted:
        return
    wanted_name, _, nth = wanted.partition(":")
    if name != wanted_name:
        return
    _reached[name] += 1
    if _reached[name] == int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)
