"""The engine without a JVM: tasks run as plain calls, each bucket with a worker of its own, as in Spark.

A test double of spark/tick_jobs.py, for fast tests.  Messages go through pickle, as on their way to executors.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

from millstream.api import Database
from millstream.core.errors import (
    ColumnAmbiguous,
    ColumnNotFound,
    FunctionNotFound,
    MillstreamError,
    NotGrouped,
    ParseError,
    QueryFailed,
    Span,
    TypeMismatch,
    did_you_mean,
)
from millstream.operators.join import MOST_ENDING, MOST_PAIRS
from millstream.operators.python_calls import called
from millstream.plan.duckdb_sql import duckdb_type
from millstream.plan.expiry import DEFAULT_EXPIRY, Expiry
from millstream.plan.python_function import PythonFunction
from millstream.runtime.clock import Clock
from millstream.runtime.invocations.messages import SoupResult, SoupTask
from millstream.runtime.messages import MapResult, MapTask, StageResult, StageTask
from millstream.runtime.schedulers import SchedulerName
from millstream.runtime.substeps import MOST_ROWS
from millstream.runtime.worker import Worker
from millstream.state.location import Location

_SOUP = -1
"""No bucket: the soup has a worker of its own."""


class InlineRunner:
    parallelism = 2

    def __init__(
        self, rows_a_step: int = MOST_ROWS, pairs_a_piece: int = MOST_PAIRS, rows_a_slice: int | None = None, most_ending: int = MOST_ENDING
    ) -> None:
        self._new_worker = lambda: Worker(rows_a_step, pairs_a_piece, rows_a_slice, most_ending)
        self._workers: dict[int, Worker] = {}

    def run_map(self, tasks: Sequence[MapTask]) -> list[MapResult]:
        return [_sent(self._worker(task.part).run_map(_sent(task))) for task in tasks]

    def run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        return [_sent(self._worker(task.bucket).run_stage(_sent(task))) for task in tasks]

    def run_soup(self, task: SoupTask) -> SoupResult:
        return _sent(self._worker(_SOUP).run_soup(_sent(task)))

    def query_once(self, sql: str, tables: Mapping[str, pa.Table], functions: Sequence[PythonFunction] = ()) -> pa.Table:
        connection = duckdb.connect()
        for function in functions:
            connection.create_function(
                function.name, _over_columns(function), None, duckdb_type(function.type), type="arrow", null_handling="special"
            )
        for name, table in tables.items():
            connection.register(name, table)
        try:
            return connection.sql(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).to_arrow_table()
        except duckdb.Error as error:
            raise _ours(error, sql, [name for table in tables.values() for name in table.column_names]) from None

    def beside(self) -> InlineRunner:
        self._beside = InlineRunner()
        self._beside._new_worker = self._new_worker
        return self._beside

    def close(self) -> None:
        pass

    def lose_caches(self) -> None:
        """As if every worker process had died."""
        self._workers.clear()

    def _worker(self, bucket: int) -> Worker:
        if bucket not in self._workers:
            self._workers[bucket] = self._new_worker()
        return self._workers[bucket]


def _over_columns(function: PythonFunction) -> Callable[..., pa.Array]:
    return lambda *arguments: called(function, [column.combine_chunks() for column in arguments], len(arguments[0]))


def open_inline(
    path: str | Path, *, buckets: int = 2, runner: InlineRunner | None = None, rules_off: Iterable[str] = (),
    scheduler: SchedulerName = "fifo", expiry: Expiry = DEFAULT_EXPIRY, share_windows: bool = True, share_selections: bool = True,
    share_subplans: bool = True, clock: Clock | None = None, sys_interval: float | None = 1.0, location: Location | None = None,
) -> Database:  # fmt: skip
    return Database(
        location or Location.open(path, buckets=buckets), runner or InlineRunner(), rules_off=rules_off, scheduler=scheduler, expiry=expiry,
        share_windows=share_windows, share_selections=share_selections, share_subplans=share_subplans, clock=clock,
        sys_interval=sys_interval,
    )  # fmt: skip


def _ours(error: duckdb.Error, sql: str, columns: Iterable[str]) -> MillstreamError:
    """DuckDB's complaint as spark/once.py would tell it, with the place of the name that it is about."""
    text = str(error)
    if found := re.search(r'column "([^"]+)" (?:not found|must appear in the GROUP BY)|does not have a column named "([^"]+)"', text):
        name = found[1] or found[2]
        if "GROUP BY" in found[0]:
            return NotGrouped(f'"{name}" is neither in GROUP BY nor inside an aggregate', span=_word(name, sql), sql=sql)
        return ColumnNotFound(f'column "{name}" does not exist', hint=did_you_mean(name, columns), span=_word(name, sql), sql=sql)
    if found := re.search(r"Function with name (\S+) does not exist", text):
        return FunctionNotFound(f'function "{found[1]}" does not exist', span=_word(found[1], sql), sql=sql)
    if found := re.search(r'Referenced table "([^"]+)" not found', text):
        return ColumnNotFound(f'nothing in FROM is called "{found[1]}"', span=_word(found[1], sql), sql=sql)
    if found := re.search(r'Ambiguous reference to column name "([^"]+)"', text):
        return ColumnAmbiguous(f'column "{found[1]}" could be any of several', span=_word(found[1], sql), sql=sql)
    kinds = {duckdb.ParserException: ParseError, duckdb.ConversionException: TypeMismatch, duckdb.BinderException: TypeMismatch}
    kind = next((ours for theirs, ours in kinds.items() if isinstance(error, theirs)), QueryFailed)
    return kind(text.splitlines()[0].split(": ", 1)[-1], sql=sql)


def _word(name: str, sql: str) -> Span | None:
    found = re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)
    return Span(*found.span()) if found else None


def _sent(message: Any) -> Any:
    return pickle.loads(pickle.dumps(message))
