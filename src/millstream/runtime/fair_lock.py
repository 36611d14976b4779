"""A reentrant lock that goes to whoever waits: one thread that takes it again and again leaves room for the others in between.

Python's own may be had again by the thread that has just let go of it, and the ticker would keep everybody waiting while it has work.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any


class FairRLock:
    """Whoever wants it waits first for its turn: who has the turn is the only one to wait for the lock itself."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._lock = threading.RLock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_owned():
            return self._lock.acquire()
        with self._turn:
            return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    # --- what threading.Condition asks of a reentrant lock

    def _is_owned(self) -> bool:
        return self._lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def _release_save(self) -> Any:
        return self._lock._release_save()  # type: ignore[attr-defined]

    def _acquire_restore(self, state: Any) -> None:
        with self._turn:
            self._lock._acquire_restore(state)  # type: ignore[attr-defined]
