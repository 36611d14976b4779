"""Opening a database from a command, such that Ctrl-C reaches the command and nothing else.

A terminal sends Ctrl-C to everything that runs in front of it: also to Spark's Python workers, which would die of it
in the middle of a tick, and PySpark's own handler would cancel the running jobs.  A command that is told to stop must
be able to stop its database in order, and the shell's Ctrl-C only means "enough of this SELECT".
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.api import Database, connect


def open_database(location: Path | None, master: str, *, tick_interval: float | None = 0.2) -> Database:
    with _interrupts_blocked():
        db = connect(None if location is None else str(location), master=master, tick_interval=tick_interval)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return db


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes that are started inside inherit the mask, and so do theirs: no interrupt ever gets to Spark's workers.

    One that comes meanwhile waits until we are out.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
