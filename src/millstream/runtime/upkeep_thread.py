"""The thread of upkeep: it comes when upkeep is due and goes when it is done, and ticks go on meanwhile.

To merge what a busy stream leaves in ten seconds takes seconds: no tick may wait for that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from millstream.core.errors import InternalError, MillstreamError

log = logging.getLogger(__name__)


class UpkeepThread:
    def __init__(self, is_due: Callable[[], bool], run: Callable[[], None]) -> None:
        """`is_due` is asked only while nothing runs: whoever asks does it."""
        self._is_due = is_due
        self._run = run
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._error: MillstreamError | None = None

    def kick(self) -> None:
        """Does what is due, if nothing is under way; raises what went wrong the last time, once."""
        with self._lock:
            error, self._error = self._error, None
            if error is not None:
                raise error
            if self._thread is None and not self._is_stopping and self._is_due():
                self._thread = threading.Thread(target=self._work, name="millstream-upkeep", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Waits for what is under way; whoever calls must not have the lock of the database."""
        with self._lock:
            self._is_stopping = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        error: MillstreamError | None = None
        try:
            self._run()
        except MillstreamError as told:
            error = told
        except Exception as unknown:
            log.exception("upkeep stopped")
            error = InternalError(f"upkeep stopped: {type(unknown).__name__}: {unknown}")
        with self._lock:
            self._error, self._thread = error, None
