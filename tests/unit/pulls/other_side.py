"""Somebody else's database, as far as a relation sees it."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

from millstream.api import Database
from millstream.runtime.pulls.origin import Origin

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int32())])
JOINED = "SELECT s.k, r.v FROM s [RANGE 1 DAY], r WHERE s.k = r.k"


class OtherSide:
    """Read through the seam that is Spark's in production.  `waits`: it answers only when it is told to."""

    def __init__(self, db: Database, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows
        self.asked = 0
        self.fails: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        db._engine.pulls.read_with_spark = self.read

    def read(self, origin: Origin) -> pa.Table:
        self.asked += 1
        assert self.may_answer.wait(60)
        if self.fails is not None:
            raise self.fails
        columns = list(zip(*self.rows, strict=True)) if self.rows else [(), ()]
        return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def shown(db: Database) -> dict[str, Any]:
    table = db.execute("SHOW RELATIONS")
    assert isinstance(table, pa.Table)
    return dict(table.to_pylist()[0])


def answer(db: Database, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in db.query(name).result().to_pylist())
