"""The seam between the tick and whatever runs its tasks: Spark jobs, or plain calls in a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from millstream.plan.python_function import PythonFunction
from millstream.runtime.invocations.messages import SoupResult, SoupTask
from millstream.runtime.messages import MapResult, MapTask, StageResult, StageTask


class Runner(Protocol):
    parallelism: int
    """How many map tasks are worth having."""

    def run_map(self, tasks: Sequence[MapTask]) -> list[MapResult]: ...

    def run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]: ...

    def run_soup(self, task: SoupTask) -> SoupResult:
        """In a process of its own: neither ticks nor invocations wait for each other."""
        ...

    def query_once(self, sql: str, tables: Mapping[str, pa.Table], functions: Sequence[PythonFunction] = ()) -> pa.Table:
        """Spark SQL over tables in memory, for questions that are answered once; `functions` may be called in it."""
        ...

    def beside(self) -> Runner:
        """Another one with worker processes of its own, which leaves some of the cores to this one."""
        ...

    def close(self) -> None:
        """Nothing waits any longer for workers that are not there; what can be run is run as before."""
        ...
