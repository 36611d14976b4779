"""The engine without a JVM: tasks run as plain calls, each bucket with a worker of its own, as in Spark.

A test double of spark/tick_jobs.py, for fast tests.  Messages go through pickle, as on their way to executors.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

from millstream.api import Database
from millstream.runtime.messages import MapResult, MapTask, StageResult, StageTask
from millstream.runtime.substeps import MOST_ROWS
from millstream.runtime.worker import Worker
from millstream.state.location import Location


class InlineRunner:
    parallelism = 2

    def __init__(self, rows_a_step: int = MOST_ROWS) -> None:
        self._rows_a_step = rows_a_step
        self._workers: dict[int, Worker] = {}

    def run_map(self, tasks: Sequence[MapTask]) -> list[MapResult]:
        return [_sent(self._worker(task.part).run_map(_sent(task))) for task in tasks]

    def run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        return [_sent(self._worker(task.bucket).run_stage(_sent(task))) for task in tasks]

    def query_once(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        connection = duckdb.connect()
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).to_arrow_table()

    def lose_caches(self) -> None:
        """As if every worker process had died."""
        self._workers.clear()

    def _worker(self, bucket: int) -> Worker:
        return self._workers.setdefault(bucket, Worker(self._rows_a_step))


def open_inline(path: str | Path, *, buckets: int = 2, runner: InlineRunner | None = None, rules_off: Iterable[str] = ()) -> Database:
    return Database(Location.open(path, buckets=buckets), runner or InlineRunner(), rules_off=rules_off)


def _sent(message: Any) -> Any:
    return pickle.loads(pickle.dumps(message))
