"""The thread that ticks: whenever rows arrived or time moved, at most once per interval."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from millstream.core.errors import ClusterFailed, InternalError, MillstreamError, StorageFailed
from millstream.runtime.engine import Engine

log = logging.getLogger(__name__)

_FOLLOW_S = 1.0
"""How long the results' Delta tables and the sinks may lag behind the committed ticks."""
_RETRY_S = 1.0
"""How long to wait after the file system has refused something."""


class Ticker:
    def __init__(self, engine: Engine, interval_s: float | None, follow: Callable[[], None]) -> None:
        self._engine = engine
        self._follow = follow
        self._interval_s = interval_s
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: MillstreamError | None = None

    def start(self) -> None:
        if self._interval_s is not None:
            self._thread = threading.Thread(target=self._loop, name="millstream-ticker", daemon=True)
            self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def check(self) -> None:
        """Raise what stopped the thread, or keeps it from going on, if something does."""
        if self._error is not None:
            raise self._error

    def _tick(self) -> bool:
        """Until nothing is due; where rows come faster than that, for no longer than all the others may wait.  True: there may be more."""
        ends, more = time.monotonic() + _FOLLOW_S, False
        self._engine.streams.advance_idle()
        while not more and not self._stopping.is_set() and self._engine.tick() is not None:
            more = time.monotonic() >= ends
        self._engine.let_others_go_on()
        return more

    def _loop(self) -> None:
        assert self._interval_s is not None
        followed = time.monotonic()
        try:
            while not self._stopping.is_set():
                self._woken.wait(self._interval_s)
                self._woken.clear()
                began, more = time.monotonic(), False
                try:
                    more = self._tick()
                    if time.monotonic() - followed > _FOLLOW_S:
                        self._follow()
                        followed = time.monotonic()
                    self._error = None
                except (StorageFailed, ClusterFailed) as error:  # there may be space, or workers, again later
                    if self._error is None:
                        log.error("a tick could not be done, trying again", extra={"reason": str(error)})
                    self._error = error
                    self._stopping.wait(_RETRY_S)
                if more:
                    self._woken.set()
                else:
                    self._stopping.wait(max(0.0, self._interval_s - (time.monotonic() - began)))
        except MillstreamError as error:
            self._error = error
            log.error("the ticker stopped", extra={"reason": str(error)})
        except Exception as error:
            self._error = InternalError(f"the ticker stopped: {type(error).__name__}: {error}")
            log.exception("the ticker stopped")
