"""Where the time of a tick goes, stage by stage.

    decode      rows are read from files: those of the log, and those that other stages left
    filter      conditions and expressions where rows are read
    split       rows are placed into buckets
    operators   the operators themselves
    write       changes are written, for the answer or for the next stage, and snapshots
    sync        what was written is made durable
    python      what else a worker does

These are seconds of workers, over all buckets.  What the driver does, in seconds on the clock, each query of a round with its part:

    spark       jobs, beyond what their slowest worker does
    commit      the record that makes a round true
    driver      what else a round takes: which rows are new, what each worker has to do

A worker's clock runs for one stage at a time: a stage inside another stops the outer one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

WorkerStage = Literal["decode", "filter", "split", "operators", "write", "sync"]
Stage = WorkerStage | Literal["python", "spark", "commit", "driver"]
STAGES: tuple[Stage, ...] = ("decode", "filter", "split", "operators", "write", "sync", "python", "spark", "commit", "driver")
Seconds = Mapping[Stage, float]

Given = ParamSpec("Given")
Result = TypeVar("Result")


class StageClock(threading.local):
    """One for each thread: in one process several buckets may be at work."""

    def __init__(self) -> None:
        self._seconds: dict[Stage, float] = {}
        self._running: list[WorkerStage] = []
        self._since = 0.0

    @contextmanager
    def stage(self, stage: WorkerStage) -> Iterator[None]:
        self._count()
        self._running.append(stage)
        try:
            yield
        finally:
            self._count()
            self._running.pop()

    def taken(self) -> dict[Stage, float]:
        """What has come together since the last time."""
        seconds, self._seconds = self._seconds, {}
        return seconds

    def _count(self) -> None:
        now = time.perf_counter()
        if self._running:
            stage = self._running[-1]
            self._seconds[stage] = self._seconds.get(stage, 0.0) + now - self._since
        self._since = now


CLOCK = StageClock()


def timed(stage: WorkerStage) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Decorator of functions that are a stage, or a part of one."""

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @wraps(function)
        def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            with CLOCK.stage(stage):
                return function(*args, **kwargs)

        return called

    return decorate


def with_python(stages: Seconds, seconds: float) -> dict[Stage, float]:
    """The stages of work that took so long as a whole."""
    return {**stages, "python": max(0.0, seconds - sum(stages.values()))}


def added(one: Seconds, other: Seconds, part: float = 1.0) -> dict[Stage, float]:
    return {stage: one.get(stage, 0.0) + part * other.get(stage, 0.0) for stage in STAGES if stage in one or stage in other}
