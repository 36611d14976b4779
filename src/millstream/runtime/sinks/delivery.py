"""The thread that carries one sink forward, from where it is to where its query is.

           follow(upto)                          the target
    engine ───────────► [ read some ─► deliver ] ──────────► position
                          │     ▲
                          └ fails: say so, wait 1 s, 2 s, 4 s ... 60 s, open it again and ask it where it is

Nobody waits for this thread but who asks to (`await_delivered`, `join`), and those not for long.  The ticker takes its lock to tell it
how far it may go: so nothing that could take time, a line of the log included, is done under it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Literal

import pyarrow as pa

from millstream.core.errors import ConfigError, MillstreamError
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.secrets import hide
from millstream.runtime.sinks.sink import Sink

log = logging.getLogger(__name__)

MOST_CHANGES = 100_000
"""In one batch, unless one instant has more."""
PATIENCE_S = 10.0
"""Who waits for a sink gives it up when it has delivered nothing for so long."""
LONGEST_PAUSE_S = 60.0

SinkState = Literal["running", "retrying", "stopped"]
Reader = Callable[[Micros, Micros], tuple[pa.Table, Micros]]
Pause = Callable[[float], object]


class Delivery:
    def __init__(
        self, name: str, open_: Callable[[], Sink], read: Reader, secrets: Callable[[], Iterable[str]] = tuple, pause: Pause | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:  # fmt: skip
        """`read` gives the first changes between two instants and up to where they go; `pause` waits so many seconds, or is woken."""
        self.name = name
        self.state: SinkState = "running"
        self.delivered: Micros = NEVER_BEFORE
        self.error: str | None = None
        self._open = open_
        self._read = read
        self._secrets = secrets
        self._patience_s = patience_s
        self._target: Micros = NEVER_BEFORE
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._pause = pause or self._stopping.wait
        self._steps = 0  # of progress; who waits looks whether it grows
        self._given_up_at = -1
        self._failures = 0
        self._thread: threading.Thread | None = None

    def follow(self, upto: Micros) -> None:
        """Changes up to here may be read."""
        with self._changed:
            self._target = max(self._target, upto)
            if self._thread is None and upto > NEVER_BEFORE and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._loop, name=f"millstream-sink-{self.name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def await_delivered(self) -> bool:
        """Whether everything up to the target is there; false at once of a sink that fails, soon of one that hangs."""
        while (hangs := self._await_step()) is None:
            pass
        if hangs:
            log.warning('sink "%s" has delivered nothing for %s s', self.name, self._patience_s)
        return self.delivered >= self._target

    def _await_step(self) -> bool | None:
        """None after some progress; otherwise there is nothing to wait for, or (true) it has just been given up."""
        with self._changed:
            seen = self._steps
            if self.delivered >= self._target or self.state != "running" or seen == self._given_up_at:
                return False
            if self._changed.wait_for(lambda: self._steps != seen or self.state != "running", self._patience_s):
                return None
            self._given_up_at = seen
            return True

    def stop(self) -> None:
        """No further batch is begun."""
        self._stopping.set()
        with self._changed:
            self.state = "stopped"
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Wait for the batch under way; false if it takes longer.  It is then delivered again, and found done if it was."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    # --- the thread

    def _loop(self) -> None:
        sink: Sink | None = None
        while self._has_work():
            try:
                if sink is None:
                    sink = self._open()
                    self._note(sink.position(), recovered=False)
                else:
                    self._deliver_some(sink)
            except Exception as error:
                _close(sink)
                sink = None
                if self._note_failure(error) == "stopped":
                    return
                self._pause(min(LONGEST_PAUSE_S, 2.0 ** (self._failures - 1)))
        _close(sink)

    def _has_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or self._target > self.delivered)
            return not self._stopping.is_set()

    def _deliver_some(self, sink: Sink) -> None:
        changes, upto = self._read(self.delivered, self._target)
        if changes.num_rows:
            sink.deliver(changes, upto)
        self._note(upto, recovered=True)

    def _note(self, delivered: Micros, *, recovered: bool) -> None:
        with self._changed:
            recovered = recovered and self._failures > 0
            self.delivered = delivered
            self._steps += 1
            if recovered:
                self._failures = 0
                self.error = None
                self.state = self.state if self._stopping.is_set() else "running"
            self._changed.notify_all()
        if recovered:
            log.info('sink "%s" delivers again', self.name)

    def _note_failure(self, error: Exception) -> SinkState:
        """What is wrong in the statement stays wrong; all else may pass."""
        with self._changed:
            if self._stopping.is_set():  # dropped or closed: whatever went away meanwhile is nobody's concern
                return "stopped"
            self._failures += 1
            self.error = hide(_reason(error), self._secrets())
            self.state = "stopped" if isinstance(error, ConfigError) else "retrying"
            self._changed.notify_all()
        log.warning('sink "%s" is %s: %s', self.name, self.state, self.error)
        return self.state


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, MillstreamError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _close(sink: Sink | None) -> None:
    if sink is not None:
        try:
            sink.close()
        except Exception:
            # whatever it held goes with it; the position is in the target
            log.warning("a sink could not be closed")
