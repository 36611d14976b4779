"""What a Spark task calls: the one `Worker` of this Python process, which holds its buckets' caches."""

from __future__ import annotations

import os
from functools import cache

from millstream.operators.call_limit import PROCESS
from millstream.runtime.messages import MapResult, MapTask, StageResult, StageTask
from millstream.runtime.worker import Worker
from millstream.spark.lost_workers import note_of


@cache
def _worker() -> Worker:
    return Worker()


def run_stage(task: StageTask) -> StageResult:
    PROCESS.note = note_of(task)
    return _worker().run_stage(task)


def run_map(task: MapTask) -> MapResult:
    PROCESS.note = note_of(task)
    return _worker().run_map(task)


def warm_up(_: None) -> None:
    _worker().warm_up()


def process_id(_: None) -> int:
    return os.getpid()
