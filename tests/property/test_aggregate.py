"""AggregateOp against recomputation: every instant, any cut, any type."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.instant import BEGINNING
from millstream.core.schema import Schema, type_from_name
from millstream.operators.aggregate import AggregateOp
from millstream.plan.logical import AggregateCall
from property.histories import Change, History, aggregate_slow, assert_netted, bag_of, contents_at, histories, no_input, run

KEY_TYPES = [
    "TINYINT", "BIGINT", "STRING", "BINARY", "FLOAT", "DOUBLE", "BOOLEAN", "DECIMAL(10,2)", "DECIMAL(38,3)", "DATE", "TIMESTAMP",
    "ARRAY<STRING>", "STRUCT<a:INT,b:DOUBLE>", "ARRAY<STRUCT<a:INT,b:ARRAY<DOUBLE>>>", "VOID",
]  # fmt: skip


def call(function: str, argument: str | None, type_: str) -> AggregateCall:
    return AggregateCall(f"{function}_{argument}", function, argument, type_from_name(type_))


COUNTS = (call("count", None, "BIGINT"), call("count", "v", "BIGINT"))
INTEGERS = (*COUNTS, call("sum", "v", "BIGINT"))


def check(history: History, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> None:
    """The changes add up to the definition at every instant, are netted, and do not show the cuts."""

    def changes(history: History) -> list[Change]:
        operator = AggregateOp(history.schema, keys, calls)
        return [*operator.start().changes(), *run(operator, history)]

    cut = changes(history)
    assert_netted(cut)
    for now in [BEGINNING, *history.instants()]:
        assert contents_at(cut, now) == aggregate_slow(history.rows_at(now), history.schema, keys, calls)
    assert repr(cut) == repr(changes(history.uncut())), "cuts show in the changes"


@settings(max_examples=150, deadline=None)
@given(histories(Schema.of(k="INT", v="BIGINT")))
def test_integer_aggregates_equal_recomputation(history: History) -> None:
    check(history, ("k",), INTEGERS)


@settings(deadline=None)
@given(histories(Schema.of(v="INT")))
def test_one_group_without_keys_lives_for_ever(history: History) -> None:
    check(history, (), INTEGERS)


Becoming = tuple[int, list[tuple[int, int | None]]]
"""A gap, and then at one instant: the row at this place becomes one with this number more, or NULL."""


@settings(max_examples=150, deadline=None)
@given(
    start=st.lists(st.tuples(st.sampled_from(["a", "a", "b"]), st.one_of(st.none(), st.integers(0, 60))), min_size=1, max_size=40),
    becoming=st.lists(
        st.tuples(st.integers(0, 1), st.lists(st.tuples(st.integers(0, 39), st.sampled_from([1, 1, -1, -1, 7, -30, None])), max_size=5)),
        max_size=20,
    ),
    leaving_first=st.booleans(), data=st.data(),
)  # fmt: skip
def test_extremes_of_numbers_that_become_others(
    start: list[tuple[str, int | None]], becoming: list[Becoming], leaving_first: bool, data: st.DataObject
) -> None:
    """As counts do below a maximum: what leaves and what enters at one instant is nearly the same."""
    present, now = list(start), 0
    changes: list[Change] = [(now, 1, row) for row in present]
    for gap, numbers in becoming:
        now += gap
        for place, more in numbers:
            key, old = present[place % len(present)]
            new = (key, None if more is None else (old or 0) + more)
            pair: list[Change] = [(now, -1, (key, old)), (now, 1, new)]
            changes += pair if leaving_first else pair[::-1]
            present[place % len(present)] = new
    cuts = data.draw(st.frozensets(st.sampled_from(sorted({change[0] for change in changes}))))
    calls = (call("min", "v", "BIGINT"), call("max", "v", "BIGINT"), COUNTS[0])
    for keys in [(), ("k",)]:
        check(History(Schema.of(k="STRING", v="BIGINT"), tuple(changes), cuts), keys, calls)


@pytest.mark.parametrize("type_", KEY_TYPES)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_keys_of_every_type(type_: str, data: st.DataObject) -> None:
    check(data.draw(histories(Schema.of(k=type_, v="INT"))), ("k",), INTEGERS)


@settings(deadline=None)
@given(histories(Schema.of(a="STRING", v="SMALLINT", b="DOUBLE", c="DECIMAL(20,0)")))
def test_several_keys(history: History) -> None:
    check(history, ("c", "a", "b"), INTEGERS)


@settings(deadline=None)
@given(histories(Schema.of(k="STRING", v="BIGINT")), st.booleans())
def test_saved_state_goes_on_as_if_nothing_had_happened(history: History, keyed: bool) -> None:
    keys = ("k",) if keyed else ()
    check_saved(history, keys, INTEGERS)


def check_saved(history: History, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> None:
    """An operator that is saved and loaded between all steps gives the same changes and contents."""
    lasting = AggregateOp(history.schema, keys, calls)
    for batch, frontier in history.steps():
        loaded = AggregateOp(history.schema, keys, calls)
        loaded.load(lasting.save())
        expected = lasting.step(batch, frontier)
        assert repr(list(loaded.step(batch, frontier).changes())) == repr(list(expected.changes()))
        assert loaded.state_rows() == lasting.state_rows()
        contents = bag_of(loaded.contents(no_input))
        assert contents == aggregate_slow(history.rows_at(frontier), history.schema, keys, calls)
        lasting = loaded


NUMBERS = [
    ("TINYINT", "BIGINT", "DOUBLE"), ("BIGINT", "BIGINT", "DOUBLE"), ("FLOAT", "DOUBLE", "DOUBLE"), ("DOUBLE", "DOUBLE", "DOUBLE"),
    ("DECIMAL(5,2)", "DECIMAL(15,2)", "DECIMAL(9,6)"), ("DECIMAL(18,0)", "DECIMAL(28,0)", "DECIMAL(22,4)"),
    ("DECIMAL(38,0)", "DECIMAL(38,0)", "DECIMAL(38,4)"), ("DECIMAL(38,37)", "DECIMAL(38,37)", "DECIMAL(38,38)"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "sum_type", "avg_type"), NUMBERS)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sum_and_avg_of_every_number(type_: str, sum_type: str, avg_type: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v=type_)))
    calls = (call("sum", "v", sum_type), call("avg", "v", avg_type))
    check(history, ("k",), calls)
    check_saved(history, ("k",), calls)


ORDERED = ["BOOLEAN", "SMALLINT", "BIGINT", "STRING", "BINARY", "FLOAT", "DOUBLE", "DECIMAL(18,3)", "DECIMAL(38,3)", "DATE", "TIMESTAMP"]


@pytest.mark.parametrize("type_", ORDERED)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_min_and_max_of_every_ordered_type(type_: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v=type_), size=60))
    calls = (call("min", "v", type_), call("max", "v", type_), COUNTS[0])
    check(history, ("k",), calls)
    check_saved(history, ("k",), calls)
