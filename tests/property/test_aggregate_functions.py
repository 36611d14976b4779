"""DISTINCT, FIRST and all the other aggregates against their definitions: every instant, any cut, any type, saved and loaded."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema, type_from_name
from millstream.plan.logical import AggregateCall
from property.aggregate_model import check, check_saved
from property.histories import History, histories

ORDERED = ["BOOLEAN", "SMALLINT", "BIGINT", "STRING", "BINARY", "FLOAT", "DOUBLE", "DECIMAL(18,3)", "DECIMAL(38,3)", "DATE", "TIMESTAMP"]


def call(function: str, columns: str, type_: str, *, distinct: bool = False, parameters: tuple[float, ...] = ()) -> AggregateCall:
    first, *more = columns.split()
    name = f"{function}_{'distinct_' if distinct else ''}{'_'.join([first, *more])}"
    return AggregateCall(name, function, first, type_from_name(type_), tuple(more), distinct, parameters)


def check_all(history: History, *calls: AggregateCall, keys: tuple[str, ...] = ("k",)) -> None:
    check(history, keys, calls)
    check_saved(history, keys, calls)


COUNT_ROWS = AggregateCall("n", "count", None, type_from_name("BIGINT"))


@settings(max_examples=100, deadline=None)
@given(histories(Schema.of(k="INT", v="SMALLINT", w="STRING"), size=40), st.booleans())
def test_distinct_counts_and_sums(history: History, keyed: bool) -> None:
    check_all(
        history,
        call("count", "v", "BIGINT", distinct=True),
        call("sum", "v", "BIGINT", distinct=True),
        call("avg", "v", "DOUBLE", distinct=True),
        call("sum", "v", "BIGINT"),
        call("count", "w", "BIGINT", distinct=True),
        call("count", "v w", "BIGINT", distinct=True),
        COUNT_ROWS,
        keys=("k",) if keyed else (),
    )


DISTINCT_WHERE = tuple(
    replace(call(function, columns, "BIGINT", distinct=True), name=f"{function}_{columns}_{where}", where=where)
    for function, columns in (("count", "v"), ("sum", "v"), ("count", "w"), ("count", "v w"))
    for where in (None, "c", "d")
)


@settings(max_examples=100, deadline=None)
@given(
    histories(Schema.of(k="INT", v="SMALLINT", w="STRING", c="BOOLEAN", d="BOOLEAN"), size=40),
    st.lists(st.sampled_from(DISTINCT_WHERE), min_size=1, unique=True),
    st.booleans(),
)
def test_distinct_with_and_without_conditions(history: History, calls: list[AggregateCall], keyed: bool) -> None:
    """In any company: what a query does not show is not asked for."""
    check_all(history, *calls, keys=("k",) if keyed else ())


@pytest.mark.parametrize("type_", [*ORDERED, "ARRAY<STRING>", "STRUCT<a:INT,b:DOUBLE>"])
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_distinct_values_of_every_type(type_: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v=type_), size=30))
    check_all(history, call("count", "v", "BIGINT", distinct=True), COUNT_ROWS)


@pytest.mark.parametrize("type_", [*ORDERED, "VOID"])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_first_and_last_go_by_time(type_: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v=type_, c="BOOLEAN"), size=40))
    check_all(history, *(call(function, columns, type_) for function in ("first", "last") for columns in ("v", "v c")))


@pytest.mark.parametrize("by", ["SMALLINT", "STRING", "DOUBLE", "DECIMAL(38,3)", "BINARY"])
@pytest.mark.parametrize("type_", ["INT", "STRING", "DECIMAL(38,3)", "FLOAT"])
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_the_value_beside_an_extreme(type_: str, by: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", x=type_, y=by), size=40))
    check_all(history, call("min_by", "x y", type_), call("max_by", "x y", type_), COUNT_ROWS)


@pytest.mark.parametrize("type_", ORDERED)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_value_that_is_there_most_often(type_: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v=type_), size=40))
    least, greatest = (AggregateCall(f"m{i}", "mode", "v", type_from_name(type_), parameters=(i,)) for i in (0.0, 1.0))
    check_all(history, least, greatest, COUNT_ROWS)


@pytest.mark.parametrize("by", ["SMALLINT", "STRING", "DOUBLE", "DECIMAL(38,3)"])
@settings(max_examples=30, deadline=None)
@given(st.data(), st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0])] * 2))
def test_lists_in_an_order(by: str, data: st.DataObject, directions: tuple[float, float]) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v="STRING", x=by, y="INT"), size=30))
    both = call("collect_ordered", "v x y", "ARRAY<STRING>", parameters=directions)
    check_all(history, both, call("collect_ordered", "y x", "ARRAY<INT>", parameters=directions[:1]), COUNT_ROWS)


DOUBLES = st.one_of(
    st.none(),
    st.sampled_from([0.1, 0.2, 0.7, -1.3, 3.0, 0.0, -0.0, 1e9 + 0.1, 1e9 + 0.2, 1e9 + 0.3]),
    st.sampled_from([1e140, -1e140, 1e-100, 1e151, math.inf, math.nan]),
    st.floats(-1e6, 1e6).map(lambda x: x if abs(x) > 1e-100 else 0.0),
)


@settings(max_examples=150, deadline=None)
@given(histories(Schema.of(k="BOOLEAN", v="DOUBLE"), rows=st.tuples(st.booleans(), DOUBLES), size=30))
def test_variances_are_exact(history: History) -> None:
    functions = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
    check_all(history, *(call(function, "v", "DOUBLE") for function in functions), call("var_pop", "v", "DOUBLE", distinct=True))


@pytest.mark.parametrize("type_", ORDERED)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_lists_and_sets_of_every_ordered_type(type_: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v=type_), size=40))
    check_all(history, call("collect_list", "v", f"ARRAY<{type_}>"), call("collect_set", "v", f"ARRAY<{type_}>"))


@settings(max_examples=40, deadline=None)
@given(histories(Schema.of(v="INT"), size=40))
def test_lists_without_keys(history: History) -> None:
    check_all(history, call("collect_list", "v", "ARRAY<INT>"), call("collect_set", "v", "ARRAY<INT>"), keys=())


@pytest.mark.parametrize("type_", ["TINYINT", "INT", "BIGINT"])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_bits(type_: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v=type_), size=30))
    check_all(history, *(call(function, "v", type_) for function in ("bit_and", "bit_or", "bit_xor")))


@settings(max_examples=80, deadline=None)
@given(histories(Schema.of(k="BOOLEAN", v="DOUBLE"), size=40), st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])))
def test_percentiles_between_values(history: History, fractions: tuple[float, float]) -> None:
    check_all(
        history,
        AggregateCall("median", "percentile", "v", type_from_name("DOUBLE"), parameters=(0.5,)),
        call("percentile", "v", "ARRAY<DOUBLE>", parameters=fractions),
        call("percentile", "v", "DOUBLE", distinct=True, parameters=fractions[:1]),
    )


@pytest.mark.parametrize("type_", ["INT", "FLOAT", "DECIMAL(38,3)", "DATE"])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_percentiles_that_are_values(type_: str, data: st.DataObject) -> None:
    history = data.draw(histories(Schema.of(k="BOOLEAN", v=type_), size=40))
    one, several = (0.3,), (0.0, 0.5, 0.99, 1.0)
    check_all(
        history,
        AggregateCall("some", "percentile_approx", "v", type_from_name(type_), parameters=one),
        call("percentile_approx", "v", f"ARRAY<{type_}>", parameters=several),
    )
