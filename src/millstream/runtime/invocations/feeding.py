"""How far the soup is with a stream, and what it gets next of it.

    since              horizon                      frontier
──────┬───────────────────┬────────────────────────────┬─────────
gone  │ needed by nobody, │ in the data SteM, which    │ read already, and waiting
      │ gone soon         │ the windows reach back to  │
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.instant import GONE_NEVER, NEVER_BEFORE, UNITS, Micros
from millstream.runtime.invocations.messages import SoupFeed
from millstream.runtime.streams import OpenStream

LEAST_EXPIRY_US = UNITS["SECOND"]
SHARE = 4
"""Rows go when there are a quarter as many of them, by time, as are needed: to let go of a few costs as much as of many."""


@dataclass
class Fed:
    stream: OpenStream
    since: Micros
    """Rows from here on are in."""
    frontier: Micros = NEVER_BEFORE
    upto: int = -1
    """The greatest sequence number that has been read."""
    is_gone: bool = False
    """Nobody reads the stream any more, and its rows have been let go."""

    def reaches(self, stream: OpenStream, horizon: Micros) -> bool:
        """Whether all rows of this stream from the horizon on are in, or can be: rows cannot be put before others.

        One that was dropped and created again is another one of the same name.
        """
        if stream is not self.stream or self.is_gone:
            return False
        if horizon >= self.since:
            return True
        if stream.log.chunks_after(max(horizon, NEVER_BEFORE) - 1, self.since - 1):
            return False
        self.since = horizon  # there are none
        return True

    def next_feed(self, frontier: Micros, horizon: Micros) -> SoupFeed:
        """`frontier` was read before: all rows that it has passed are in the log."""
        stream = self.stream
        chunks = tuple(chunk for chunk in stream.log.chunks_after(max(self.frontier, self.since - 1)) if chunk.max_seq > self.upto)
        gone = None
        if horizon - self.since > max(LEAST_EXPIRY_US, (frontier - horizon) // SHARE):
            gone = horizon
        feed = SoupFeed(stream.entry.name, stream.entry.schema, str(stream.log.directory), chunks, self.upto, self.since, frontier, gone)
        self.frontier = frontier
        self.upto = max([self.upto, *(chunk.max_seq for chunk in chunks)])
        self.since = self.since if gone is None else gone
        return feed

    def last_feed(self) -> SoupFeed:
        """Lets go of everything."""
        self.is_gone = True
        name, schema, directory = self.stream.entry.name, self.stream.entry.schema, str(self.stream.log.directory)
        return SoupFeed(name, schema, directory, (), self.upto, GONE_NEVER, self.frontier, GONE_NEVER)
