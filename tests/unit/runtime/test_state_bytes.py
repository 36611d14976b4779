"""The bytes that operators hold: they grow with what is kept, come back when it has gone, and are those that are really there."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from millstream.core.schema import Field
from millstream.core.signed_batch import SignedBatch
from millstream.language.catalog import Catalog
from millstream.language.parser import parse_one
from millstream.language.statements import CreateStream, Select
from millstream.operators.evaluator import Evaluator
from millstream.operators.pending import PendingRows
from millstream.operators.state_bytes import state_bytes
from millstream.runtime.circuit import Circuit
from millstream.runtime.compile import compile_query

SECOND = 1_000_000
ROWS = 40_000

KEPT = [
    "SELECT k, v FROM s [RANGE 10 SECONDS]",
    "SELECT k, v FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT k, v FROM s [PARTITION BY k ROWS 100 RANGE 10 SECONDS]",
    "SELECT k, sum(v) AS n FROM s [RANGE 10 SECONDS] GROUP BY k",
    "SELECT v, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY v",
    "SELECT k, min(v) AS low, max(w) AS high FROM s [RANGE 10 SECONDS] GROUP BY k",
    "SELECT k, count(DISTINCT v) AS n FROM s [RANGE 10 SECONDS] GROUP BY k",
    "SELECT k, median(v) AS middle FROM s [RANGE 10 SECONDS] GROUP BY k",
    "SELECT k, collect_set(v) AS vs FROM s [RANGE 10 SECONDS] GROUP BY k",
    "SELECT k, first(w) AS w FROM s [RANGE 10 SECONDS] GROUP BY k",
    "SELECT a.v FROM s [RANGE 10 SECONDS] AS a JOIN s [RANGE 10 SECONDS] AS b ON a.v = b.v",
    "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM s [RANGE 10 SECONDS]",
    "SELECT k, v FROM s [RANGE 10 SECONDS] QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) <= 3",
    "SELECT v FROM s [RANGE 10 SECONDS] WHERE v > (SELECT avg(v) FROM s [RANGE 10 SECONDS])",
]

UNTIL_TOLD = [
    "SELECT DISTINCT k, v FROM s [RANGE 10 SECONDS] WITH EXPIRY input_triggered",
    "SELECT v FROM s [RANGE 10 SECONDS] EXCEPT ALL SELECT v + 1 AS v FROM s [RANGE 10 SECONDS] WITH EXPIRY input_triggered",
]


def circuit(sql: str) -> Circuit:
    stream = parse_one("CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT, w STRING) TIMESTAMP BY ts")
    select = parse_one(sql)
    assert isinstance(stream, CreateStream)
    assert isinstance(select, Select)
    fragments = compile_query(select.select, Catalog.empty().with_stream(stream), sql, expiry=select.expiry).physical.fragments
    return Circuit(fragments[0].root, Evaluator())


def fed(operators: Circuit, rows: int, start: int) -> None:
    """Rows from `start` on, when all of before have gone: every value once, spread over a hundred keys."""
    instants = start + np.arange(rows)
    operators.step([SignedBatch.empty(source.schema) for source in operators.inputs], start - 1)
    batches = []
    for source in operators.inputs:
        arrays = [_column(field, rows) for field in source.schema]
        batches.append(SignedBatch.arrivals(instants, pa.RecordBatch.from_arrays(arrays, schema=source.schema.to_arrow())))
    operators.step(batches, start + SECOND - 1)


def _column(field: Field, rows: int) -> pa.Array:
    """Sources may have computed columns: of numbers, then."""
    if field.name == "k":
        return pa.array([f"key {i % 100}" for i in range(rows)], pa.string())
    if pa.types.is_string(field.type):
        return pa.array([f"a text that is a little longer {i}" for i in range(rows)], pa.string())
    return pa.array(np.arange(rows)).cast(field.type)


def held(operators: Circuit) -> int:
    return sum(profile.state_bytes for profile in operators.profiles())


@pytest.mark.parametrize("sql", KEPT)
def test_bytes_grow_and_come_back(sql: str) -> None:
    operators = circuit(sql)
    sizes = []
    for i, rows in enumerate((10, ROWS, 0)):
        fed(operators, rows, 100 * i * SECOND)
        sizes.append(held(operators))
    few, many, none = sizes
    assert many > few + 8 * ROWS, "at least a word for each row"
    assert none <= 1.1 * many, "what is reserved stays, and not much more"
    assert operators.state_rows() <= 1, "all rows have gone"


@pytest.mark.parametrize("sql", UNTIL_TOLD)
def test_rows_stay_until_one_tells_the_time(sql: str) -> None:
    operators = circuit(sql)
    fed(operators, ROWS, 0)
    rows, size = operators.state_rows(), held(operators)
    assert rows >= ROWS
    assert size >= 8 * ROWS
    fed(operators, 0, 100 * SECOND)
    assert operators.state_rows() == rows
    fed(operators, 1, 200 * SECOND)
    assert operators.state_rows() <= 4
    assert held(operators) <= 2.2 * size, "room is made, for twice as much, before what has ended gives its own back"


def test_a_window_gives_everything_back() -> None:
    operators = circuit("SELECT k, v FROM s [RANGE 10 SECONDS]")
    assert held(operators) == 0
    for i in range(5):  # cuts through chunks
        fed(operators, 1000, i * SECOND)
    size = held(operators)
    assert 5 * 1000 * 16 <= size <= 5 * 1000 * 64
    nothing = [SignedBatch.empty(source.schema) for source in operators.inputs]
    operators.step(nothing, 12 * SECOND + 500)
    assert 0 < held(operators) < size
    operators.step(nothing, 60 * SECOND)
    assert held(operators) == 0


@pytest.mark.parametrize("sql", [*KEPT, *UNTIL_TOLD])
def test_they_are_those_that_are_really_there(sql: str) -> None:
    operators = circuit(sql)
    fed(operators, 10, 0)  # compiles kernels, loads libraries
    before = held(operators)
    gc.collect()
    tracemalloc.start()
    began = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()
    fed(operators, ROWS, 100 * SECOND)
    gc.collect()
    real = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - began
    tracemalloc.stop()
    told = held(operators) - before
    assert 0.5 * real < told < 2 * real, f"{told:,} bytes for {real:,}"


def test_rows_that_wait_are_counted_as_well() -> None:
    operators = circuit(KEPT[0])
    (source,) = operators.inputs
    waiting = PendingRows(source.schema)
    rows = pa.RecordBatch.from_arrays([pa.array(["a"] * 1000), pa.array(range(1000))], schema=source.schema.to_arrow())
    waiting.add(SignedBatch.arrivals(np.arange(1000), rows))
    assert state_bytes(waiting) >= 1000 * (8 + 1 + 5 + 8)


def test_what_is_shared_counts_once_and_the_evaluator_not_at_all() -> None:
    values = np.zeros(100)
    assert state_bytes([values, (values, {"again": values})]) == values.nbytes
    assert state_bytes(Evaluator()) == 0
    assert state_bytes(None) == 0
