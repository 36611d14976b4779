"""SYS, the stream on which the engine tells what it does.

It is a stream like any other, with a log and a retention, whose rows the engine appends.  A report is one batch of rows with the
same time, at which it is complete: so the frontier follows at once.

    outside: rows, advances, queries ──► ticks ──► a report ──► ticks of the readers of SYS
                                                      └─ no news from outside, no report

Nobody pays for what nobody reads: there is a report only while a running query reads SYS.  And nothing that a report sets off is
a reason for the next one: there has to be news from outside, that is rows or time in a stream of the user's, or another query.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pyarrow as pa

from millstream.core.schema import TIMESTAMP
from millstream.language.catalog import SYSTEM_STREAM
from millstream.runtime.clock import Clock
from millstream.runtime.running_query import RunningQuery
from millstream.runtime.statistics import Told, told_of_engine, told_of_query, told_of_stream
from millstream.runtime.streams import Streams

News = tuple[object, ...]


class SystemStream:
    def __init__(self, streams: Streams, clock: Clock, interval_s: float | None) -> None:
        """`interval_s` None: no reports.  0: whenever everything else is done."""
        self._streams = streams
        self._clock = clock
        self._interval_s = interval_s
        self._reported: float | None = None  # when
        self._known: News | None = None

    def open_for(self, inputs: Iterable[str]) -> None:
        """A query with these inputs is about to read."""
        if SYSTEM_STREAM.name in inputs:
            self.open()

    def open(self) -> None:
        if SYSTEM_STREAM.name not in self._streams:
            self._streams.open(SYSTEM_STREAM)

    def is_wanted(self, running: Iterable[RunningQuery]) -> bool:
        return self._interval_s is not None and any(SYSTEM_STREAM.name in query.inputs for query in running)

    def news(self, queries: Iterable[RunningQuery]) -> News:
        """All that comes from outside, such that it differs if something has happened."""
        logs = ((stream, stream.log) for stream in self._streams)
        streams = ((s.entry.name, log.rows_accepted, log.late_total, log.rejected_total, s.frontier) for s, log in logs)
        return (*streams, *((query.incarnation, query.state) for query in queries))

    def is_due(self, news: News, *, caught_up: bool) -> bool:
        """`caught_up`: the statistics hold everything that came with these news."""
        if self._interval_s is None or news == self._known or not (caught_up or self._interval_s):
            return False
        return self._reported is None or self._clock.seconds() - self._reported >= self._interval_s

    def report(self, queries: Iterable[RunningQuery], engine: dict[str, float], news: News, *, caught_up: bool) -> None:
        told = [*told_of_engine(engine), *chain.from_iterable(map(told_of_stream, self._streams.everything))]
        told += chain.from_iterable(map(told_of_query, queries))
        self._append(told)
        self._reported = self._clock.seconds()
        self._known = news if caught_up else self._known

    def _append(self, told: list[Told]) -> None:
        stream = self._streams[SYSTEM_STREAM.name]
        # the wall clock may have been set back, and two reports may fall into a microsecond
        ts = max(self._clock.now(), stream.frontier + 1)
        columns = [pa.array(column) for column in zip(*told, strict=True)]
        schema = SYSTEM_STREAM.schema.to_arrow()
        stamps = pa.repeat(pa.scalar(ts, pa.int64()), len(told)).cast(TIMESTAMP)
        table = pa.Table.from_arrays([stamps, *columns], names=schema.names).cast(schema)
        self._streams.insert(SYSTEM_STREAM.name, table)
        self._streams.advance(SYSTEM_STREAM.name, ts)
