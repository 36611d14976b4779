"""One relation that is read from elsewhere: when it is asked, who waits for the answer, and what becomes of troubles.

                 holds(reader)                   a thread
    tick ────────────────────► due? ── ask ──► [ read ─► take the difference over ] ──► answered: readers go on
                                 │                            │
                                 └ not yet: go on             └ fails: say so, ask again after 1 s, 2 s, 4 s ... 60 s

A reader waits for an answer once in a tick, and not for long: after a while it goes on with what the relation holds, and does
not wait again until the other side has answered in time.  Nobody holds a lock while it waits, and at most one question is under way.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

import pyarrow as pa

from millstream.core.errors import MillstreamError, SourceFailed
from millstream.core.instant import Micros
from millstream.core.secrets import hide
from millstream.runtime.clock import Clock
from millstream.runtime.pulls.origin import Reader

log = logging.getLogger(__name__)

LEAST_INTERVAL_S = 0.1
"""A relation is not asked more often than this, however many ticks there are."""
PATIENCE_S = 2.0
"""So long readers wait for an answer, while the relation holds an earlier one."""
TIMEOUT_S = 10.0
"""A question that has no answer by then is given up, as far as that can be done, and asked again later.  For the first one readers wait as
long: without it the relation holds nothing."""
LONGEST_PAUSE_S = 60.0


class Pull:
    def __init__(
        self, name: str, open_: Callable[[], Reader], take: Callable[[pa.Table], None], clock: Clock, *,
        interval_s: float | None = None, secrets: Callable[[], Iterable[str]] = tuple, answered: Callable[[], None] = lambda: None,
        patience_s: float = PATIENCE_S, timeout_s: float = TIMEOUT_S,
    ) -> None:  # fmt: skip
        """`take` makes rows the relation's contents; `interval_s` None: whenever somebody needs it."""
        self.name = name
        self.refreshed: Micros | None = None
        self.error: str | None = None
        self.questions = 0
        self._open, self._take, self._answered = open_, take, answered
        self._clock = clock
        self._interval_s = max(interval_s or 0.0, LEAST_INTERVAL_S)
        self._secrets = secrets
        self._patience_s, self._timeout_s = patience_s, timeout_s
        self._changed = threading.Condition()
        self._reader: Reader | None = None  # the thread's own while a question is under way
        self._asked_s: float | None = None
        self._is_asking = False
        self._is_slow = False  # it did not answer in time: nobody waits for it until it does
        self._stopped = False
        self._failures = 0
        self._waiting: set[str] = set()
        self._served: set[str] = set()

    # --- readers

    def holds(self, reader: str) -> bool:
        """Whether the reader's tick has to wait for an answer.  Asks, if it is time to."""
        with self._changed:
            if reader in self._served or not self._ask_if_due():
                return False
            self._waiting.add(reader)
            return True

    def release(self, reader: str) -> None:
        """Its tick takes place: for the next one it may wait again."""
        with self._changed:
            self._served.discard(reader)

    def ask(self) -> None:
        """If it is time to; for somebody who reads it now, and only once."""
        with self._changed:
            self._ask_if_due()

    def await_answer(self) -> None:
        """If one is under way, but not for long.  Whoever calls holds no lock."""
        with self._changed:
            if self._is_asking and not self._is_slow:
                answered = self._changed.wait_for(lambda: not self._is_asking or self._stopped, self._patience)
                if not answered:
                    self._give_up()

    def _ask_if_due(self) -> bool:
        """Whether an answer is worth waiting for."""
        if self._stopped:
            return False
        now = self._clock.seconds()
        if not self._is_asking and (self._asked_s is None or now - self._asked_s >= self._pause_s()):
            self._asked_s, self._is_asking = now, True
            self.questions += 1
            threading.Thread(target=self._ask, name=f"millstream-pull-{self.name}", daemon=True).start()
        elif self._is_asking and self._asked_s is not None and now - self._asked_s >= self._patience:
            self._give_up()
        return self._is_asking and not self._is_slow

    @property
    def _patience(self) -> float:
        return self._timeout_s if self.refreshed is None else self._patience_s

    def _pause_s(self) -> float:
        after_failures = min(LONGEST_PAUSE_S, 2.0 ** (self._failures - 1)) if self._failures else 0.0
        return max(self._interval_s, after_failures)

    def _give_up(self) -> None:
        if not self._is_slow:
            self._is_slow = True
            self.error = f"no answer for {self._patience:g} s"
            self._answer_readers()
            log.warning('relation "%s" is not answered for; what it held stays', self.name)

    def _answer_readers(self) -> None:
        self._served |= self._waiting
        self._waiting = set()
        self._changed.notify_all()

    # --- the end

    def stop(self) -> None:
        """Nothing is taken any more; a question under way is left alone with its answer."""
        with self._changed:
            self._stopped = True
            reader, self._reader = self._reader, None
            is_asking = self._is_asking
            self._answer_readers()
        if reader is not None:
            (reader.interrupt if is_asking else reader.close)()

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    # --- the thread

    def _ask(self) -> None:
        reader = self._reader
        try:
            if reader is None:
                reader = self._open()
                with self._changed:
                    self._reader = reader if not self._stopped else None
            rows = self._read_in_time(reader)
            if rows is not None:
                self._take(rows)
        except Exception as error:
            self._note_failure(error, reader)
        else:
            self._note_answer(reader)
        self._answered()

    def _read_in_time(self, reader: Reader) -> pa.Table | None:
        is_late = threading.Event()

        def give_up() -> None:
            is_late.set()
            reader.interrupt()

        late = threading.Timer(self._timeout_s, give_up)
        late.daemon = True
        late.start()
        try:
            return reader.read()
        except Exception as error:
            if is_late.is_set():  # what the reader says is what became of its being interrupted
                raise SourceFailed(f"no answer in {self._timeout_s:g} s") from error
            raise
        finally:
            late.cancel()

    def _note_answer(self, reader: Reader) -> None:
        with self._changed:
            took_s = self._clock.seconds() - (self._asked_s or 0.0)
            self._is_asking, self._is_slow = False, self._is_slow and took_s >= self._patience
            recovered, self._failures = self._failures > 0, 0
            self.error, self.refreshed = None, self._clock.now()
            stopped = self._stopped
            self._answer_readers()
        if stopped:
            _close(reader)
        elif recovered:
            log.info('relation "%s" is answered for again', self.name)

    def _note_failure(self, error: Exception, reader: Reader | None) -> None:
        reason = hide(_reason(error), self._secrets())
        with self._changed:
            self._is_asking, self._reader = False, None
            self._failures += 1
            self.error = reason
            stopped = self._stopped
            self._answer_readers()
        if reader is not None:
            _close(reader)
        if not stopped:
            log.warning('relation "%s" cannot be read, what it held stays: %s', self.name, reason)


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, MillstreamError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _close(reader: Reader) -> None:
    try:
        reader.close()
    except Exception:
        log.warning("what reads a relation could not be closed")
