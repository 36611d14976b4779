"""A join makes far more pairs than its condition lets through: they are never all there at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import OutOfMemory
from millstream.kernels import join_lists
from millstream.operators.evaluator import Evaluator
from millstream.operators.join import MOST_PAIRS

ROWS = 6_000
WINDOW = "[RANGE 1 HOUR]"


@pytest.fixture
def db(tmp_path: Path) -> Database:
    db = open_inline(tmp_path, buckets=1)
    for name in "sr":
        db.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
    return db


def push(db: Database, rows: int, *, one_instant: bool = False) -> None:
    ts = np.zeros(rows, np.int64) if one_instant else np.arange(rows)
    columns = {
        "ts": pa.array(ts).cast(pa.timestamp("us", "UTC")),
        "k": pa.array(["k"] * rows),
        "v": pa.array(np.arange(rows, dtype=np.int32)),
    }
    for name in "sr":
        db.insert(name, pa.table(columns))
    db.advance(rows)


class Watched:
    """How much there was at once while conditions were evaluated."""

    def __init__(self) -> None:
        self.pairs = self.most_pairs = self.most_bytes = 0
        self._mask, self._bytes = Evaluator.mask, pa.total_allocated_bytes()

    def __enter__(self) -> Watched:
        watched = self

        def mask(self: Evaluator, rows: pa.RecordBatch, *rest: Any) -> Any:
            watched.pairs += rows.num_rows
            watched.most_pairs = max(watched.most_pairs, rows.num_rows)
            watched.most_bytes = max(watched.most_bytes, pa.total_allocated_bytes() - watched._bytes)
            return watched._mask(self, rows, *rest)

        self._patch = patch.object(Evaluator, "mask", mask)
        self._patch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.__exit__(*error)


def test_a_theta_join_holds_a_piece_of_its_pairs(db: Database) -> None:
    q = db.execute(f"CREATE QUERY q AS SELECT a.v, b.v AS w FROM s {WINDOW} AS a JOIN r {WINDOW} AS b ON a.v + b.v < 3")
    with Watched() as watched:
        push(db, ROWS, one_instant=True)
        db.flush()
    assert watched.pairs == ROWS**2
    assert watched.most_pairs <= MOST_PAIRS
    assert watched.most_bytes < 64 * 2**20
    assert sorted(zip(*q.result().to_pydict().values(), strict=True)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT a.v FROM s {0} AS a JOIN r {0} AS b ON a.k = b.k AND a.v + b.v < 1", [(0,)]),
        ("SELECT a.v FROM s {0} AS a SEMI JOIN r {0} AS b ON a.v + b.v < 1", [(0,)]),
        ("SELECT a.v FROM s {0} AS a LEFT JOIN r {0} AS b ON a.v + b.v < 100000 WHERE b.v IS NULL", []),
        ("SELECT count(*) AS n FROM s {0} AS a JOIN r {0} AS b ON a.v <> b.v", [(2_000 * 1_999,)]),
    ],
)
def test_so_do_other_joins_with_conditions_and_those_that_are_only_counted(db: Database, sql: str, answer: list[Any]) -> None:
    q = db.execute("CREATE QUERY q AS " + sql.format(WINDOW))
    sizes: list[int] = []
    meet = join_lists.meet

    def watched(*arguments: Any) -> Any:
        pairs = meet(*arguments)
        sizes.append(len(pairs[0]))
        return pairs

    with patch.object(join_lists, "meet", watched):
        push(db, 2_000)
        db.flush()
    assert sum(sizes) >= 2_000**2
    assert max(sizes) <= MOST_PAIRS
    assert list(zip(*q.result().to_pydict().values(), strict=True)) == answer


@pytest.mark.parametrize(
    "error", [MemoryError("Allocation failed"), pa.ArrowMemoryError("malloc of size 1"), duckdb.OutOfMemoryException("no")]
)
def test_memory_that_runs_out_is_told_as_such(db: Database, error: Exception) -> None:
    q = db.execute(f"CREATE QUERY q AS SELECT a.v FROM s {WINDOW} AS a JOIN r {WINDOW} AS b ON a.v < b.v")
    with patch("millstream.operators.evaluator._Statement.run", side_effect=error):
        push(db, 3)
        db.flush()
        with pytest.raises(OutOfMemory) as caught:
            q.result()
    assert caught.value.code == "OUT_OF_MEMORY"
    assert "memory" in caught.value.message
    assert "bug" not in str(caught.value)
    assert "window" in str(caught.value.hint)
