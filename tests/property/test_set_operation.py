"""DISTINCT, INTERSECT ALL and EXCEPT ALL of rows with ends: what comes out at every instant, however the line of time is cut."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import InternalError
from millstream.core.instant import GONE_NEVER
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.set_operation import SetOperationOp
from millstream.plan.logical import SetKind
from property.input_triggered_model import Changes, Copies, InBoth, OnlyLeft, Representative, SetOperation

SCHEMA = Schema.of(k="STRING", x="DOUBLE")
KINDS: dict[SetKind, Callable[[], Copies]] = {"distinct": Representative, "intersect": InBoth, "except": OnlyLeft}
ROWS = [("a", 1.0), ("a", None), (None, 0.0)]


@dataclass(frozen=True)
class Change:
    side: int
    row: tuple[Any, ...]
    end: int
    sign: int


@st.composite
def histories(draw: st.DrawFn, sides: int) -> dict[int, list[Change]]:
    """Some rows are taken back before their end, some in the instant in which they come."""
    there: list[Change] = []
    history = {}
    for t in sorted(draw(st.sets(st.integers(0, 14), max_size=10))):
        there = [change for change in there if change.end > t]
        happens = []
        kinds = draw(st.sampled_from([["comes"], ["comes", "goes"], ["goes"], ["comes and goes"]]))
        for _ in range(draw(st.integers(0, 4))):
            kind = draw(st.sampled_from(kinds))
            if kind != "goes":
                end = draw(st.one_of(st.integers(t + 1, t + 6), st.just(GONE_NEVER)))
                there.append(Change(draw(st.integers(0, sides - 1)), draw(st.sampled_from(ROWS)), end, 1))
                happens.append(there[-1])
            if kind != "comes" and there:
                old = there.pop(draw(st.integers(0, len(there) - 1)) if kind == "goes" else -1)
                happens.append(Change(old.side, old.row, old.end, -1))
        history[t] = draw(st.permutations(happens))
    return history


def batch_of(history: dict[int, list[Change]], side: int) -> SignedBatch:
    found = [(t, change) for t, changes in history.items() for change in changes if change.side == side]
    columns = [pa.array([change.row[i] for _, change in found], field.type) for i, field in enumerate(SCHEMA)]
    return SignedBatch(
        np.array([t for t, _ in found], np.int64),
        np.array([change.sign for _, change in found], np.int8),
        pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow()),
        np.array([change.end for _, change in found], np.int64),
    )


def model_changes(kind: SetKind, history: dict[int, list[Change]], sides: int) -> dict[int, Changes]:
    model = SetOperation(KINDS[kind])
    found = {}
    for t, changes in history.items():
        inputs: list[Changes] = [Counter() for _ in range(sides)]
        for change in changes:
            inputs[change.side][change.row, change.end] += change.sign
        found[t] = model.move([Counter({key: n for key, n in side.items() if n}) for side in inputs], t)
    return {t: changes for t, changes in found.items() if changes}


def restored(operator: SetOperationOp, kind: SetKind) -> SetOperationOp:
    new = SetOperationOp(SCHEMA, kind)
    new.load(operator.save())
    assert new.state_rows() == operator.state_rows()
    return new


@pytest.mark.parametrize("kind", sorted(KINDS))
@given(data=st.data())
@settings(max_examples=150)
def test_set_operation_equals_its_definition(kind: SetKind, data: st.DataObject) -> None:
    sides = 1 if kind == "distinct" else 2
    history = data.draw(histories(sides))
    cuts = data.draw(st.lists(st.tuples(st.integers(0, 14), st.booleans()), max_size=4))
    operator, found, begin = SetOperationOp(SCHEMA, kind), dict[int, Changes](), 0
    for stop, restarts in [*sorted(cuts), (15, False)]:
        part = {t: changes for t, changes in history.items() if begin <= t < stop}
        out = operator.step(*(batch_of(part, side) for side in range(sides)))
        assert (np.diff(out.instant) >= 0).all()
        for (t, sign, row), end in zip(out.changes(), out.ends.tolist(), strict=True):
            assert sign == np.sign(found.setdefault(t, Counter())[row, end] + sign), "not netted"
            found[t][row, end] += sign
        begin = stop
        operator = restored(operator, kind) if restarts else operator
    assert found == model_changes(kind, history, sides)


def test_a_row_that_never_came_cannot_be_taken_back() -> None:
    with pytest.raises(InternalError, match="never got"):
        SetOperationOp(SCHEMA, "distinct").step(batch_of({1: [Change(0, ROWS[0], 5, -1)]}, 0))


def test_a_row_that_comes_and_goes_at_once_tells_nothing() -> None:
    operator, other = SetOperationOp(SCHEMA, "distinct"), Change(0, ROWS[1], 20, 1)
    operator.step(batch_of({1: [Change(0, ROWS[0], 5, 1)], 2: [Change(0, ROWS[0], 9, 1)]}, 0))
    assert len(operator.step(batch_of({6: [other, replace(other, sign=-1)]}, 0))) == 0
    told = operator.step(batch_of({7: [other]}, 0))
    found = {(t, row, end) for (t, _, row), end in zip(told.changes(), told.ends.tolist(), strict=True)}
    assert found == {
        (7, ROWS[0], 9),
        (7, ROWS[1], 20),
    }


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_step_costs_its_changes_whatever_is_held(kind: SetKind) -> None:
    """A step of one row of a value with a hundred times the copies does not take ten times as long."""
    seconds = [_step_seconds(kind, copies) for copies in (1_000, 100_000)]
    assert seconds[1] < 10 * seconds[0], seconds


def _step_seconds(kind: SetKind, copies: int) -> float:
    operator = SetOperationOp(SCHEMA, kind)
    sides = 1 if kind == "distinct" else 2
    operator.step(*(batch_of({0: [Change(side, ROWS[0], 1_000 + i, 1) for i in range(copies)]}, side) for side in range(sides)))
    took = []
    for t in range(1_000, 1_030):  # in each of them copies end, and others take their places
        begun = time.perf_counter()
        operator.step(*(batch_of({t: [Change(side, ROWS[0], 900_000 + t, 1)]}, side) for side in range(sides)))
        took.append(time.perf_counter() - begun)
    return min(took)


def test_nothing_is_left_when_everything_has_ended() -> None:
    operator = SetOperationOp(SCHEMA, "except")
    come = [Change(side, row, 5, 1) for side in (0, 1) for row in ROWS]
    operator.step(batch_of({1: come}, 0), batch_of({1: come}, 1))
    assert operator.state_rows() == 6
    operator.step(batch_of({9: [Change(0, ROWS[0], 12, 1)]}, 0), batch_of({}, 1))
    assert operator.state_rows() == 1
