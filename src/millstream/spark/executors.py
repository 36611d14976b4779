"""The executors of a Spark application: which there are, waiting for the first of them, and which of them has which bucket.

In local mode there is one executor, in the driver's own process: it is always there, and nothing here has anything to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from pyspark import SparkContext

from millstream.core.errors import ConfigInvalid

log = logging.getLogger(__name__)

_POLL_S = 0.1
_SETTLE_S = 2.0
"""A cluster that does not say how many executors it will give has given all, if none came for so long."""
_SAY_S = 4.0
_WAIT_S = 90.0

Executors = dict[str, str]
"""id -> host."""


def is_local(context: SparkContext) -> bool:
    return str(context.master).startswith("local") and not str(context.master).startswith("local-cluster")


def executor_ids(context: SparkContext) -> tuple[str, ...]:
    """Those that tasks can be given to, by the scheduler's account; not for local mode."""
    told = str(context._jsc.sc().getExecutorIds().mkString(","))
    return tuple(sorted(told.split(","))) if told else ()


def executor_hosts(context: SparkContext) -> Executors:
    """By the account of Spark's pages, which may be a moment behind the scheduler's."""
    listed = context._jsc.sc().statusStore().executorList(True)
    return {str(each.id()): str(each.hostPort()).split(":")[0] for each in (listed.apply(i) for i in range(listed.size()))}


def await_executors(context: SparkContext, *, settle_s: float = _SETTLE_S, wait_s: float = _WAIT_S) -> None:
    """Returns when the cluster has given what it will give at once, as far as one can tell.

    How many buckets a new database gets depends on it, and where they are at first: never an answer.
    """
    if is_local(context) or context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    expected = int(context.getConf().get("spark.executor.instances", "0"))
    began = changed = time.monotonic()
    known: tuple[str, ...] = ()
    said = False
    while True:
        found, now = executor_ids(context), time.monotonic()
        known, changed = (found, now) if found != known else (known, changed)
        if known and (len(known) >= expected > 0 or now - changed >= settle_s):
            return
        if now - began > wait_s:
            break
        if not known and not said and now - began > _SAY_S:
            log.warning("waiting for executors from %s", context.master)
            said = True
        time.sleep(_POLL_S)
    if not known:
        raise ConfigInvalid(
            f'no executor has come from "{context.master}" in {wait_s:.0f} s',
            hint="Has the cluster a worker with a free core and 1 GB? Other applications may hold them all; the master's page tells.",
        )


def assigned(before: Mapping[int, str], buckets: int, executors: Sequence[str]) -> dict[int, str]:
    """An executor for each bucket: none has two more than another, and as few buckets as possible move."""
    share, rest = divmod(buckets, len(executors))
    held = {executor: [bucket for bucket in range(buckets) if before.get(bucket) == executor] for executor in executors}
    fullest_first = sorted(executors, key=lambda executor: -len(held[executor]))
    room = {executor: share + (place < rest) for place, executor in enumerate(fullest_first)}
    after = {bucket: executor for executor in executors for bucket in held[executor][: room[executor]]}
    free = (executor for executor in executors for _ in range(room[executor] - len(held[executor])))
    return after | dict(zip((bucket for bucket in range(buckets) if bucket not in after), free, strict=True))
