"""DISTINCT where rows never leave, and it is enough to know that a value has been there: as where they are counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import InternalError
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.aggregate import AggregateOp
from millstream.operators.state_bytes import state_bytes
from millstream.plan.logical import AggregateCall
from property.aggregate_model import aggregates_at
from property.histories import bag, histories, no_input
from property.test_ends import changes, growing

ROWS = Schema.of(k="INT", v="SMALLINT", w="STRING", c="BOOLEAN", d="BOOLEAN")
CALLS = tuple(
    AggregateCall(f"{function}_{'_'.join(columns)}_{where}", function, columns[0], pa.int64(), columns[1:], distinct=True, where=where)
    for function, columns in (("count", ("v",)), ("sum", ("v",)), ("count", ("v", "w")))
    for where in (None, "c", "d")
)
KEYS = st.sampled_from([("k",), ()])


@settings(max_examples=60, deadline=None)
@given(histories(ROWS, size=60), KEYS)
def test_as_where_values_are_counted(history: object, keys: tuple[str, ...]) -> None:
    grown = growing(history)  # type: ignore[arg-type]
    found = repr(changes(grown, keys, CALLS, append_only=True))
    assert found == repr(changes(grown, keys, CALLS, append_only=False))
    assert found == repr(changes(grown.uncut(), keys, CALLS, append_only=True)), "cuts show in the changes"


@settings(max_examples=40, deadline=None)
@given(st.data(), histories(ROWS, size=60), KEYS)
def test_saved_state_goes_on(data: st.DataObject, history: object, keys: tuple[str, ...]) -> None:
    """Also that of one that counted."""
    grown = growing(history)  # type: ignore[arg-type]
    lasting, counting = (AggregateOp(ROWS, keys, CALLS, append_only=append_only) for append_only in (True, False))
    for batch, frontier in grown.steps():
        saved = data.draw(st.sampled_from([lasting, counting])).save()
        loaded = AggregateOp(ROWS, keys, CALLS, append_only=True)
        loaded.load(saved)
        expected = repr(list(counting.step(batch, frontier).changes()))
        assert repr(list(loaded.step(batch, frontier).changes())) == expected
        contents = bag(tuple(row.values()) for row in loaded.contents(no_input).to_pylist())
        assert contents == aggregates_at(grown, frontier, keys, CALLS)
        lasting = loaded


# --- what is refused, and what it takes -----------------------------------------------------------


def numbers(values: int, sign: int = 1) -> SignedBatch:
    k, v = np.arange(values) % 10, np.arange(values)
    columns = [pa.array(k, pa.int32()), pa.array(v), pa.array(v % 3 == 0)]
    return SignedBatch(
        np.zeros(values, np.int64), np.full(values, sign, np.int8), pa.RecordBatch.from_arrays(columns, names=["k", "v", "c"])
    )


WIDE = Schema.of(k="INT", v="BIGINT", c="BOOLEAN")
COUNTS = tuple(AggregateCall(f"n_{where}", "count", "v", pa.int64(), distinct=True, where=where) for where in (None, "c"))


def test_a_row_that_leaves_is_an_error() -> None:
    operator = AggregateOp(WIDE, ("k",), COUNTS, append_only=True)
    operator.step(numbers(10), 0)
    with pytest.raises(InternalError, match="whose rows never leave"):
        operator.step(numbers(1, sign=-1), 0)


def test_seen_values_are_no_state_of_one_that_counts() -> None:
    operator = AggregateOp(WIDE, ("k",), COUNTS, append_only=True)
    operator.step(numbers(10), 0)
    with pytest.raises(KeyError):
        AggregateOp(WIDE, ("k",), COUNTS).load(operator.save())


def test_a_condition_takes_a_byte_a_value() -> None:
    def held(calls: tuple[AggregateCall, ...]) -> int:
        operator = AggregateOp(WIDE, ("k",), calls, append_only=True)
        operator.step(numbers(1 << 17), 0)
        operator.step(numbers(1), 0)  # what belongs to a step is that of a small one
        return state_bytes(operator)

    assert held(COUNTS) - held(COUNTS[:1]) < 2 * (1 << 17)
