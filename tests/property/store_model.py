"""A log in memory, and windows over a store beside windows that keep their rows themselves.

The log is the truth: every row with its place in the order of arrival, and how far the frontier was when it had arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.newest_rows import NewestRowsOp
from millstream.operators.time_window import RowQueue, TimeWindowOp
from millstream.plan.physical import Single, SourceExec
from millstream.plan.shared_reading import SharedSources
from millstream.plan.window import RowsWindow, WindowSpec
from millstream.runtime.messages import FragmentTask, SourceFeed, StageTask
from millstream.runtime.nodes import Profile
from millstream.runtime.source_store import SourceStore
from millstream.runtime.store_reader import StoreReader
from millstream.runtime.stores import Stores

COLUMNS = ("a", "b", "c")
Row = tuple[int, int]  # ts, place in the order of arrival: every column is made of the latter


def source(columns: tuple[str, ...]) -> SourceExec:
    schema = Schema(tuple(Field(name, pa.int64()) for name in columns))
    return SourceExec("s", "stream", False, tuple((name, name, pa.int64()) for name in columns), (), schema, Single(), False)


def batch_of(rows: Sequence[Row], columns: tuple[str, ...]) -> SignedBatch:
    ts, seq = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64)
    arrays = [pa.array(seq * 10 + COLUMNS.index(name)) for name in columns]
    return SignedBatch.arrivals(ts, pa.RecordBatch.from_arrays(arrays, names=list(columns)))


def rows_of(batch: SignedBatch) -> list[Row]:
    seq = batch.rows.column(0).to_numpy() // 10
    return list(zip(batch.instant.tolist(), seq.tolist(), strict=True))


@dataclass
class Log:
    """Rows as they arrive; a feed's rows lie under its directory."""

    rows: list[Row] = field(default_factory=list)
    frontiers: list[Micros] = field(default_factory=lambda: [0])  # when so many rows had arrived: all later ones lie beyond
    whole_from: Micros = NEVER_BEFORE
    feeds: dict[str, list[Row]] = field(default_factory=dict)
    _dropped: set[Row] = field(default_factory=set)

    @property
    def frontier(self) -> Micros:
        return self.frontiers[-1]

    def arrive(self, offsets: list[int], advance: int) -> None:
        """Rows so far ahead of the frontier, which then moves."""
        for offset in offsets:
            self.rows.append((self.frontiers[-1] + offset, len(self.rows)))
            self.frontiers.append(self.frontiers[-1])
        self.frontiers[-1] += advance

    def drop(self, horizon: Micros, spared: int) -> None:
        """Whole chunks go when all of their rows are old: some rows stay that are as old."""
        gone = {row for row in self.rows if row[0] < horizon and row[1] % 4 != spared}
        if gone:
            self._dropped |= gone
            self.whole_from = max(self.whole_from, horizon)

    def kept(self, after: Micros, upto: Micros) -> list[Row]:
        """In the order of (ts, arrival)."""
        return sorted(row for row in self.rows if after < row[0] <= upto and row not in self._dropped)

    def rebuild_feed(self, shared: SharedSources, own: SourceExec, upto: int, since: Micros, rest: int) -> SourceFeed:
        """Its files have more rows than those since the instant that is asked for; it ends with the last row that they have."""
        rows = [row for row in self.rows[: upto + 1] if row[0] >= since - rest and row not in self._dropped]
        return self._feed(shared, own, rows, -1, max((seq for _, seq in rows), default=-1), since)

    def feed(self, shared: SharedSources, own: SourceExec, at: Micros, after: int, upto: int) -> SourceFeed:
        return self._feed(shared, own, [row for row in self.rows[after + 1 : upto + 1] if row[0] > at], after, upto, NEVER_BEFORE)

    def _feed(self, shared: SharedSources, own: SourceExec, rows: list[Row], after: int, upto: int, since: Micros) -> SourceFeed:
        found = shared.of(own)
        assert found is not None
        name = str(len(self.feeds))
        self.feeds[name] = rows
        return SourceFeed(found.read, name, after, upto, (), (), found.name, since, self.whole_from)

    def read(self, feed: SourceFeed, after: int, before: Micros | None, did: Profile) -> list[SignedBatch]:
        rows = [row for row in self.feeds[feed.table_dir] if row[1] > after and (before is None or row[0] < before)]
        return [batch_of(part, feed.read.schema.names) for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]) if part]


class Pair:
    """A window over the store, and the same window over rows of its own."""

    def __init__(
        self, log: Log, stores: Stores, others: Sequence[Pair], columns: tuple[str, ...], spec: WindowSpec, at: Micros,
        upto: int | None = None, look_back: Micros | None = None, rest: int = 0,
    ) -> None:  # fmt: skip
        """`look_back`: a new query, with the rows since so long before; None: one that comes back from its snapshot."""
        self.source, self.columns, self.spec, self.at = source(columns), columns, spec, at
        self._log, since = log, max(0, at - (spec.held_us if look_back is None else look_back))
        upto = len(log.rows) - 1 if upto is None else upto
        feed = log.rebuild_feed(SharedSources([self.source, *(other.source for other in others)]), self.source, upto, since, rest)
        admitting = [pair.store for pair in others if pair.admits(feed, columns)]
        fragment = FragmentTask("q", "1", 0, None, 1, at, at, (feed,), (), None, "", ())  # type: ignore[arg-type]
        self.reader = stores.join(StageTask("db", 1, 0, "", (), frozenset()), fragment, self.source, feed, log.read)
        assert self.store in admitting if admitting else self.store not in [pair.store for pair in others]
        self._shared = _operator(self.source.schema, spec, self.reader)
        self._alone = _operator(self.source.schema, spec, None)
        if look_back is None:
            self._come_back(since)
        else:
            self.at = since - 1
            self._step(at)

    @property
    def store(self) -> SourceStore:
        return self.reader._store

    @property
    def needs_from(self) -> Micros:
        """The oldest instant that the window has rows of.  Windows that pass over rows may keep those between."""
        queues = [self._alone._held] if isinstance(self._alone, NewestRowsOp) else [self._alone._live, self._alone._waiting]
        oldest = [int(queue.chunks()[0][0][0]) for queue in queues if isinstance(queue, RowQueue) and queue.rows]
        passes_over = not isinstance(self.spec, RowsWindow) and self.spec.admits(np.zeros(1, np.int64)) is not None
        return min([self.at + 1, *oldest, *([self.reader.needs_from] if passes_over else [])])

    def admits(self, feed: SourceFeed, columns: tuple[str, ...]) -> bool:
        """Whether the store of this one is to serve a reader with this feed."""
        both = self.store.between(max(feed.since, self.store.since), self.store.at)
        gap = feed.since > self.store.at + 1
        lost = any(ts < self._log.whole_from for batch in both for ts in batch.instant)
        narrow = not set(columns) <= set(self.store.schema.names)
        return not gap and not lost and not (narrow and feed.upto < self.store.taken)

    def step(self, shared: SharedSources, frontier: Micros, unfed: int = 0) -> None:
        upto = max(len(self._log.rows) - 1 - unfed, self.reader.taken)
        news = upto > self.store.taken
        feed = self._log.feed(shared, self.source, self.at, self.reader.taken, upto)
        self.reader.take_in(feed, self._log.read)
        if news:
            kept = [self.store.schema.names, *(batch.rows.schema.names for batch in self.store.between(NEVER_BEFORE, self.store.at))]
            assert all(set(names) <= set(feed.read.schema.names) for names in kept), "columns that nobody needs"
        self._step(max(self.at, min(frontier, self._log.frontiers[upto + 1])))

    def _step(self, frontier: Micros) -> None:
        expected = batch_of(self._log.kept(self.at, frontier), self.columns)
        arrived = self.reader.release(frontier)
        assert list(arrived.changes()) == list(expected.changes())
        one, other = self._shared.step(arrived, frontier), self._alone.step(expected, frontier)
        assert list(one.changes()) == list(other.changes())
        self.at = frontier
        self.check()

    def check(self) -> None:
        assert self._shared.contents(_nothing).equals(self._alone.contents(_nothing))
        assert self._shared.state_rows() == self._alone.state_rows()

    def _come_back(self, since: Micros) -> None:
        past, expected = self.reader.release(self.at), batch_of(self._log.kept(since - 1, self.at), self.columns)
        assert list(past.changes()) == list(expected.changes())
        if isinstance(self._shared, NewestRowsOp) or isinstance(self._alone, NewestRowsOp):
            before = _operator(self.source.schema, self.spec, None)
            before.step(batch_of(self._log.kept(NEVER_BEFORE, self.at), self.columns), self.at)
            self._shared.load(before.save())
            self._alone.load(before.save())
        else:
            self._shared.prime(past.instant, past.rows, self.at)
            self._alone.prime(expected.instant, expected.rows, self.at)


def check_what_is_kept(log: Log, pairs: Sequence[Pair]) -> None:
    """Of stores that were trimmed: all rows that somebody needs, and of others no more than of these."""
    for store in {pair.store for pair in pairs}:
        needed = min(pair.needs_from for pair in pairs if pair.store is store)
        final = [row for batch in store.between(NEVER_BEFORE, store.at) for row in rows_of(batch)]
        live = [row for row in final if row[0] >= needed]
        assert live == sorted(set(live))
        assert set(log.kept(needed - 1, store.at)) <= set(live) <= set(log.rows)
        assert len(final) <= 2 * len(live), "rows that nobody needs"
        assert store.rows == len(final) + len([row for row in log.rows[: store.taken + 1] if row[0] > store.at])


def _operator(schema: Schema, spec: WindowSpec, reader: StoreReader | None) -> TimeWindowOp | NewestRowsOp:
    if isinstance(spec, RowsWindow):
        return NewestRowsOp(schema, spec, RowQueue if reader is None else reader.window(spec))
    return TimeWindowOp(schema, spec, RowQueue if reader is None else reader.window(spec))


def _nothing() -> pa.RecordBatch:
    raise AssertionError("a window keeps its contents itself")
