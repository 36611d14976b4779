"""One engine with n queries, or n engines with one each, over the same trace; and the processor time it takes them.

    single   traffic ─► one log ─► one plan ─► n answers          multi   n times:  traffic ─► a log ─► a plan ─► an answer

In one process and one bucket, without Spark.  What is timed is what happens to the rows: they are inserted in steps, each with a tick of
all queries.  Opening databases and creating queries is not.  Engines of `multi` take turns, as Fjords on one machine do.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from in_process import InProcess
from millstream.api import Database
from millstream.state.location import Location
from papers.fjords.trace import DDL

STEPS = 4


class Engines:
    """The queries of each engine, in order."""

    def __init__(self, directory: Path, queries: Sequence[Sequence[str]], relation: tuple[str, pa.Table] | None = None) -> None:
        self._stack = ExitStack()
        self.databases = [self._opened(directory / str(i), each, relation) for i, each in enumerate(queries)]

    def _opened(self, path: Path, queries: Sequence[str], relation: tuple[str, pa.Table] | None) -> Database:
        db = self._stack.enter_context(Database(Location.open(path, buckets=1), InProcess(), sys_interval=None))
        db.execute(DDL)
        if relation is not None:
            db.execute(relation[0])
            db.insert("incidents", relation[1])
        for i, sql in enumerate(queries):
            db.execute(f"CREATE QUERY q{i} AS {sql}")
        db.flush()
        return db

    def run(self, rows: pa.Table) -> float:
        """Processor seconds until all answers are there."""
        size = -(-rows.num_rows // STEPS)
        began = time.process_time()
        for start in range(0, rows.num_rows, size):
            for db in self.databases:
                db.insert("traffic", rows.slice(start, size))
                db.flush()
        for db in self.databases:
            db.advance("traffic", int(rows.column("ts")[-1].value))
            db.flush()
        return time.process_time() - began

    def answers(self) -> list[int]:
        """How many changes each query has told."""
        return [query.changes().num_rows for db in self.databases for query in db.queries()]

    def close(self) -> None:
        self._stack.close()


def measured(queries: Sequence[Sequence[str]], rows: pa.Table, relation: tuple[str, pa.Table] | None = None, rounds: int = 2) -> float:
    """The least of some rounds, each in engines of its own."""
    return min(_once(queries, rows, relation) for _ in range(rounds))


def _once(queries: Sequence[Sequence[str]], rows: pa.Table, relation: tuple[str, pa.Table] | None) -> float:
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(Path(directory), queries, relation)
        try:
            return engines.run(rows)
        finally:
            engines.close()
