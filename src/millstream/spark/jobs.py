"""Spark jobs that outlive the loss of executors.

Spark runs a lost task again by itself, a few times; then, and in local mode at once, it gives the whole job up.  Our jobs may
be run again as a whole: their tasks write files under names of their own, or give the answer that they gave before.  So a
failure of machines is no failure of a query.  What a job's own code does wrong is not tried again.

With no executor left at all Spark waits without a word.  We wait too, and say so.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from pyspark import SparkContext

from millstream.core.errors import ClusterFailed
from millstream.spark.executors import executor_ids, is_local

log = logging.getLogger(__name__)

Result = TypeVar("Result")

PAUSES_S = (0.2, 1.0, 2.0, 4.0, 8.0)
"""Before each further try of a job."""
PATIENCE_S = 5.0
"""So long a job may be without executors before we say so, ..."""
SAY_AGAIN_S = 60.0
"""... and again."""
_POLL_S = 0.5

_OF_MACHINES = re.compile(
    r"ExecutorLostFailure|FetchFailed|TaskResultLost|[Pp]ython worker (exited unexpectedly|failed to connect back|has terminated)"
    r"|Executor heartbeat timed out"
)
"""What Spark says when a machine or a process is gone, and the task's code was not to blame."""
_OF_THE_IDLE = re.compile(r"IOException: (Stream closed|Broken pipe)")
"""... when a daemon has ended together with its workers: Spark finds them dead one by one, and each time cannot tell the daemon."""
_MOST_IDLE = 100
"""Workers of one task that may have waited for work with that daemon."""
_NOT_INSTALLED = re.compile(r"No module named '(millstream|numba|duckdb|pyarrow|deltalake|sqlglot)[.']")


class Jobs:
    """Runs jobs; each of them any number of times."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._is_local = is_local(context)
        self._closing = threading.Event()

    def run(self, job: Callable[[], Result]) -> Result:
        tries = idle = 0
        while True:
            try:
                return self.once(job)
            except Exception as error:
                if not self._is_worth_another_try(error):
                    raise
                if _OF_THE_IDLE.search(str(error)) and idle < _MOST_IDLE:
                    idle += 1
                    continue
                tries += 1
                if tries > len(PAUSES_S):
                    raise ClusterFailed(
                        f"Spark gave a job up {tries} times: {_reason(error)}",
                        hint="Executors or their Python processes keep dying, for want of memory perhaps: see their logs. Nothing is lost.",
                    ) from error
                log.warning("Spark has lost a worker process and with it a job, which runs again: %s", _reason(error))
            self._closing.wait(PAUSES_S[tries - 1])

    def once(self, job: Callable[[], Result]) -> Result:
        """For whoever can do without the answer."""
        with self._watched():
            return job()

    def is_survived(self, job: Callable[[], object]) -> bool:
        """Whether no process is lost with it."""
        try:
            self.once(job)
        except Exception as error:
            if self._is_worth_another_try(error):
                return False
            raise
        return True

    def close(self) -> None:
        """Jobs that wait for executors are given up from now on; others are not touched."""
        self._closing.set()

    def _is_worth_another_try(self, error: Exception) -> bool:
        """Raises what it is, if it is neither for another try nor for the caller to explain."""
        if self._is_stopped():
            raise ClusterFailed(
                "Spark has stopped, or has dropped this application", hint="Connect again: all that was committed is there."
            ) from error
        text = str(error)
        if missing := _NOT_INSTALLED.search(text):
            raise ClusterFailed(
                f'the executors have no Python module "{missing[1]}"',
                hint="Install millstream for the Python of the workers (PYSPARK_PYTHON), or ship an environment: see docs/cluster.md.",
            ) from error
        if self._closing.is_set() and not self._has_executors():
            raise ClusterFailed("the database was closed while no executor of Spark was left") from error
        return _of_machines(text) is not None

    def _is_stopped(self) -> bool:
        try:
            return self._context._jsc is None or bool(self._context._jsc.sc().isStopped())
        except Exception:  # the JVM itself is gone
            return True

    def _has_executors(self) -> bool:
        return self._is_local or bool(executor_ids(self._context))

    # --- a job that waits for executors

    @contextmanager
    def _watched(self) -> Iterator[None]:
        if self._is_local:
            yield
            return
        tag, done = f"millstream-{uuid.uuid4().hex}", threading.Event()
        self._context.addJobTag(tag)
        threading.Thread(target=self._watch, args=(tag, done), name="millstream-watch", daemon=True).start()
        try:
            yield
        finally:
            done.set()
            with suppress(Exception):  # Spark may be gone; then what happened inside says so
                self._context.removeJobTag(tag)

    def _watch(self, tag: str, done: threading.Event) -> None:
        seen = time.monotonic()  # when there last were executors
        say_at = seen + PATIENCE_S
        with suppress(Exception):  # Spark is gone: the job itself fails of it
            while not done.wait(_POLL_S):
                now = time.monotonic()
                if self._has_executors():
                    seen, say_at = now, now + PATIENCE_S
                elif self._closing.is_set():
                    self._context.cancelJobsWithTag(tag)
                elif now >= say_at:
                    log.warning(
                        "no executor of Spark is left, for %.0f s now: answers wait until %s has a worker with free cores again",
                        now - seen,
                        self._context.master,
                    )
                    say_at = now + SAY_AGAIN_S


def _of_machines(text: str) -> re.Match[str] | None:
    return _OF_MACHINES.search(text) or _OF_THE_IDLE.search(text)


def _reason(error: Exception) -> str:
    found = _of_machines(str(error))
    line = next((line for line in str(error).splitlines() if found and found[0] in line), type(error).__name__)
    return line.strip()[-300:]
