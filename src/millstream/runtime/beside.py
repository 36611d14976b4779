"""The thread of the lane beside: one query after the other takes a bounded step, as long as one of them is due.

It comes when there is something to do and goes when there is not.  Whoever needs a query that is busy waits for the end of its step, and
goes before the next.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from millstream.core.errors import ClusterFailed, InternalError, MillstreamError, StorageFailed
from millstream.runtime.rounds import Rounds
from millstream.runtime.running_query import RunningQuery
from millstream.runtime.standing import Standing

log = logging.getLogger(__name__)

Result = TypeVar("Result")

SHORT_STEP_S, LONG_STEP_S = 0.5, 1.0
"""Steps get longer or shorter until they take about so long: that is how long one waits for a query that is busy."""
MOST_ROWS = 2_000_000
LIGHT_ROWS = 100_000
"""A query that has caught up and holds no more rows than this joins those in front: its caches are there again in no time."""
LIGHT_S = 0.1
"""... and whose last round took no longer."""


class Beside:
    def __init__(self, standing: Standing, rounds: Rounds) -> None:
        self._standing = standing
        self._rounds = rounds
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._waiting = 0
        self._last: list[str] = []  # incarnations, in the order of their turns
        self._jobs: list[Callable[[], None]] = []
        self._error: MillstreamError | None = None

    def kick(self) -> None:
        """Let what is due go on; raises what stopped it the last time."""
        with self._standing.lock:
            error, self._error = self._error, None
            if error is not None:
                raise error
            if self._thread is None and not self._stopping and (self._jobs or self._due()):
                self._thread = threading.Thread(target=self._loop, name="millstream-beside", daemon=True)
                self._thread.start()

    def run_until(self, done: Callable[[], bool]) -> None:
        """Returns when it is so, or when nothing is due any more; lets go of the lock, however often the caller has it."""
        committed = self._standing.committed
        with committed:
            while not done() and (self._thread is not None or self._jobs or self._due()) and not self._stopping:
                self.kick()
                committed.wait_for(lambda: done() or self._thread is None)
            self.kick()

    def is_due(self) -> bool:
        with self._standing.lock:
            return self._thread is not None or bool(self._due())

    def call(self, job: Callable[[], Result]) -> Result:
        """Something that takes long, done by the thread of this lane; lets go of the lock meanwhile, however often the caller has it."""
        done: list[Result | BaseException] = []

        def caught() -> None:
            try:
                done.append(job())
            except BaseException as error:
                done.append(error)

        self._jobs.append(caught)
        self.run_until(lambda: bool(done))
        if not done:
            raise ClusterFailed("the database was closed meanwhile")
        if isinstance(done[0], BaseException):
            raise done[0]
        return done[0]

    def await_idle(self, query: RunningQuery) -> None:
        """Nobody works for the query or in its lane, until the caller lets go of the lock."""
        self._waiting += 1
        try:
            self._standing.committed.wait_for(lambda: not query.is_busy and not (query.lane == "beside" and self._rounds.is_busy("beside")))
        finally:
            self._waiting -= 1
            self._standing.committed.notify_all()

    def stop(self) -> None:
        with self._standing.lock:
            self._stopping = True
            self._standing.committed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _due(self) -> list[RunningQuery]:
        """The one that waits longest comes first."""
        due = [query for query in self._standing.running() if query.lane == "beside" and self._is_due(query)]
        return sorted(due, key=lambda query: self._last.index(query.incarnation) if query.incarnation in self._last else -1)

    def _is_due(self, query: RunningQuery) -> bool:
        """Not while somebody gives it another plan, who lets go of the lock as well."""
        return not query.is_busy and (not query.started or self._standing.is_due(query))

    def _loop(self) -> None:
        with self._standing.lock:
            try:
                while not self._stopping and (self._jobs or self._due()):
                    self._standing.committed.wait_for(lambda: not self._waiting or self._stopping)
                    if self._jobs:
                        self._jobs.pop(0)()
                    elif due := self._due():
                        self._step(due[0])
            except (StorageFailed, ClusterFailed) as error:
                self._error = error
            except Exception as error:
                log.exception("the queries beside stopped")
                self._error = InternalError(f"the queries beside stopped: {type(error).__name__}: {error}")
            finally:
                self._thread = None
                self._standing.committed.notify_all()

    def _step(self, query: RunningQuery) -> None:
        self._last = [each for each in self._last if each != query.incarnation] + [query.incarnation]
        began = time.monotonic()
        light = query.started and query.stats.state_rows <= LIGHT_ROWS and query.last_seconds <= LIGHT_S
        self._rounds.run_beside([query], snapshot=light)
        took = time.monotonic() - began
        if not SHORT_STEP_S < took < LONG_STEP_S:
            query.step_rows = min(MOST_ROWS, max(1, int(query.step_rows * (2 if took <= SHORT_STEP_S else 0.5))))
        if light and query.error is None and query.snapshot is not None and query.snapshot.at == query.at and not self._is_due(query):
            self._rounds.move(query, "front")
