"""A source that samples as often as the live queries need, keeps what they want, and rests when there are none.

    demand   rate None      as often as the sensor can: `max_rate`
             rate r         r times a second, but not more often than that
             no queries     powered down: not one sample until there is a query again

A sample that no query wants is not sent; that time has passed is, so that windows go on (`Feed.passed`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.errors import ConfigInvalid, MillstreamError
from millstream.runtime.clock import Clock
from millstream.runtime.demand import Demand
from millstream.runtime.feed import Feed
from millstream.runtime.rows import table_of


class Sampler:
    """Decides when to sample and what to send; who calls `step` is not its business, so tests move the clock."""

    def __init__(self, sample: Callable[[], object], *, max_rate: float, clock: Clock | None = None) -> None:
        """`sample` gives a row (a tuple or a dict), several in a form that `insert` takes, or None if there is nothing to tell."""
        if not isinstance(max_rate, int | float) or isinstance(max_rate, bool) or not 0 < max_rate < float("inf"):
            raise ConfigInvalid(f"max_rate must be a positive number of samples a second, not {max_rate!r}")
        self.samples = 0
        self.rows_sent = 0
        self.rows_suppressed = 0
        self.bytes_sent = 0
        self._sample = sample
        self._max_rate = float(max_rate)
        self._clock = clock or Clock()
        self._feed: Feed | None = None
        self._demand: Demand | None = None
        self._next_s: float | None = None  # when to sample; None: at once, as soon as something is wanted

    @property
    def rate(self) -> float:
        """Samples a second, as demanded now."""
        if self._demand is None or not self._demand.queries:
            return 0.0
        return self._max_rate if self._demand.rate is None else min(self._demand.rate, self._max_rate)

    def start(self, feed: Feed) -> None:
        self._feed = feed

    def demand(self, demand: Demand) -> None:
        before, self._demand = self.rate, demand
        if self._next_s is not None and self.rate > before > 0:  # the sample that was due later is due earlier now
            self._next_s = min(self._next_s, self._next_s - 1 / before + 1 / self.rate)

    def step(self) -> float | None:
        """Samples if it is time to; the seconds until it is again, None: not before the next demand."""
        rate, now = self.rate, self._clock.seconds()
        if rate == 0:
            self._next_s = None
            return None
        if self._next_s is None or now >= self._next_s:
            # one that comes late is not made up for by a burst, but the average stays
            behind = 0.0 if self._next_s is None else now - self._next_s
            self._next_s = now + 1 / rate - (behind if behind < 1 / rate else 0.0)
            self._take_sample()
        return max(0.0, self._next_s - now)

    def _take_sample(self) -> None:
        self.samples += 1
        given = self._sample()
        if given is not None:
            self._send([given] if isinstance(given, tuple | dict) else given)

    def _send(self, rows: object) -> None:
        feed, demand = self._feed, self._demand
        assert feed is not None, "started"
        assert demand is not None, "demanded"
        try:
            table = table_of(rows, feed.schema, feed.stream)
        except MillstreamError:
            feed.push(rows)  # the stream says what is wrong with them
            return
        kept = table.filter(pa.array(demand.wanted(table)))
        self.rows_sent += kept.num_rows
        self.rows_suppressed += table.num_rows - kept.num_rows
        if kept.num_rows:
            self.bytes_sent += kept.nbytes
            feed.push(kept)
        if kept.num_rows < table.num_rows:
            feed.passed(pc.max(table.column(feed.timestamp_by)).cast(pa.int64()).as_py())


class SensorProxy(Sampler):
    """The same with a thread that keeps the time: `db.source("sensors", SensorProxy(read_sensor, max_rate=180))`."""

    def __init__(self, sample: Callable[[], object], *, max_rate: float, clock: Clock | None = None) -> None:
        super().__init__(sample, max_rate=max_rate, clock=clock)
        self.error: Exception | None = None
        self._changed = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self, feed: Feed) -> None:
        super().start(feed)
        self._thread = threading.Thread(target=self._loop, name=f"millstream-sensor-{feed.stream}", daemon=True)
        self._thread.start()

    def demand(self, demand: Demand) -> None:
        with self._changed:
            self._raise_failure()
            super().demand(demand)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _loop(self) -> None:
        """What a sample raises ends it, and is told with the next demand."""
        with self._changed:
            try:
                while not self._stopping:
                    self._changed.wait(self.step())
            except Exception as error:
                self.error = error

    def _raise_failure(self) -> None:
        if self.error is not None:
            raise self.error
