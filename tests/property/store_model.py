"""A log in memory, and windows over a store beside windows that keep their rows themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.newest_rows import CountedRows, NewestRowsOp
from millstream.operators.time_window import HeldRows, RowQueue, TimeWindowOp
from millstream.plan.physical import Single, SourceExec
from millstream.plan.shared_reading import SharedSources
from millstream.plan.window import RowsWindow, TimeWindow, WindowSpec
from millstream.runtime.messages import FragmentTask, SourceFeed, StageTask
from millstream.runtime.stores import Stores

COLUMNS = ("a", "b", "c")
Row = tuple[int, int]  # ts, place in the order of arrival: every column is made of the latter


def source(columns: tuple[str, ...]) -> SourceExec:
    schema = Schema(tuple(Field(name, pa.int64()) for name in columns))
    return SourceExec("s", "stream", False, tuple((name, name, pa.int64()) for name in columns), (), schema, Single(), False)


def batch_of(rows: list[Row], columns: tuple[str, ...]) -> SignedBatch:
    ts, seq = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64)
    arrays = [pa.array(seq * 10 + COLUMNS.index(name)) for name in columns]
    return SignedBatch.arrivals(ts, pa.RecordBatch.from_arrays(arrays, names=list(columns)))


@dataclass
class Log:
    """Rows as they arrive; a feed's rows lie under its directory."""

    rows: list[Row] = field(default_factory=list)
    frontier: Micros = 0
    feeds: dict[str, list[Row]] = field(default_factory=dict)

    def arrive(self, offsets: list[int], advance: int) -> None:
        """Rows so far ahead of the frontier, which then moves."""
        self.rows += [(self.frontier + offset, len(self.rows) + i) for i, offset in enumerate(offsets)]
        self.frontier += advance

    def feed(self, shared: SharedSources, own: SourceExec, rows: list[Row], after: int, since: Micros) -> SourceFeed:
        found = shared.of(own)
        assert found is not None
        name = str(len(self.feeds))
        self.feeds[name] = rows
        upto = len(self.rows) - 1
        return SourceFeed(found.read, name, after, upto, (), (), found.name, since)

    def read(self, feed: SourceFeed, after: int, before: Micros | None) -> list[SignedBatch]:
        rows = [row for row in self.feeds[feed.table_dir] if row[1] > after and (before is None or row[0] < before)]
        return [batch_of(part, feed.read.schema.names) for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]) if part]


class Pair:
    """A window over the store, and the same window over rows of its own."""

    def __init__(
        self, log: Log, stores: Stores, others: list[Pair], columns: tuple[str, ...], spec: TimeWindow, at: Micros, rest: int
    ) -> None:
        self.source, self.columns, self.at = source(columns), columns, at
        self._log, self.since = log, max(at - spec.held_us, NEVER_BEFORE)
        rows = [row for row in log.rows if row[0] >= self.since - rest]  # files have more than was asked for
        feed = log.feed(SharedSources([self.source, *(other.source for other in others)]), self.source, rows, -1, self.since)
        fragment = FragmentTask("q", "1", 0, None, at, at, (feed,), (), None, "", ())  # type: ignore[arg-type]
        self.reader = stores.join(StageTask("db", 1, 0, 1, "", (), frozenset()), fragment, self.source, feed, log.read)
        self._shared = TimeWindowOp(self.source.schema, spec, self.reader.window(spec))
        self._alone = TimeWindowOp(self.source.schema, spec)
        past, expected = self.reader.release(at), self._expected(self.since - 1, at)
        assert list(past.changes()) == list(expected.changes())
        self._shared.prime(past.instant, past.rows, at)
        self._alone.prime(expected.instant, expected.rows, at)

    def step(self, shared: SharedSources, frontier: Micros) -> None:
        taken = self.reader.taken
        feed = self._log.feed(shared, self.source, [row for row in self._log.rows if row[1] > taken], taken, NEVER_BEFORE)
        self.reader.take_in(feed, self._log.read)
        arrived, expected = self.reader.release(frontier), self._expected(self.at, frontier)
        assert list(arrived.changes()) == list(expected.changes())
        one, other = self._shared.step(arrived, frontier), self._alone.step(expected, frontier)
        assert list(one.changes()) == list(other.changes())
        assert self._shared.contents(_nothing).equals(self._alone.contents(_nothing))
        assert self._shared.state_rows() == self._alone.state_rows()
        self.at = frontier

    def _expected(self, after: Micros, upto: Micros) -> SignedBatch:
        return batch_of(sorted(row for row in self._log.rows if after < row[0] <= upto), self.columns)


def _nothing() -> pa.RecordBatch:
    raise AssertionError("a window keeps its contents itself")
