"""A way into a stream that never makes its producer wait for the engine: a bounded queue, and a thread that inserts what waits.

    producer ── push ──► [ at most `capacity` rows ] ──► thread ──► the stream's log ──► ticks
                               └ full: drop, and count

Rows that have been taken off the queue are being made durable, and do not count.  What the file system refuses is tried again; a row
that does not fit is the stream's business, as in `insert`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from millstream.core.errors import ConfigInvalid, MillstreamError, SourceFailed, StorageFailed
from millstream.core.instant import Micros, to_micros
from millstream.core.schema import Schema
from millstream.language.catalog import StreamEntry
from millstream.runtime.bounded_rows import BoundedRows, Passed, Piece, Rows, WhenFull, counted, first_rows, rows_behind, together
from millstream.runtime.streams import Streams

log = logging.getLogger(__name__)

DEFAULT_CAPACITY = 10_000
_RETRY_S = 1.0


class Feed:
    """Of any number of threads.  A context manager: closed at the end, with all that waits inserted."""

    def __init__(
        self, entry: StreamEntry, insert: Callable[[Rows], object], advance: Callable[[Micros], object],
        capacity: int = DEFAULT_CAPACITY, when_full: WhenFull = "drop_oldest", arrived: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.stream = entry.name
        self._entry = entry
        self._insert, self._advance, self._arrived = insert, advance, arrived
        self._queue = BoundedRows(capacity, when_full)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._error: MillstreamError | None = None
        self._puts = self._done = 0  # calls so far, and how many of them are in the log or lost
        self._is_busy = False
        self._thread: threading.Thread | None = None

    @property
    def schema(self) -> Schema:
        """The stream's columns."""
        return self._entry.schema

    @property
    def timestamp_by(self) -> str:
        """The column that holds the time of a row."""
        return self._entry.timestamp_by

    @property
    def dropped(self) -> int:
        """Rows that did not fit into the queue."""
        return self._queue.dropped

    @property
    def waiting(self) -> int:
        return self._queue.waiting

    @property
    def capacity(self) -> int:
        return self._queue.capacity

    @property
    def error(self) -> MillstreamError | None:
        """Why it takes nothing any more."""
        return self._error

    def push(self, rows: object) -> None:
        """Rows in any form that `insert` takes.  Returns at once, unless the feed is to block and is full."""
        piece = counted(rows)
        with self._changed:
            self._check_open()
            while self._queue.when_full == "block" and len(piece) > self._queue.room:
                room = self._queue.room
                self._put(first_rows(piece, room))
                piece = rows_behind(piece, room)
                self._changed.wait_for(lambda: self._queue.room > 0 or self._closing.is_set() or self._error is not None)
                self._check_open()
            self._put(piece)

    def passed(self, ts: object) -> None:
        """A row at this time was there and not worth sending: time goes on as if it had been pushed."""
        with self._changed:
            self._check_open()
            self._queue.note(to_micros(ts) - self._entry.slack_us - 1)
            self._begin()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all that was pushed so far is in the stream; false if it takes longer."""
        with self._changed:
            upto = self._puts
            is_done = self._changed.wait_for(lambda: self._done >= upto or self._is_idle or self._error is not None, timeout_s)
        return is_done and self._error is None

    def close(self) -> None:
        """Insert what waits, and take no more.  Raises what has gone wrong meanwhile."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _is_idle(self) -> bool:
        return self._queue.is_empty and not self._is_busy

    def _put(self, piece: Rows) -> None:
        self._queue.put(piece)
        self._begin()

    def _begin(self) -> None:
        self._puts += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name=f"millstream-feed-{self.stream}", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _check_open(self) -> None:
        if self._error is not None:
            raise SourceFailed(f'the feed of stream "{self.stream}" has stopped: {self._error.message}', hint=self._error.hint)
        if self._closing.is_set():
            raise ConfigInvalid(f'the feed of stream "{self.stream}" is closed', hint="Open another with db.feed.")

    # --- the thread

    def _loop(self) -> None:
        while (taken := self._taken()) is not None:
            pieces, upto = taken
            try:
                for piece in together(pieces):
                    self._inserted(piece)
                error = None
            except MillstreamError as failure:
                error = failure
            except Exception as failure:
                error = SourceFailed(f"{type(failure).__name__}: {failure}")
            if error is not None:
                log.error('the feed of stream "%s" has stopped: %s', self.stream, error.message)
            with self._changed:
                self._is_busy, self._done, self._error = False, upto, error
                self._changed.notify_all()
            if error is not None:
                return
            self._arrived()

    def _taken(self) -> tuple[list[Piece], int] | None:
        """What waits, with the number of the last call that brought some of it; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue.is_empty or self._closing.is_set())
            if self._queue.is_empty:
                return None
            self._is_busy = True
            pieces = self._queue.take()
            self._changed.notify_all()  # there is room
            return pieces, self._puts

    def _inserted(self, piece: Piece) -> None:
        """There may be space again later; meanwhile the queue fills, and drops."""
        while True:
            try:
                if isinstance(piece, Passed):
                    self._advance(piece.ts)
                else:
                    self._insert(piece)
                return
            except StorageFailed:
                if self._closing.wait(_RETRY_S):
                    raise


class Feeds:
    """Those of a database, by stream."""

    def __init__(self, streams: Streams) -> None:
        self.arrived: Callable[[], None] = lambda: None
        self._streams = streams
        self._open: dict[str, list[Feed]] = {}
        self._dropped: dict[str, int] = {}  # by feeds that are closed

    def open(self, entry: StreamEntry, capacity: int, when_full: WhenFull) -> Feed:
        name = entry.name
        feed = Feed(
            entry, lambda rows: self._streams.insert(name, rows), lambda ts: self._streams.advance(name, ts), capacity, when_full,
            lambda: self.arrived(),
        )  # fmt: skip
        self._open.setdefault(name, [])
        self._forget_closed(name)
        self._open[name].append(feed)
        return feed

    def dropped(self, name: str) -> int:
        """By all feeds of the stream since the database was opened."""
        return self._dropped.get(name, 0) + sum(feed.dropped for feed in self._open.get(name, ()))

    def flush(self, timeout_s: float) -> None:
        """What waits now is in the streams afterwards, unless that takes longer."""
        for feeds in list(self._open.values()):
            for feed in list(feeds):
                feed.flush(timeout_s)

    def close(self, name: str) -> None:
        """Those of one stream, for good."""
        for feed in self._open.pop(name, []):
            _close(feed)
        self._dropped.pop(name, None)

    def close_all(self) -> None:
        for name in list(self._open):
            self.close(name)

    def _forget_closed(self, name: str) -> None:
        closed = [feed for feed in self._open[name] if feed._closing.is_set()]
        self._dropped[name] = self._dropped.get(name, 0) + sum(feed.dropped for feed in closed)
        self._open[name] = [feed for feed in self._open[name] if feed not in closed]


def _close(feed: Feed) -> None:
    try:
        feed.close()
    except MillstreamError as error:
        log.error('rows of a feed of stream "%s" are lost: %s', feed.stream, error.message)
