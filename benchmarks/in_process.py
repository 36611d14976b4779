"""The engine without Spark, for benchmarks of what it does itself: one worker, in this very process."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.runtime.messages import MapResult, MapTask, StageResult, StageTask
from millstream.runtime.worker import Worker


class InProcess:
    """The one worker, called here."""

    parallelism = 1

    def __init__(self) -> None:
        self._worker = Worker()

    def run_map(self, tasks: Sequence[MapTask]) -> list[MapResult]:
        return [self._worker.run_map(task) for task in tasks]

    def run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        return [self._worker.run_stage(task) for task in tasks]

    def query_once(self, sql: str, tables: object, functions: object = ()) -> pa.Table:
        raise NotImplementedError("no question is answered once here")

    def beside(self) -> InProcess:
        return InProcess()

    def close(self) -> None:
        """Nobody waits."""
