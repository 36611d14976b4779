"""Sources in Python that are told what the live queries need, and push rows through a feed of their own.

Each has a thread that tells it, so that one which takes its time to listen delays neither the engine nor the others.  It is told the
first demand soon after it is attached, and every one that differs from the last; of several changes in a row only the last counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from millstream.core.errors import MillstreamError, SourceFailed
from millstream.core.secrets import hide
from millstream.language.catalog import StreamEntry
from millstream.plan.physical import sources
from millstream.runtime.demand import Demand, Reader, demand_of
from millstream.runtime.engine import Engine
from millstream.runtime.feed import Feed
from millstream.runtime.invocations.registrations import Registrations

log = logging.getLogger(__name__)

LIVE = ("running", "waiting")
"""States of queries that need rows; one that waits for its functions will want those of meanwhile."""
CLOSE_S = 5.0


class PushSource(Protocol):
    """What `db.source` takes."""

    def start(self, feed: Feed) -> None:
        """Here is the feed to push through; nothing is wanted until `demand` says so."""
        ...

    def demand(self, demand: Demand) -> None:
        """What the live queries need from now on."""
        ...

    def stop(self) -> None:
        """The stream or the database is closed: push no more."""
        ...


class Proxies:
    def __init__(self, engine: Engine, registrations: Registrations) -> None:
        self._engine, self._registrations = engine, registrations
        self._attached: dict[str, list[_Attached]] = {}
        engine.stands.queries_changed = self.queries_changed

    def attach(self, entry: StreamEntry, source: PushSource, feed: Feed) -> None:
        source.start(feed)
        attached = _Attached(entry.name, source, lambda: self.demand_on(entry.name))
        self._attached.setdefault(entry.name, []).append(attached)

    def queries_changed(self) -> None:
        """A query has come, gone, stopped, been paused or resumed, or has other filters now.  Nobody waits here."""
        for attached in [each for all_ in list(self._attached.values()) for each in all_]:
            attached.look()

    def failure(self, name: str) -> MillstreamError | None:
        return next((each.error for each in self._attached.get(name, ()) if each.error is not None), None)

    def detach(self, name: str) -> None:
        """Those of a stream that goes.  They are told so by their own threads."""
        for attached in self._attached.pop(name, []):
            attached.end()

    def close(self) -> None:
        ending = [each for all_ in self._attached.values() for each in all_]
        for name in list(self._attached):
            self.detach(name)
        for attached in ending:
            attached.join(CLOSE_S)

    def demand_on(self, name: str) -> Demand:
        """What the live queries need of those who feed this stream."""
        with self._engine.lock:
            entry = self._engine.streams[name].entry
            live = [query for query in self._engine.stands.visible() if query.state in LIVE and name in query.inputs]
            readers = []
            for query in live:
                read = [each for fragment in query.plan.fragments for each in sources(fragment.root) if each.name == name]
                readers.append(Reader(read, query.rate))
            for registered in self._registrations.readers(name):
                readers.append(Reader([each for each in registered.reads if each.name == name]))
        return demand_of(entry, readers)


class _Attached:
    def __init__(self, stream: str, source: PushSource, demand: Callable[[], Demand]) -> None:
        self.error: MillstreamError | None = None
        self._stream = stream
        self._source = source
        self._demand = demand
        self._told: Demand | None = None
        self._news = threading.Event()
        self._news.set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"millstream-source-{stream}", daemon=True)
        self._thread.start()

    def look(self) -> None:
        self._news.set()

    def end(self) -> None:
        self._ending.set()
        self._news.set()

    def join(self, timeout_s: float) -> None:
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _loop(self) -> None:
        while not self._ending.is_set():
            self._news.wait()
            self._news.clear()
            if not self._ending.is_set():
                self._try(self._tell)
        self._try(self._source.stop)

    def _tell(self) -> None:
        demand = self._demand()
        if demand != self._told:
            self._source.demand(demand)
            self._told = demand

    def _try(self, action: Callable[[], None]) -> None:
        """The source is somebody else's code: what it raises is said, and it is told the next demand all the same."""
        try:
            action()
            self.error = None
        except Exception as error:
            self.error = SourceFailed(f'the source of stream "{self._stream}" raised {hide(f"{type(error).__name__}: {error}")}')
            log.warning("%s", self.error.message)
