"""Keeping a database in shape while it runs: old rows go, small files are merged, replaced ones are deleted.

What may go is decided under the lock, by what every query still needs; the work is done beside the ticks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from millstream.core.errors import DataDamaged, StorageFailed
from millstream.core.instant import NEVER_BEFORE, UNITS, Micros
from millstream.runtime.running_query import RunningQuery
from millstream.runtime.standing import Standing
from millstream.runtime.streams import OpenStream
from millstream.state.pace import AT_ONCE, Pace
from millstream.state.snapshot import prune_snapshots

log = logging.getLogger(__name__)

DEFAULT_RETENTION_US = UNITS["DAY"]
"""A stream without RETAIN keeps this much event time, and always what live windows need."""
MAINTAIN_S = 10.0
"""How often small files are merged and old ones go, at the most."""


class Upkeep:
    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._done = standing.clock.seconds()
        self.has_run = False
        """Since the database was opened."""

    def is_due(self) -> bool:
        """At most once in a while; whoever asks does it."""
        if self._standing.clock.seconds() - self._done < MAINTAIN_S:
            return False
        self._done = self._standing.clock.seconds()
        return True

    def run(self, pace: Pace = AT_ONCE) -> None:
        stands, self.has_run = self._standing, True
        with stands.lock:
            streams = [
                (stream, self._taken_in(stream.entry.name), self._horizon(stream, stands.readers(stream.entry.name)))
                for stream in stands.streams.everything
            ]
            for stream, _, horizon in streams:
                stream.log.retain(horizon, rejected_before=stands.clock.now() - _retention_us(stream))
            results = [(query, self._taken_in(query.name), self._kept_from(query)) for query in stands.queries.values()]
            for query in stands.queries.values():
                if query.snapshot is not None and not query.is_busy:
                    self.prune_snapshots(query)
            for name in stands.relations:
                settled = self._settled(name)
                with _damage_told(f'relation "{name}"'):
                    stands.relations.bring_to(name, stands.earliest_change(name))
                    stands.relations.maintain(name, settled, self._taken_in(name))
        # merging reads and writes files: nobody has to wait for it
        for stream, bound, horizon in streams:
            with _damage_told(f'stream "{stream.entry.name}"', partial(self._is_dropped, stream)):
                stream.log.compact(upto_seq=bound, span_us=_about_an_eighth(stream.frontier - horizon), pace=pace)
                stream.log.vacuum()
        for query, bound, kept_from in results:
            with _damage_told(f'query "{query.name}"', partial(getattr, query, "dropped")):
                query.changelog.fold(kept_from, query.followed_to, is_stream=query.is_stream)
                span_us = None if query.retain_us is None else _about_an_eighth(query.retain_us)
                query.changelog.compact(upto_seq=bound, horizon=kept_from, span_us=span_us, pace=pace)
                query.changelog.vacuum()

    def prune_snapshots(self, query: RunningQuery) -> None:
        """Only the last snapshot of a query is ever read."""
        stem = Path(query.snapshot.stem) if query.snapshot is not None else None
        files = [file.name for file in stem.parent.glob(f"{stem.name}-*")] if stem is not None else []
        prune_snapshots(self._standing.location.snapshot_dir(query.name), keep=files)

    def _is_dropped(self, stream: OpenStream) -> bool:
        return stream not in self._standing.streams.everything

    def _taken_in(self, name: str) -> int | None:
        """The sequence number up to which every query over this input has its rows; None if there is no such query."""
        return min((query.fed.get(name, -1) for query in self._standing.readers(name)), default=None)

    def _settled(self, relation: str) -> Micros:
        """The instant up to which nobody needs to know the relation's changes one by one: neither to go on nor to begin."""
        known = [stream.frontier for stream in self._standing.streams.everything if stream.frontier > NEVER_BEFORE]
        known += [query.snapshot.at if query.snapshot else query.at for query in self._standing.readers(relation)]
        return min(known, default=NEVER_BEFORE)

    def _horizon(self, stream: OpenStream, readers: list[RunningQuery]) -> Micros:
        """Rows before this instant are needed by nobody: not by retention, not by a window, not for a replay."""
        needed = self._standing.needed_from(stream.entry.name)
        return min([stream.frontier - _retention_us(stream), needed, *map(_replayed_from, readers)])

    def _kept_from(self, query: RunningQuery) -> Micros:
        """Changes of its answer up to this instant need not be known one by one: not by retention, not by sinks, not for a replay of
        who reads it.
        """
        if query.retain_us is None:
            return NEVER_BEFORE
        needed = [query.at - query.retain_us, query.followed_to()]
        return min([*needed, *(_replayed_from(reader) - 1 for reader in self._standing.readers(query.name))])


def _replayed_from(query: RunningQuery) -> Micros:
    """The instant from which on it needs the rows that it reads, should its caches get lost."""
    return query.snapshot.at - query.held_us if query.snapshot else NEVER_BEFORE


@contextmanager
def _damage_told(what: str, is_gone: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Files that cannot be read stay as they are; the others are looked after all the same.  What has been dropped meanwhile has none."""
    try:
        yield
    except (DataDamaged, StorageFailed) as error:
        if is_gone():
            return
        if isinstance(error, StorageFailed):
            raise
        log.error("damaged files are left alone: %s: %s", what, error.message)


def _about_an_eighth(kept_us: Micros) -> Micros:
    """A power of two: what is kept may vary a little, and spans of time must not."""
    return 1 << max(0, (kept_us // 8).bit_length() - 1)


def _retention_us(stream: OpenStream) -> Micros:
    return DEFAULT_RETENTION_US if stream.entry.retain_us is None else stream.entry.retain_us
