"""Where a bucket's tasks should run: at the executor that had it before, as long as there is that executor.

An anchor is an RDD of one tiny partition that prefers an executor; a bucket's tasks are made over it.  Spark's own way, to go
where a cached block is, would leave all buckets where they fled to when an executor was lost, also after another has come.
"""

from __future__ import annotations

import logging
import time

from py4j.java_gateway import JavaObject
from pyspark import SparkContext

from millstream.spark.executors import Executors, assigned, executor_hosts, executor_ids, is_local

log = logging.getLogger(__name__)

REST_S = 10.0
"""Buckets that could stay where they are do so for so long after others had to move: a cluster that is being repaired would
else have them replayed for every executor that comes."""


class Anchors:
    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._is_local = is_local(context)
        self._executors: Executors = {}
        self._is_settled = self._is_local  # no executor has come or gone since buckets were given places
        self._moved_at = -REST_S
        self._places: dict[int, str] = {}
        self._anchors: dict[int, JavaObject] = {}

    def for_buckets(self, buckets: int) -> list[JavaObject]:
        """The anchors of buckets 0, 1, ...; those whose executor is gone have moved to another, and in time some to one that is new."""
        if not self._is_local:
            self._look()
        known = max(buckets, len(self._anchors))
        homeless = any(self._places.get(bucket) not in self._executors for bucket in range(known))
        if len(self._anchors) < known or (not self._is_settled and (homeless or time.monotonic() - self._moved_at >= REST_S)):
            self._assign(known)
        return [self._anchors[bucket] for bucket in range(buckets)]

    def _assign(self, buckets: int) -> None:
        # with no executor at all there is nothing to prefer: the first that comes gets them
        after = assigned(self._places, buckets, sorted(self._executors)) if self._executors else {}
        for bucket in range(buckets):
            if bucket not in self._anchors or after.get(bucket) != self._places.get(bucket):
                self._anchors[bucket] = self._anchor(after.get(bucket))
        moved = [bucket for bucket, place in self._places.items() if after.get(bucket) != place]
        if moved:
            log.info("buckets move to other executors", extra={"buckets": moved})
            self._moved_at = time.monotonic()
        self._places, self._is_settled = after, True

    def _look(self) -> None:
        """Which executors there are now."""
        ids = executor_ids(self._context)
        if ids != tuple(sorted(self._executors)):
            hosts = executor_hosts(self._context)
            self._executors = {executor: hosts[executor] for executor in ids if executor in hosts}
            self._is_settled = False

    def _anchor(self, executor: str | None) -> JavaObject:
        """Scala's `makeRDD` with preferences, which Python's context does not offer; the name is Spark's for "this executor"."""
        preferred = [] if executor is None else [f"executor_{self._executors[executor]}_{executor}"]
        seq = self._context._jvm.org.apache.spark.api.python.PythonUtils.toSeq
        partition = self._context._jvm.scala.Tuple2("", seq(preferred))
        return self._context._jsc.sc().makeRDD(seq([partition]), self._context._jsc.emptyRDD().classTag())
