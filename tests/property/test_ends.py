"""MIN and MAX where rows never leave: as from all values, at every instant, in any cuts, and from whatever state was saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import InternalError
from millstream.core.instant import BEGINNING
from millstream.core.schema import Schema, type_from_name
from millstream.core.signed_batch import SignedBatch
from millstream.operators.aggregate import AggregateOp
from millstream.operators.state_bytes import state_bytes
from millstream.plan.logical import AggregateCall
from property.histories import Change, History, aggregate_slow, assert_netted, bag, contents_at, histories, no_input, run

ORDERED = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "BINARY", "FLOAT", "DOUBLE", "DECIMAL(18,3)", "DECIMAL(38,3)", "DATE",
    "TIMESTAMP",
]  # fmt: skip


def calls_of(type_: str) -> tuple[AggregateCall, ...]:
    arrow = type_from_name(type_)
    ends = [AggregateCall(f"{function}_{column}", function, column, arrow) for column in ("v", "w") for function in ("min", "max")]
    once = AggregateCall("min_once", "min", "v", arrow, distinct=True)
    return (*ends, once, AggregateCall("n", "count", None, pa.int64()))


def growing(history: History) -> History:
    """The same arrivals, and nothing leaves."""
    return replace(history, changes=tuple(change for change in history.changes if change[1] > 0))


def changes(history: History, keys: tuple[str, ...], calls: tuple[AggregateCall, ...], *, append_only: bool) -> list[Change]:
    operator = AggregateOp(history.schema, keys, calls, append_only=append_only)
    return [*operator.start().changes(), *run(operator, history)]


@pytest.mark.parametrize("type_", ORDERED)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_ends_equal_recomputation(type_: str, data: st.DataObject) -> None:
    history = growing(data.draw(histories(Schema.of(k="INT", v=type_, w=type_), size=60)))
    keys, calls = data.draw(st.sampled_from([("k",), ()])), calls_of(type_)
    found = changes(history, keys, calls, append_only=True)
    assert_netted(found)
    for now in [BEGINNING, *history.instants()]:
        assert contents_at(found, now) == aggregate_slow(history.rows_at(now), history.schema, keys, calls)
    assert repr(found) == repr(changes(history, keys, calls, append_only=False)), "other changes than from all values"
    assert repr(found) == repr(changes(history.uncut(), keys, calls, append_only=True)), "cuts show in the changes"


@pytest.mark.parametrize("type_", ORDERED)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_saved_state_goes_on_as_if_nothing_had_happened(type_: str, data: st.DataObject) -> None:
    """Also from the state of one that kept all values, as before there were ends alone."""
    history = growing(data.draw(histories(Schema.of(k="INT", v=type_, w=type_), size=60)))
    keys, calls = data.draw(st.sampled_from([("k",), ()])), calls_of(type_)
    lasting, whole = (AggregateOp(history.schema, keys, calls, append_only=append_only) for append_only in (True, False))
    for batch, frontier in history.steps():
        saved = data.draw(st.sampled_from([lasting, whole])).save()
        loaded = AggregateOp(history.schema, keys, calls, append_only=True)
        loaded.load({name: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape) for name, array in saved.items()})
        expected = repr(list(whole.step(batch, frontier).changes()))
        assert repr(list(loaded.step(batch, frontier).changes())) == expected
        assert repr(list(lasting.step(batch, frontier).changes())) == expected
        assert loaded.state_rows() == lasting.state_rows()
        contents = bag(tuple(row.values()) for row in loaded.contents(no_input).to_pylist())
        assert contents == aggregate_slow(history.rows_at(frontier), history.schema, keys, calls)
        lasting = loaded


# --- what is kept, and what is refused ----------------------------------------------------------

TEXTS = Schema.of(k="INT", v="STRING")
BOTH = (AggregateCall("low", "min", "v", pa.string()), AggregateCall("high", "max", "v", pa.string()))


def texts(values: Sequence[str], groups: int, sign: int = 1) -> SignedBatch:
    rows = pa.RecordBatch.from_arrays([pa.array(np.arange(len(values)) % groups, pa.int32()), pa.array(values)], schema=TEXTS.to_arrow())
    return SignedBatch(np.zeros(len(values), np.int64), np.full(len(values), sign, np.int8), rows)


def test_strings_that_are_no_ends_are_forgotten() -> None:
    operator, sizes = AggregateOp(TEXTS, ("k",), BOTH, append_only=True), []
    for step in range(40):
        operator.step(texts([f"a long text, number {(step * 3000 + i) * 7921 % 120_000:06d}" for i in range(3000)], groups=3), step)
        sizes.append(state_bytes(operator))
    assert sizes[-1] <= max(sizes[:10])
    assert sum(array.nbytes for array in operator.save().values()) < 2500
    assert [row["high"] for row in operator.contents(no_input).to_pylist()] == [f"a long text, number {119_997 + k:06d}" for k in (0, 1, 2)]
    assert [row["low"] for row in operator.contents(no_input).to_pylist()] == [f"a long text, number {k:06d}" for k in (0, 1, 2)]


def test_a_row_that_leaves_is_an_error() -> None:
    operator = AggregateOp(TEXTS, ("k",), BOTH, append_only=True)
    operator.step(texts(["a", "b"], groups=1), 0)
    with pytest.raises(InternalError, match="whose rows never leave"):
        operator.step(texts(["a"], groups=1, sign=-1), 0)


def test_ends_are_no_state_of_one_that_must_know_all_values() -> None:
    operator = AggregateOp(TEXTS, ("k",), BOTH, append_only=True)
    operator.step(texts(["a", "b"], groups=1), 0)
    with pytest.raises(KeyError):
        AggregateOp(TEXTS, ("k",), BOTH).load(operator.save())
