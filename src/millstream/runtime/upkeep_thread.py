"""The thread of upkeep: it comes when upkeep is due and goes when it is done, and ticks go on meanwhile.

To merge what a busy stream leaves in ten seconds takes seconds: no tick may wait for that, and none should have to share its cores with it
all that time.  So it rests more than it works, except while somebody waits for it to end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from millstream.core.errors import InternalError, MillstreamError
from millstream.state.pace import Pace

log = logging.getLogger(__name__)

RESTS = 8.0
"""Times what a piece of work has taken.  With two streams of 370,000 rows/s each in slices of 50 ms, merging took a core for 2.2 of 10
seconds, in which ticks took up to 600 ms instead of 130.  With rests of 3 times the 99th percentile of the delay was 1.0 s, with 8 times
0.7 s."""


class UpkeepThread:
    def __init__(self, is_due: Callable[[], bool], run: Callable[[Pace], None], rests: float = RESTS) -> None:
        """`is_due` is asked only while nothing runs: whoever asks does it."""
        self._is_due = is_due
        self._run = run
        self._rests = rests
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._error: MillstreamError | None = None

    def kick(self) -> None:
        """Does what is due, if nothing is under way; raises what went wrong the last time, once."""
        with self._lock:
            error, self._error = self._error, None
            if error is not None:
                raise error
            if self._thread is None and not self._stopping.is_set() and self._is_due():
                self._thread = threading.Thread(target=self._work, name="millstream-upkeep", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Waits for what is under way; whoever calls must not have the lock of the database."""
        with self._lock:
            self._stopping.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        error: MillstreamError | None = None
        try:
            self._run(Pace(self._stopping.wait, self._rests))
        except MillstreamError as told:
            error = told
        except Exception as unknown:
            log.exception("upkeep stopped")
            error = InternalError(f"upkeep stopped: {type(unknown).__name__}: {unknown}")
        with self._lock:
            self._error, self._thread = error, None
