"""The sinks of a database: each with its own thread, position and troubles."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from millstream.core.errors import SinkFailed
from millstream.core.instant import NEVER_BEFORE, Micros, format_instant
from millstream.core.secrets import Options
from millstream.language.catalog import SinkEntry
from millstream.runtime.engine import Engine
from millstream.runtime.resolved_options import resolved_options
from millstream.runtime.running_query import RunningQuery
from millstream.runtime.sinks.delivery import MOST_CHANGES, Delivery
from millstream.runtime.sinks.kinds import check_sink, open_sink
from millstream.runtime.sinks.sink import Sink, SinkTarget

CLOSE_S = 5.0
"""How long closing waits for batches under way, all sinks together."""


class Sinks:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._running: dict[str, tuple[SinkEntry, Delivery]] = {}
        self._dropped: dict[str, Delivery] = {}  # by name in small letters: the last one, which may be delivering still

    def __iter__(self) -> Iterator[tuple[SinkEntry, Delivery]]:
        return iter(list(self._running.values()))

    def add(self, entry: SinkEntry, *, reopening: bool) -> None:
        """A new one is checked as far as that takes no time; one that was there before shows its troubles in SHOW SINKS."""
        query = self._engine.queries[entry.source]
        if not reopening:
            check_sink(self._target(entry, query), self._engine.location)

        predecessor = self._dropped.pop(entry.name.lower(), None)

        def opened() -> Sink:
            if predecessor is not None:
                predecessor.join(CLOSE_S)  # it may hold what this one needs
            target = self._target(entry, query)
            check_sink(target, self._engine.location)
            return open_sink(target, self._engine.location)

        delivery = Delivery(entry.name, opened, lambda since, upto: _read(entry, query, since, upto), entry.options.secrets)
        self._running[entry.name] = (entry, delivery)
        query.sink_positions[entry.name] = lambda: delivery.delivered

    def drop(self, name: str) -> None:
        """A batch under way may still arrive: nobody waits for it."""
        entry, delivery = self._running.pop(name)
        self._engine.queries[entry.source].sink_positions.pop(name)
        self._dropped[name.lower()] = delivery
        delivery.stop()
        self._engine.location.drop_sink(name)

    def follow(self) -> None:
        """Let every sink deliver up to its query's frontier."""
        with self._engine.lock:
            for entry, delivery in self:
                query = self._engine.queries.get(entry.source)
                if query is not None:
                    query.publish()
                    delivery.follow(query.at)

    def await_delivered(self) -> None:
        """Returns when every sink that works is where it was told to be; those that fail or hang are left behind."""
        for _, delivery in self:
            delivery.await_delivered()

    def close(self) -> None:
        for _, delivery in self:
            delivery.stop()
        deadline = time.monotonic() + CLOSE_S
        for _, delivery in self:
            delivery.join(max(0.0, deadline - time.monotonic()))

    def _target(self, entry: SinkEntry, query: RunningQuery) -> SinkTarget:
        format_ = entry.format.lower()
        given = resolved_options(f'sink "{entry.name}"', entry.options)
        # an object store's options are passed on as they are written
        options = Options({key if format_ == "delta" and key.lower() != "path" else key.lower(): value for key, value in given.items()})
        owner = f"{self._engine.location.id}:{entry.name.lower()}:{query.identity}"
        return SinkTarget(entry.name, format_, options, owner, query.fields)


def _read(entry: SinkEntry, query: RunningQuery, since: Micros, upto: Micros) -> tuple[pa.Table, Micros]:
    """A new sink of a query that does not retain everything begins with the answer as it was where the past was folded."""
    if NEVER_BEFORE < since < query.changelog.folded_to:
        kept = format_instant(query.changelog.folded_to)
        raise SinkFailed(f'sink "{entry.name}" says that it is at {format_instant(since)}, but its query keeps its past only from {kept}')
    return query.changelog.read_some(since, upto, MOST_CHANGES)
