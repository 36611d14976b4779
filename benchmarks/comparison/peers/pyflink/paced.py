"""Flink's delay: files that appear at a pace, and watermarks that tell how far the answers are.

The tables and queries are those of the timed runs, only that a stream is a folder that is looked at every 5 ms.  Flink takes the files
that wait in any order, the youngest first, and drops rows that come too late; so a file appears once the last one has been read, and has
all slices that are due by then.  One task reads and the other has nothing to do: after 10 ms nobody waits for its watermark any more.
Watermarks and buffers go every 5 ms, and mini-batches are off but in w7, where they last 20 ms.

A slice's effect is there when the sink, and each of its tasks, has a watermark that is not before the slice's last row: watermarks
come after all that was said before them.  They are read by way of JMX, some hundred times a second or more.

    files ─► rows and watermarks ─► query ─► blackhole
               └─ numRecordsOut                └─ currentInputWatermark

w3, w4  Interval joins hold watermarks back by their ranges, rows not: by how much is seen when all has come to rest, and added again.
w7  The assigner of mini-batches swallows the watermarks of the rows and makes its own, by the clock, at which each aggregation tells what
    it has kept.  So the effect is there when the sink has one from after the moment at which the assigner had the watermark of the rows.
"""

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep, time
from typing import Any

import pyflink
from pyflink.java_gateway import get_gateway

from comparison.peers.common import Job, due_together

SETTINGS = {
    "execution.buffer-timeout.interval": "5 ms",
    "pipeline.auto-watermark-interval": "5 ms",
    "table.exec.source.idle-timeout": "10 ms",
    "metrics.reporter.jmx.factory.class": "org.apache.flink.metrics.jmx.JMXReporterFactory",
}
MONITORED = ", 'source.monitor-interval' = '5 ms'"
# not where an idle task is to tell the time: its watermarks would be ignored, and the last mini-batch held until more rows come
MINI_BATCHED = {"w7": {"table.exec.mini-batch.allow-latency": "20 ms", "table.exec.source.idle-timeout": "0 ms"}}
LONG_AGO = -(1 << 63)
"""As Flink says it, in milliseconds."""
FIRST_SLICES = 20  # before the pace counts: until then it compiles
AT_REST = 1.0  # seconds without news
PATIENCE = 60.0  # seconds for a file
REPORTER = "plugins/metrics-jmx/flink-metrics-jmx-2.3.0.jar"
"""Of the wheel; a local run looks for reporters on the class path alone."""


def add_reporter() -> None:
    """Before the JVM starts, which takes the paths of Hadoop as they are."""
    os.environ["HADOOP_CLASSPATH"] = str(Path(pyflink.__file__).parent / REPORTER)


def folder(job: Job, stream: str) -> Path:
    """Where the files of a stream appear."""
    made = Path(job.scratch, "coming", stream)
    made.mkdir(parents=True, exist_ok=True)
    return made


class Metric:
    """Of the tasks of some operators, read within the JVM."""

    def __init__(self, metric: str, attribute: str, named: Callable[[str], bool], least: int = 1) -> None:
        self._jvm, self._attribute = get_gateway().jvm, attribute
        self._server = self._jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        # by reflection, as the server's own class is not public
        declared = self._jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
        self._methods = {method.getName(): method for method in declared}
        self._tasks: list[Any] = []
        # the tasks of a job start one by one
        while len(self._tasks) < least or len(self._tasks) != len(list(self._found(metric, named))):
            self._tasks = list(self._found(metric, named))
            sleep(AT_REST)

    def values(self) -> list[int]:
        return [self._call("getAttribute", name, self._attribute) for name in self._tasks]

    def _call(self, method: str, *arguments: Any) -> Any:
        array = get_gateway().new_array(self._jvm.java.lang.Object, len(arguments))
        for place, argument in enumerate(arguments):
            array[place] = argument
        return self._methods[method].invoke(self._server, array)

    def _found(self, metric: str, named: Callable[[str], bool]) -> Iterator[Any]:
        pattern = f"org.apache.flink.taskmanager.job.task.operator.{metric}:*"
        names = self._call("queryNames", self._jvm.javax.management.ObjectName(pattern), None).iterator()
        while names.hasNext():
            name = names.next()
            if named(name.getKeyProperty("operator_name")):
                yield name


class Progress:
    """How far the answers are, in milliseconds of the rows' time, and since when."""

    def __init__(self, *, is_mini_batched: bool) -> None:
        self._sink = Metric("currentInputWatermark", "Value", lambda operator: operator.endswith("Writer"))
        self._batches = None
        if is_mini_batched:
            self._batches = Metric("currentInputWatermark", "Value", lambda operator: operator.startswith("MiniBatchAssigner"))
        self._had: list[tuple[float, int]] = []
        """What the assigner had, and when, of what the sink does not know yet."""
        self.instants = [LONG_AGO]
        self.times = [perf_counter()]

    def look(self) -> None:
        instant = self._known(self._batches) if self._batches else min(self._sink.values())
        if instant > self.instants[-1]:
            self.instants.append(instant)
            self.times.append(perf_counter())

    def _known(self, batches: Metric) -> int:
        """What the assigner had by the time that the sink has as its watermark."""
        # the idle one of its tasks has nothing to say
        self._had.append((time() * 1000, max(batches.values())))
        told = min(self._sink.values())
        while len(self._had) > 1 and self._had[1][0] < told:
            self._had.pop(0)
        when, instant = self._had[0]
        return instant if when < told else LONG_AGO

    @contextmanager
    def watched(self) -> Iterator[None]:
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                self.look()
                done.wait(0.001)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def await_rest(self) -> int:
        """The last instant, when no other comes any more."""
        while self.instants[-1] == LONG_AGO or perf_counter() - self.times[-1] < AT_REST:
            sleep(0.05)
        return self.instants[-1]

    def since(self, instant: int) -> float:
        return self.times[bisect_left(self.instants, instant)]


class Feed:
    """Files of each stream, one after the other."""

    def __init__(self, job: Job) -> None:
        self._folders = {stream: folder(job, stream) for stream in job.streams}
        self._read = Metric("numRecordsOut", "Count", lambda operator: operator.startswith("Source"), 2 * len(job.streams))
        self._files, self._rows = 0, 0

    def come(self, slices: list[dict[str, str]]) -> None:
        """As one file of each stream; returns when that has been read."""
        self._files += 1
        appeared = []
        for stream, into in self._folders.items():
            rows = b"".join(Path(paths[stream]).read_bytes() for paths in slices)
            self._rows += rows.count(b"\n")
            half = into.with_suffix(".half")
            half.write_bytes(rows)
            appeared.append(half.rename(into / f"{self._files:06d}.csv"))
        patience = perf_counter() + PATIENCE
        while sum(self._read.values()) < self._rows:
            if perf_counter() > patience:
                raise RuntimeError(f"of {self._rows} rows only {sum(self._read.values())} were read")
            sleep(0.001)
        for path in appeared:
            path.unlink()  # the folder is quicker to look at; if Flink is just looking, it logs an error and looks again


def delays(job: Job) -> list[float]:
    """Seconds from when a slice is due to the watermark that tells that it is done with."""
    slices = list(job.files())
    feed, progress = Feed(job), Progress(is_mini_batched=job.workload in MINI_BATCHED)
    dues: list[tuple[float, int]] = []
    with progress.watched():
        feed.come(slices[:FIRST_SLICES])
        held_back = last_instant(slices[FIRST_SLICES - 1]) - progress.await_rest()
        assert held_back == 0 or job.workload in ("w3", "w4"), held_back
        for together in due_together(slices[FIRST_SLICES:]):
            feed.come([paths for _, paths in together])
            dues += [(due, last_instant(paths) - held_back) for due, paths in together]
        ended = progress.await_rest()
    assert ended == dues[-1][1], (ended, dues[-1], held_back)
    return [progress.since(instant) - due for due, instant in dues]


def last_instant(paths: dict[str, str]) -> int:
    """Milliseconds that no stream is before after a slice: the watermark of several is that of the one that is behind."""
    lasts = [Path(path).read_bytes().rsplit(b"\n", 2)[-2].split(b",")[0].decode() for path in paths.values()]
    return min(round(datetime.fromisoformat(last).replace(tzinfo=UTC).timestamp() * 1000) for last in lasts)
