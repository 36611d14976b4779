"""The rows of a source in one bucket, kept once for all who read it.

What lies at or before a frontier is final: every reader that has come so far sees the same rows there, in the order of (ts, arrival),
however its feeds were cut.  So a store keeps these rows in one place, and whoever uses them only knows where it stands:

    since                                               at
      ├── segment ──┼───── segment ─────┼── segment ────┤ ··· pending (has arrived, may still get company)
                ▲                 ▲             ▲       ▲
            1 hour           1000 rows      a reader    the reader that is furthest
              └── windows: (oldest row held, newest) ──┘ that lags behind

* A reader (one source of one fragment) steps from frontier to frontier at its own pace; the first to get somewhere makes the segment.
* A window's stub holds no rows.  What leaves the window is read from the store again, so the store is as large as the largest window.
* Nobody but the store holds on to rows, so it may replace them by rows with more columns, drop columns, and join small segments.

Rows go when the last stub and the slowest reader have passed them.  A store is a cache: what a new reader needs can be read from the log
again, and is when it needs older rows or other columns.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch, concat, merge_by_instant
from millstream.operators.pending import PendingRows
from millstream.plan.physical import SourceExec
from millstream.runtime.messages import SourceFeed
from millstream.runtime.nodes import Profile

if TYPE_CHECKING:
    from millstream.runtime.store_reader import StoreReader

_SMALL = 1 << 14
"""Segments are joined up to this many rows, so that many small ticks do not make many small arrays."""

Read = Callable[[SourceFeed, int, Micros | None, Profile], list[SignedBatch]]
"""The rows of a feed with a sequence number after the one given and, if an instant is given, a timestamp before it, as they arrived.

What was read and what has passed the filters is counted."""


class SourceStore:
    def __init__(self, source: SourceExec, since: Micros) -> None:
        self.source = source
        self.schema = source.schema  # of rows that arrive now; older segments may have fewer columns
        self.since = since  # every row of the log from here up to `at` is here
        self.at: Micros = NEVER_BEFORE
        self.taken = -1  # the last sequence number taken in
        self.did = Profile()  # rows that were read, and those that have passed the filters
        self.readers: set[StoreReader] = set()
        self._segments: list[_Segment] = []
        self._pending = PendingRows(source.schema)

    # --- what comes in

    def admits(self, feed: SourceFeed, columns: Sequence[str]) -> bool:
        """Whether a new reader with this feed can read here.

        The feed must leave no gap behind or in what is final, nor take back what waits.  And it must have every row that is here: a window
        by count may hold on to rows for longer than the log does, which a reader of the log would not see, and could not read again.
        """
        reaches = feed.since <= self.at + 1 and self.at <= feed.whole_to
        outlived = self.between(max(feed.since, self.since), feed.whole_from - 1)
        return reaches and not outlived and (self._arrive_with(columns) or feed.upto >= self.taken)

    def extend(self, feed: SourceFeed, columns: Sequence[str], read: Read) -> None:
        """Everything that the feed of a new reader holds, with these columns: older rows, wider rows, new rows."""
        if self._arrive_with(columns):
            missing_to = self._complete_from(columns)
            older = read(feed, -1, missing_to, self.did) if feed.since < missing_to else []
        else:
            missing_to = self.at + 1
            rows = read(feed, -1, None, self.did)
            older = [batch.filter(batch.instant <= self.at) for batch in rows]
            self.source, self.schema, self._pending, self.taken = feed.read, feed.read.schema, PendingRows(feed.read.schema), feed.upto
            for batch in rows:
                self._pending.add(batch.filter(batch.instant > self.at))
        if feed.since < missing_to:
            self._replace(feed.since, missing_to, older)
        self.since = min(self.since, feed.since)
        self.take_in(feed, read)

    def take_in(self, feed: SourceFeed, read: Read) -> None:
        """The rows that are new; columns that nobody needs any more go."""
        if feed.upto <= self.taken:
            return
        self._drop_columns(feed.read.schema.names)
        arrived = read(feed, self.taken, None, self.did)  # all or, if that fails, nothing
        new_from = max(self.since, self.at + 1)  # what is final is here, even if it came later than all that the feeds so far had
        for batch in arrived:
            self._pending.add(_select(batch.filter(batch.instant >= new_from), self.schema))
        self.taken = feed.upto

    def advance(self, frontier: Micros) -> None:
        """Rows up to the frontier are final."""
        if frontier > self.at:
            released = self._pending.release(frontier)
            self.at = frontier
            self._append(released)

    def _append(self, rows: SignedBatch) -> None:
        """Behind all others."""
        if len(rows):
            self._segments.append(_Segment(rows))
            self._join_small()

    def _cut_before(self, instant: Micros) -> None:
        """No row from before is left."""
        while self._segments and self._segments[0].first < instant:
            rest = self._segments[0].between(instant, self._segments[0].last)
            self._segments[:1] = [_Segment(rest)] if len(rest) else []

    def _put_before(self, rows: SignedBatch) -> None:
        """In front of all others."""
        if len(rows):
            self._segments.insert(0, _Segment(rows))

    # --- what is read

    def between(self, low: Micros, high: Micros) -> list[SignedBatch]:
        """The final rows with low <= ts <= high, without copying them."""
        first = bisect_left(self._segments, low, key=_last)
        stop = bisect_right(self._segments, high, lo=first, key=_first)
        return [batch for segment in self._segments[first:stop] if len(batch := segment.between(low, high))]

    def first(self, low: Micros, skipped: int, count: int) -> list[SignedBatch]:
        """The first `count` final rows with low <= ts behind the first `skipped`; whoever asks knows that there are as many."""
        found, i = [], bisect_left(self._segments, low, key=_last)
        while count:
            batch = self._segments[i].between(low, self._segments[i].last)
            part = batch.slice(min(skipped, len(batch)), min(skipped + count, len(batch)))
            if len(part):
                found.append(part)
            skipped, count, i = max(0, skipped - len(batch)), count - len(part), i + 1
        return found

    def trim(self) -> None:
        """Let go of what no reader needs any more."""
        needed = min((reader.needs_from for reader in self.readers), default=self.at + 1)
        if needed > self.since:
            self.since = needed
            del self._segments[: bisect_left(self._segments, needed, key=_last)]
            if self._segments and self._segments[0].is_mostly_before(needed):
                self._segments[0] = _Segment(self._segments[0].copied_from(needed))

    @property
    def rows(self) -> int:
        return sum(len(segment.batch) for segment in self._segments) + self.waiting

    @property
    def waiting(self) -> int:
        """Rows beyond what is final."""
        return len(self._pending)

    @property
    def bytes(self) -> int:
        return sum(segment.nbytes for segment in self._segments) + self._pending.nbytes

    # --- columns

    def _arrive_with(self, columns: Sequence[str]) -> bool:
        return set(columns) <= set(self.schema.names)

    def _complete_from(self, columns: Sequence[str]) -> Micros:
        """From here on all rows are here, with these columns."""
        start = self.at + 1
        for segment in reversed(self._segments):
            if not set(columns) <= set(segment.batch.rows.schema.names):
                return start
            start = segment.first
        return self.since

    def _replace(self, low: Micros, high: Micros, batches: Sequence[SignedBatch]) -> None:
        """Other rows for low <= ts < high: those that were there and more, or with more columns."""
        before = self.between(self.since, low - 1)
        behind = self.between(max(high, self.since), self.at)
        new = [merge_by_instant([batch.filter(batch.instant >= low) for batch in batches])] if batches else []
        self._segments = [_Segment(batch) for batch in (*before, *new, *behind) if len(batch)]

    def _drop_columns(self, wanted: Sequence[str]) -> None:
        if set(self.schema.names) <= set(wanted):
            return
        self.schema = self.schema.select(tuple(name for name in self.schema.names if name in wanted))
        self._segments = [_Segment(_select(segment.batch, self.schema)) for segment in self._segments]
        self._pending = self._pending.select(self.schema)

    def _join_small(self) -> None:
        """As a counter carries: a row is copied a few times at most."""
        while len(self._segments) > 1:
            one, other = (segment.batch for segment in self._segments[-2:])
            if len(one) > 2 * len(other) or len(one) + len(other) > _SMALL or one.rows.schema != other.rows.schema:
                return
            self._segments[-2:] = [_Segment(concat([one, other]))]


class _Segment:
    """Rows of a span of time, sorted; at least one."""

    def __init__(self, batch: SignedBatch) -> None:
        self.batch = batch
        self.first, self.last = int(batch.instant[0]), int(batch.instant[-1])
        self.nbytes = batch.nbytes

    def is_mostly_before(self, instant: Micros) -> bool:
        return self.first < instant and int(np.searchsorted(self.batch.instant, instant)) > len(self.batch) // 2

    def copied_from(self, instant: Micros) -> SignedBatch:
        """Its rows from there on, without the buffers of the others: each row is copied once more at most before its turn comes."""
        return self.batch.take(np.arange(np.searchsorted(self.batch.instant, instant), len(self.batch)))

    def between(self, low: Micros, high: Micros) -> SignedBatch:
        start = int(np.searchsorted(self.batch.instant, low, side="left")) if self.first < low else 0
        stop = int(np.searchsorted(self.batch.instant, high, side="right")) if self.last > high else len(self.batch)
        return self.batch.slice(start, max(start, stop))


def _first(segment: _Segment) -> Micros:
    return segment.first


def _last(segment: _Segment) -> Micros:
    return segment.last


def _select(batch: SignedBatch, schema: Schema) -> SignedBatch:
    names = [name for name in schema.names if name in batch.rows.schema.names]
    return batch if names == batch.rows.schema.names else batch.with_rows(batch.rows.select(names))
