"""What a partitioned ROWS window keeps: the rows that are in it, a few that have left, and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels import arrow_buffers
from millstream.operators import rows_window
from millstream.operators.rows_window import RowsWindowOp
from millstream.operators.state_bytes import state_bytes
from millstream.plan.window import RowsWindow
from property.histories import Change, assert_netted, contents_at, no_input
from property.test_rows_window import newest

SCHEMA = Schema.of(k="BIGINT", text="STRING")
LAST = RowsWindow("ROWS 1", 1, ("k",))
LAST_TWO = RowsWindow("ROWS 2", 2, ("k",))


def rows(keys: list[int], note: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.int64()), pa.array([f"{note} {key}" for key in keys])], schema=SCHEMA.to_arrow())


def step(operator: RowsWindowOp, instant: int, batch: pa.RecordBatch) -> SignedBatch:
    return operator.step(SignedBatch.arrivals(np.full(len(batch), instant), batch), instant)


def texts(operator: RowsWindowOp) -> list[str]:
    return sorted(operator.contents(no_input).column("text").to_pylist())


def test_a_row_that_comes_and_goes_at_one_instant_is_neither_told_nor_kept() -> None:
    operator = RowsWindowOp(SCHEMA, LAST)
    batch = pa.concat_batches([rows([1, 2], "a"), rows([1], "b"), rows([1, 3], "c")])
    assert list(step(operator, 1, batch).changes()) == [(1, 1, (2, "a 2")), (1, 1, (1, "c 1")), (1, 1, (3, "c 3"))]
    assert sum(chunk.num_rows for chunk in operator._chunks) == 3
    assert list(step(operator, 2, rows([1], "d")).changes()) == [(2, 1, (1, "d 1")), (2, -1, (1, "c 1"))]


def test_rows_that_come_with_the_one_that_takes_their_place_are_told_but_not_kept() -> None:
    operator = RowsWindowOp(SCHEMA, LAST)
    both = pa.concat_batches([rows([1], "a"), rows([1], "b")])
    told = operator.step(SignedBatch.arrivals(np.array([1, 2]), both), 2)
    assert list(told.changes()) == [(1, 1, (1, "a 1")), (2, 1, (1, "b 1")), (2, -1, (1, "a 1"))]
    assert [chunk.to_pylist() for chunk in operator._chunks] == [[{"k": 1, "text": "b 1"}]]


@pytest.mark.parametrize("range_us", [None, 3])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_many_steps_without_a_sweep_add_up_to_the_newest_rows(most: int, range_us: int | None) -> None:
    """Each step brings rows that stay, that are replaced by a later one of the step, and at its instant."""
    spec, random = RowsWindow("ROWS", most, ("k",), range_us), np.random.default_rng(most)
    operator = RowsWindowOp(SCHEMA, spec)
    seen: list[tuple[int, Any]] = []
    told: list[Change] = []
    for number in range(80):
        instants = np.sort(2 * number + random.integers(0, 2, 12))
        batch = rows(random.integers(0, 6, 12).tolist(), str(number))
        batch = batch.set_column(1, "text", pa.array([f"{number}.{i}" for i in range(12)]))
        told += operator.step(SignedBatch.arrivals(instants, batch), 2 * number + 1).changes()
        seen += [(int(ts), tuple(row.values())) for ts, row in zip(instants, batch.to_pylist(), strict=True)]
        expected = Counter(newest(seen, 2 * number + 1, spec, 0))
        assert contents_at(told, 2 * number + 1) == expected
        assert operator.state_rows() == expected.total()
    assert operator._count > operator.state_rows()  # or it has been swept
    assert_netted(told)


def test_what_has_left_is_at_most_half_of_what_is_there() -> None:
    keys = list(range(20_000))
    operator = RowsWindowOp(SCHEMA, LAST)
    step(operator, 0, rows(keys, "first"))
    most = state_bytes(operator)
    random = np.random.default_rng(0)
    for instant in range(1, 60):
        step(operator, instant, rows(sorted(random.choice(len(keys), 3000, replace=False).tolist()), "later"))
        assert operator.state_rows() == len(keys)
        assert sum(chunk.num_rows for chunk in operator._chunks) == operator._count < 1.5 * len(keys)
        assert state_bytes(operator) < 2 * most


def test_a_slice_does_not_keep_what_it_is_a_slice_of() -> None:
    whole = rows(list(range(10_000)), "a")
    operator = RowsWindowOp(SCHEMA, LAST)
    step(operator, 1, whole.slice(500, 10))
    assert sum(chunk.get_total_buffer_size() for chunk in operator._chunks) < whole.nbytes / 100


def test_chunks_are_not_made_larger_than_one_array_can_be() -> None:
    operator = RowsWindowOp(SCHEMA, LAST)
    with patch.multiple(rows_window, _MOST_CHUNKS=2, _LARGEST_CHUNK=400):
        for instant in range(40):
            step(operator, instant, rows([instant], "a"))
        assert max(chunk.nbytes for chunk in operator._chunks) <= 400
        assert len(operator._chunks) <= 2 * sum(chunk.nbytes for chunk in operator._chunks) / 400 + 2
        assert len(texts(operator)) == 40


def test_a_restored_window_goes_on_as_the_one_that_was_saved() -> None:
    saved = RowsWindowOp(SCHEMA, LAST_TWO)
    for instant, keys in enumerate([[1, 2, 3], [2, 3, 4], [3, 4, 5], [3]]):
        step(saved, instant, rows(keys, str(instant)))
    arrays = saved.save()
    assert len(arrays) == 1 + len(saved._chunks) > 2
    restored = RowsWindowOp(SCHEMA, LAST_TWO)
    restored.load(arrays)
    assert texts(restored) == texts(saved) == ["0 1", "0 2", "1 2", "1 4", "2 3", "2 4", "2 5", "3 3"]
    for instant, keys in enumerate([[3], [2, 2], [4, 1, 5]], 4):
        told, again = (sorted(step(each, instant, rows(keys, str(instant))).changes()) for each in (saved, restored))
        assert told == again
    assert texts(restored) == texts(saved)
    assert restored.state_rows() == saved.state_rows() == len(texts(saved))


def test_an_empty_window_is_saved_and_restored() -> None:
    restored = RowsWindowOp(SCHEMA, LAST)
    restored.load(RowsWindowOp(SCHEMA, LAST).save())
    assert texts(restored) == []
    assert len(step(restored, 1, rows([1], "a"))) == 1


def test_a_snapshot_with_all_rows_in_one_chunk_is_read() -> None:
    operator = RowsWindowOp(SCHEMA, LAST)
    operator.load({"ts": np.array([1, 2]), "rows": arrow_buffers.to_bytes(rows([1, 2], "a").columns)})
    assert list(step(operator, 3, rows([2], "b")).changes()) == [(3, 1, (2, "b 2")), (3, -1, (2, "a 2"))]
    assert texts(operator) == ["a 1", "b 2"]
