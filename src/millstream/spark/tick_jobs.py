"""The stages of a tick as Spark jobs.

A stage is one job with one task per bucket.  Each bucket has an anchor: a cached RDD of one tiny
partition, whose block makes Spark prefer the executor that had the bucket before.  Inside an
executor, Spark keeps Python workers apart by their environment; giving each bucket an environment
of its own pins it to one process, so its caches are there when the next tick comes.  If Spark
decides otherwise, the worker says that its cache is missing and the tick replays it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark import RDD, SparkContext
from pyspark.sql import SparkSession

from millstream.core.errors import InternalError
from millstream.plan.python_function import PythonFunction
from millstream.runtime.messages import MapResult, MapTask, StageResult, StageTask
from millstream.spark import worker_process
from millstream.spark.lost_workers import run_around
from millstream.spark.once import query_once

Task = TypeVar("Task")
Result = TypeVar("Result")

log = logging.getLogger(__name__)

_BUCKET_VARIABLE = "MILLSTREAM_BUCKET"


class SparkRunner:
    def __init__(self, spark: SparkSession, buckets: int) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._one_job = threading.Lock()
        self.parallelism = max(1, self._context.defaultParallelism)
        self._anchors = [self._anchor(bucket) for bucket in range(buckets)]

    def run_map(self, tasks: Sequence[MapTask]) -> list[MapResult]:
        placed = [(self._anchors[i % len(self._anchors)], i % len(self._anchors), task) for i, task in enumerate(tasks)]
        try:
            return self._run(worker_process.run_map, placed)
        except Exception as error:  # a process is gone: the stages, which read the log themselves then, find out why
            return [MapResult(tasks[0].part, {}, InternalError(f"the map stage has lost a process: {error!s:.200}"))]

    def run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        return run_around(tasks, self._run_stage)

    def _run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        for bucket in range(len(self._anchors), max((task.bucket + 1 for task in tasks), default=0)):
            self._anchors.append(self._anchor(bucket))  # a query may have more buckets than the database has now
        return self._run(worker_process.run_stage, [(self._anchors[task.bucket], task.bucket, task) for task in tasks])

    def query_once(self, sql: str, tables: Mapping[str, pa.Table], functions: Sequence[PythonFunction] = ()) -> pa.Table:
        return query_once(self._spark, sql, tables, functions)

    def warm_up(self) -> threading.Thread:
        """Start the buckets' processes and let them load what they need, while the user still writes statements."""
        thread = threading.Thread(target=self._warm_up, name="millstream-warm-up", daemon=True)
        thread.start()
        return thread

    def _warm_up(self) -> None:
        try:
            self._run(worker_process.warm_up, [(anchor, bucket, None) for bucket, anchor in enumerate(self._anchors)])
        except Exception as error:  # closed meanwhile, or broken: then the first tick says so
            log.info("warm-up ended early", extra={"reason": str(error)})

    def process_ids(self) -> list[int]:
        """The Python processes that hold the buckets' caches now."""
        return self._run(worker_process.process_id, [(anchor, bucket, None) for bucket, anchor in enumerate(self._anchors)])

    def _anchor(self, bucket: int) -> RDD[int]:
        return self._context.parallelize([bucket], 1).cache()

    def _run(self, function: Callable[[Task], Result], placed: Sequence[tuple[RDD[int], int, Task]]) -> list[Result]:
        jobs = []
        for anchor, bucket, task in placed:
            job = anchor.mapPartitions(_Call(function, task))
            job.ctx = _BucketContext(self._context, bucket)
            job._jrdd  # noqa: B018 - made now, with the environment of its bucket
            job.ctx = self._context
            jobs.append(job)
        # two tasks of a bucket at the same time would be two processes, each with a part of the caches
        with self._one_job:
            results: list[Result] = self._context.union(jobs).collect()
        return results


class _BucketContext:
    """The Spark context, but with an environment of the bucket's own: the context's is shared with whatever else the user runs."""

    def __init__(self, context: SparkContext, bucket: int) -> None:
        self._context = context
        self.environment = {**context.environment, _BUCKET_VARIABLE: str(bucket)}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _Call(Generic[Task, Result]):
    """A task's function: consumes the anchor's partition (else Spark would not use the worker again) and runs one task."""

    def __init__(self, function: Callable[[Task], Result], task: Task) -> None:
        self._function = function
        self._task = task

    def __call__(self, anchor: Iterable[int]) -> Iterator[Result]:
        for _ in anchor:
            pass
        yield self._function(self._task)
