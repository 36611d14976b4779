"""TopKOp against its slow definition: every instant, any cut, ties, copies, saved and loaded."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels import row_store
from millstream.kernels.cold_rows import nth_least
from millstream.operators.top_k import TopKOp
from millstream.plan.ordering import SortKey
from property.histories import Change, History, Row, assert_netted, bag, contents_at, histories, signed_batch
from property.over_slow import rows_at, top_slow
from property.test_over import sort_keys

SCHEMA = Schema.of(k="STRING", n="TINYINT", y="DOUBLE")
LONG = Schema.of(k="STRING", n="BIGINT", y="DOUBLE")


@settings(max_examples=250, deadline=None)
@given(
    history=histories(
        SCHEMA,
        rows=st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, 3, None]), st.sampled_from([0.0, -0.0, 0.5, None])),
        size=40,
    ),
    partition_by=st.sampled_from([(), ("k",)]), order_by=st.lists(sort_keys(["k", "n", "y"]), max_size=2),
    limit=st.sampled_from([0, 1, 2, 3, 10**9]), offset=st.sampled_from([0, 0, 1, 3]), numbered=st.booleans(), saved=st.booleans(),
    slack=st.sampled_from([1, 1024]), more_in_order=st.sampled_from([0, 0, 1, 1024]),
)  # fmt: skip
def test_first_rows_equal_recomputation(
    history: History, partition_by: tuple[str, ...], order_by: list[SortKey], limit: int, offset: int,
    numbered: bool, saved: bool, slack: int, more_in_order: int,
) -> None:  # fmt: skip
    first = First(partition_by, tuple(order_by), limit, offset, numbered, limit + offset + more_in_order)
    with patch.object(row_store, "_SLACK", slack):
        assert_right_at_every_instant(first, history, saved)


@settings(max_examples=250, deadline=None)
@given(data=st.data(), saved=st.booleans(), slack=st.sampled_from([1, 1024]))
def test_first_rows_of_windows_equal_recomputation(data: st.DataObject, saved: bool, slack: int) -> None:
    limit, offset = data.draw(st.sampled_from([1, 2, 3])), data.draw(st.sampled_from([0, 0, 1]))
    order_by = data.draw(st.sampled_from([[], [SortKey("n")], [SortKey("n", True)], [SortKey("y")], [SortKey("y", True), SortKey("n")]]))
    first = First(
        data.draw(st.sampled_from([(), ("k",)])), tuple(order_by), limit, offset, data.draw(st.booleans()),
        limit + offset + data.draw(st.sampled_from([0, 1, 2])),
    )  # fmt: skip
    with patch.object(row_store, "_SLACK", slack):
        assert_right_at_every_instant(first, data.draw(windows(of_keys=len(first.partition_by) > 0)), saved)


@dataclass(frozen=True)
class First:
    """What to ask for."""

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    limit: int
    offset: int
    numbered: bool
    in_order: int

    def operator(self) -> TopKOp:
        number = "place" if self.numbered else None
        return TopKOp(SCHEMA, self.partition_by, self.order_by, self.limit, self.offset, number, in_order=self.in_order)

    def slow(self, rows: list[Row]) -> list[Row]:
        return top_slow(rows, SCHEMA, self.partition_by, self.order_by, self.limit, self.offset, self.numbered)


def assert_right_at_every_instant(first: First, history: History, saved: bool) -> None:
    operator, changes = first.operator(), []
    for batch, frontier in history.steps():
        changes += operator.step(batch, frontier).changes()
        assert operator.state_rows() == len(rows_at(history, frontier))
        if saved:
            arrays, operator = operator.save(), first.operator()
            operator.load(arrays)
    assert_netted(changes)
    for now in history.instants():
        assert contents_at(changes, now) == bag(first.slow(rows_at(history, now))), now


@st.composite
def windows(draw: st.DrawFn, *, of_keys: bool) -> History:
    """Rows come at rising times, `n`, with few or many values `y`, and leave as they came once the window is past them."""
    keys = st.sampled_from("abcdefgh"[: draw(st.integers(1, 8))] if of_keys else "a")
    values = st.sampled_from([None, 0.5, 1.5]) if draw(st.booleans()) else st.integers(0, 50).map(float)
    many = draw(st.integers(0, 60))
    arrivals = draw(st.lists(st.tuples(st.sampled_from([0, 1, 1, 2]), keys, values), min_size=many, max_size=many))
    length, now, changes = draw(st.integers(1, 40)), 0, []
    for gap, key, value in arrivals:
        now += gap
        row = (key, now, value)
        changes += [(now, 1, row), (now + length, -1, row)]
    changes.sort(key=lambda change: change[0])
    cuts = draw(st.frozensets(st.sampled_from(sorted({change[0] for change in changes})))) if changes else frozenset()
    return History(SCHEMA, tuple(changes), cuts)


def windowed(order_by: SortKey, rows: int, arrivals: int) -> tuple[TopKOp, list[Change], list[Row]]:
    """An operator behind a window of so many rows, what it has said, and the rows it holds at the end."""
    held = [("a", i, float(i * 7919 % 10_007)) for i in range(arrivals)]
    changes: list[Change] = []
    for i, row in enumerate(held):
        changes += [(i, 1, row)] + ([(i, -1, held[i - rows])] if i >= rows else [])
    operator = TopKOp(LONG, (), [order_by], 3)
    said = [change for at in range(0, len(changes), 1_000) for change in operator.step(batch_of(changes[at : at + 1_000]), 0).changes()]
    return operator, said, held[-rows:]


def batch_of(changes: list[Change]) -> SignedBatch:
    return signed_batch(LONG, changes)


@pytest.mark.parametrize("order_by", [SortKey("n"), SortKey("n", True), SortKey("y")])
def test_a_change_looks_at_few_cold_rows_however_many_there_are(order_by: SortKey) -> None:
    """Also by time, where every row that leaves is the first."""
    arrivals = 60_000
    for rows in (1_000, 10_000):
        operator, said, held = windowed(order_by, rows, arrivals)
        assert contents_at(said, arrivals) == bag(top_slow(held, LONG, (), [order_by], 3, 0, False))
        assert operator.looked <= 2 * arrivals, (rows, operator.looked)
        assert (operator.looked > 0) == (order_by == SortKey("n"))


def test_rows_leave_and_come_before_those_in_order() -> None:
    """Whoever empties the rows in order again and again pays for what a refill looks at."""
    operator, instant, changes = TopKOp(LONG, (), [SortKey("n")], 3), 0, [(0, 1, ("a", 10**6 + i, 0.0)) for i in range(5_000)]
    said, made = list(operator.step(batch_of(changes), instant).changes()), len(changes)
    for round_ in range(60):
        few = [("a", 1_000 * round_ + i, 0.0) for i in range(400)]
        for sign in (1, -1):
            instant += 1
            said += operator.step(batch_of([(instant, sign, row) for row in few]), instant).changes()
            made += len(few)
    assert contents_at(said, instant) == bag([("a", 10**6 + i, 0.0) for i in range(3)])
    assert operator.looked <= 2 * made


def test_partitions_begin_anew() -> None:
    """A key that comes back after its last row has left, cold ones among them, shows its first rows again."""
    operator, instant, said = TopKOp(LONG, ("k",), [SortKey("n")], 2, in_order=2), 0, []
    for round_ in range(4):
        rows = [("ab"[i % 2], (i * 7 + round_) % 31, 0.0) for i in range(30)]
        for sign in (1, -1):
            instant += 1
            said += operator.step(batch_of([(instant, sign, row) for row in rows]), instant).changes()
            here = rows if sign > 0 else []
            assert operator.state_rows() == len(here)
            assert contents_at(said, instant) == bag(top_slow(here, LONG, ("k",), [SortKey("n")], 2, 0, False))


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40), st.data())
def test_nth_least(words: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(0, len(words) - 1))
    assert nth_least(np.array(words, np.int64), n) == sorted(words)[n]


def test_zeros_of_both_signs_take_each_other_s_place_silently() -> None:
    """They are two rows to the operator, for each must be found again, but equal to whoever reads the changes."""
    changes = ((0, 1, ("a", 1, 0.0)), (1, 1, ("a", 1, -0.0)))
    operator = TopKOp(SCHEMA, (), [SortKey("y")], 1)
    assert list(operator.step(signed_batch(SCHEMA, changes), 1).changes()) == [(0, 1, ("a", 1, 0.0))]
