"""A bounded queue against lists: what remains, and how much is dropped, whatever form the rows have and however they are cut."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.errors import ConfigInvalid, TypeMismatch
from millstream.runtime.bounded_rows import BoundedRows, Passed, Piece, WhenFull, counted, together


def rows_of(pieces: list[Piece]) -> list[Any]:
    found: list[Any] = []
    for piece in pieces:
        found += piece.column("v").to_pylist() if isinstance(piece, pa.Table) else piece if isinstance(piece, list) else [piece]
    return found


STEPS = st.lists(st.one_of(st.tuples(st.sampled_from(["list", "table"]), st.integers(0, 7)), st.just(("take", 0))), max_size=12)


@given(STEPS, st.integers(1, 10), st.sampled_from(["drop_oldest", "drop_newest"]))
def test_what_remains_is_what_lists_say(steps: list[tuple[str, int]], capacity: int, when_full: WhenFull) -> None:
    queue, model, dropped, number = BoundedRows(capacity, when_full), list[int](), 0, 0
    for form, count in steps:
        if form == "take":
            assert rows_of(together(queue.take())) == model
            model = []
            continue
        rows = list(range(number, number + count))
        number += count
        queue.put(rows if form == "list" else pa.table({"v": rows}))
        model += rows
        dropped += max(0, len(model) - capacity)
        model = model[-capacity:] if when_full == "drop_oldest" else model[:capacity]
        assert (queue.waiting, queue.dropped, queue.room) == (len(model), dropped, capacity - len(model))
    assert rows_of(queue.take()) == model


def test_fifteen_into_ten_leaves_the_last_ten() -> None:
    queue = BoundedRows(10)
    for v in range(15):
        queue.put([v])
    assert (rows_of(queue.take()), queue.dropped) == (list(range(5, 15)), 5)


def test_time_passes_behind_the_rows_that_are_there() -> None:
    queue = BoundedRows(2)
    queue.put([1])
    queue.note(5)
    queue.note(4)
    queue.put([2])
    assert rows_of(queue.take()) == [1, Passed(5), 2]


@pytest.mark.parametrize("rows", ["text", b"bytes", 7, {"v": 1}])
def test_what_is_no_rows_is_refused_at_once(rows: object) -> None:
    with pytest.raises(TypeMismatch):
        counted(rows)


@pytest.mark.parametrize(("capacity", "when_full"), [(0, "block"), (True, "block"), (1.5, "block"), (1, "drop_latest")])
def test_a_queue_that_makes_no_sense(capacity: Any, when_full: Any) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        BoundedRows(capacity, when_full)
    assert refused.value.hint
