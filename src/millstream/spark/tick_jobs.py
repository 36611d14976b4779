"""The stages of a tick as Spark jobs.

A stage is one job with one task per bucket.  A bucket's tasks prefer the executor that had it before (anchors.py) and, inside an
executor, the process that had it (bucket_processes.py).  If Spark decides otherwise, the worker says that its cache is missing
and the tick replays it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from millstream.core.errors import ClusterFailed, ConfigInvalid, InternalError
from millstream.plan.python_function import PythonFunction
from millstream.runtime.invocations.messages import SoupResult, SoupTask
from millstream.runtime.messages import MapResult, MapTask, StageResult, StageTask
from millstream.spark import worker_process
from millstream.spark.anchors import Anchors
from millstream.spark.bucket_processes import BucketProcesses, Process
from millstream.spark.executors import is_local
from millstream.spark.jobs import Jobs
from millstream.spark.lost_workers import run_around
from millstream.spark.once import query_once, spark_reason
from millstream.spark.python_job import PythonJobs, PythonTask
from millstream.state.location import Location

Task = TypeVar("Task")
Result = TypeVar("Result")

log = logging.getLogger(__name__)

_BUCKET_VARIABLE = "MILLSTREAM_BUCKET"


class SparkRunner:
    def __init__(self, spark: SparkSession, buckets: int, tasks_at_once: int | None = None) -> None:
        """`tasks_at_once` None: as many as there are cores."""
        self._spark = spark
        self._context = spark.sparkContext
        self.parallelism = tasks_at_once or max(1, self._context.defaultParallelism)
        self._buckets = buckets
        self._anchors = Anchors(self._context)
        self._processes = BucketProcesses(str(self._context.applicationId))
        self._jobs = Jobs(self._context)
        self._python = PythonJobs(self._context)
        self._tasks_at_once = tasks_at_once
        self._beside: SparkRunner | None = None
        self._soup: SparkRunner | None = None

    def beside(self) -> SparkRunner:
        """Spark takes no core away from a task that has one: so that one is free for our tasks, theirs may not have all of them."""
        if self._beside is None:
            self._beside = SparkRunner(self._spark, self._buckets, max(1, self.parallelism // 2))
        return self._beside

    def run_map(self, tasks: Sequence[MapTask]) -> list[MapResult]:
        try:
            with self._processes.in_use():
                return self._jobs.once(lambda: self._collect(worker_process.run_map, list(enumerate(tasks))))
        except Exception as error:  # a process is gone: the stages, which read the log themselves then, find out why
            return [MapResult(tasks[0].part, {}, InternalError(f"the map stage has lost a process: {error!s:.200}"))]

    def run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        with self._processes.in_use():
            return self._tried(lambda: run_around(tasks, self._run_stage))

    def _run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        at_once = self._tasks_at_once or len(tasks)
        parts = [tasks[start : start + at_once] for start in range(0, len(tasks), at_once)]
        return [result for part in parts for result in self._collect(worker_process.run_stage, [(task.bucket, task) for task in part])]

    def run_soup(self, task: SoupTask) -> SoupResult:
        if self._soup is None:
            self._soup = SparkRunner(self._spark, 1, 1)
        return self._soup._run(worker_process.run_soup, [(0, task)])[0]

    def close(self) -> None:
        for other in (self._beside, self._soup):
            if other is not None:
                other.close()
        self._jobs.close()
        self._processes.leave()

    def query_once(self, sql: str, tables: Mapping[str, pa.Table], functions: Sequence[PythonFunction] = ()) -> pa.Table:
        return query_once(self._spark, sql, tables, functions)

    def warm_up(self) -> threading.Thread:
        """Start the buckets' processes and let them load what they need, while the user still writes statements."""
        thread = threading.Thread(target=self._warm_up, name="millstream-warm-up", daemon=True)
        thread.start()
        return thread

    def _warm_up(self) -> None:
        try:
            self._run(worker_process.warm_up, [(bucket, None) for bucket in range(self._buckets)])
        except Exception as error:  # closed meanwhile, or broken: then the first tick says so
            log.info("warm-up ended early", extra={"reason": str(error)})

    def check_location(self, location: Location) -> None:
        """That it is the same directory for the executors as for us; in local mode it cannot be another."""
        if is_local(self._context):
            return
        asked = (str(location.path), location.id)
        trouble = [told for told in self._run(worker_process.trouble_with, [(bucket, asked) for bucket in range(self._buckets)]) if told]
        if trouble:
            raise ConfigInvalid(
                f'the executors cannot use the location "{location.path}": {trouble[0]}',
                hint="On a cluster it must be a directory that all machines share, and may write to: see docs/cluster.md.",
            )

    def process_ids(self) -> list[int]:
        """The Python processes that hold the buckets' caches now."""
        return self._run(worker_process.process_id, [(bucket, None) for bucket in range(self._buckets)])

    def _run(self, function: Callable[[Task], Result], tasks: Sequence[tuple[int, Task]]) -> list[Result]:
        """One job; the tasks with their buckets."""
        with self._processes.in_use():
            return self._tried(lambda: self._collect(function, tasks))

    def _tried(self, job: Callable[[], list[Result]]) -> list[Result]:
        try:
            return self._jobs.run(job)
        except Py4JJavaError as error:
            raise ClusterFailed(
                f"Spark could not run a job: {spark_reason(error)}",
                hint="Nothing is lost: what is not done yet is done when you try again.",
            ) from error

    def _collect(self, function: Callable[[Task], Result], tasks: Sequence[tuple[int, Task]]) -> list[Result]:
        anchors = self._anchors.for_buckets(1 + max(bucket for bucket, _ in tasks))
        calls = [
            PythonTask(anchors[bucket], {_BUCKET_VARIABLE: self._processes.name_of(bucket)}, _Call(function, task))
            for bucket, task in tasks
        ]
        answers: list[tuple[Process, Result]] = self._python.run(calls)
        for (bucket, _), (process, _) in zip(tasks, answers, strict=True):
            if self._processes.note(bucket, process):
                log.info("the processes of a bucket took turns, it gets another", extra={"bucket": bucket})
        return [result for _, result in answers]


class _Call(Generic[Task, Result]):
    """A task's function: consumes the anchor's partition (else Spark would not use the worker again) and runs one task."""

    def __init__(self, function: Callable[[Task], Result], task: Task) -> None:
        self._function = function
        self._task = task

    def __call__(self, _: int, anchor: Iterable[str]) -> Iterator[tuple[Process, Result]]:
        for _each in anchor:
            pass
        yield (socket.gethostname(), os.getpid()), self._function(self._task)
