"""OverOp against its slow definition: every instant, any cut, random orders and frames, saved and loaded."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema, type_from_name
from millstream.kernels import row_store
from millstream.operators import over
from millstream.operators.over import OverOp
from millstream.plan.ordering import WHOLE, Frame, OverCall, SortKey
from property.histories import History, assert_netted, bag, contents_at, histories
from property.over_slow import over_slow, rows_at

RUNNING = Frame("rows", None, 0)
OFFSETS: dict[str, list[Any]] = {
    "BIGINT": [-3, -1, 1, 2, 2**62], "INT": [-2, -1, 1, 3], "DOUBLE": [-0.5, -0.1, 0.1, 1e300], "TIMESTAMP": [-10, 5, 10**17],
    "DATE": [-1, 2, 20_000], "DECIMAL(10,2)": [-100, -1, 2, 50],
}  # fmt: skip


def sort_keys(names: list[str]) -> st.SearchStrategy[SortKey]:
    return st.builds(SortKey, st.sampled_from(names), st.booleans(), st.booleans())


@st.composite
def frames(draw: st.DrawFn, offsets: list[Any]) -> Frame:
    """ROWS frames of any kind; RANGE frames with these offsets, or up to the peers."""
    unit = draw(st.sampled_from(["rows", "range"]))
    chosen = [-3, -2, -1, 0, 1, 2] if unit == "rows" else [0, *offsets]
    one, other = draw(st.tuples(st.sampled_from(chosen), st.sampled_from(chosen)))
    start, stop = sorted([one, other])
    return Frame(unit, draw(st.sampled_from([start, start, None])), draw(st.sampled_from([stop, stop, None])))


@st.composite
def calls(draw: st.DrawFn, offsets: list[Any]) -> tuple[OverCall, ...]:
    frame = frames(offsets)
    some = [draw(frame) for _ in range(3)]
    distance = draw(st.integers(0, 3))
    bigint, integer, double = pa.int64(), pa.int32(), pa.float64()
    found = [
        OverCall("_a", "count", None, bigint, some[0]),
        OverCall("_b", "count", "x", bigint, some[0]),
        OverCall("_c", "sum", "x", bigint, some[1]),
        OverCall("_d", "avg", "x", double, some[1]),
        OverCall("_e", "min", "x", bigint, some[2]),
        OverCall("_f", "max", "s", pa.string(), some[0]),
        OverCall("_g", "sum", "y", double, some[2]),
        OverCall("_h", "row_number", None, integer, RUNNING),
        OverCall("_i", "rank", None, integer, RUNNING),
        OverCall("_j", "dense_rank", None, integer, RUNNING),
        OverCall("_k", "percent_rank", None, double, WHOLE),
        OverCall("_l", "cume_dist", None, double, WHOLE),
        OverCall("_m", "ntile", None, integer, WHOLE, 3),
        OverCall("_n", "lag", "s", pa.string(), Frame("rows", -distance, -distance)),
        OverCall("_o", "lead", "x", bigint, Frame("rows", distance, distance)),
        OverCall("_p", "is_lag", None, pa.bool_(), Frame("rows", -distance, -distance)),
        OverCall("_q", "first_value", "x", bigint, some[0]),
        OverCall("_r", "last_value", "y", double, some[1]),
        OverCall("_t", "nth_value", "s", pa.string(), some[2], 2),
        OverCall("_u", "count", "x", bigint, some[0], distinct=True),
        OverCall("_v", "collect_set", "x", pa.list_(bigint), some[1]),
        OverCall("_w", "bit_xor", "x", bigint, some[2]),
        OverCall("_x", "percentile_approx", "x", bigint, some[1], fractions=(0.5,)),
        OverCall("_y", "max", "x", bigint, WHOLE),
        OverCall("_z", "count", None, bigint, Frame("range", None, None)),
    ]  # fmt: skip
    return tuple(draw(st.lists(st.sampled_from(found), min_size=1, max_size=4, unique_by=lambda call: call.name)))


def check(history: History, partition_by: tuple[str, ...], order_by: tuple[SortKey, ...], calls: tuple[OverCall, ...], saved: bool) -> None:
    operator, changes = OverOp(history.schema, partition_by, order_by, calls), []
    for batch, frontier in history.steps():
        changes += operator.step(batch, frontier).changes()
        assert operator.state_rows() == len(rows_at(history, frontier))
        if saved:
            arrays, operator = operator.save(), OverOp(history.schema, partition_by, order_by, calls)
            operator.load(arrays)
    assert_netted(changes)
    for now in history.instants():
        expected = over_slow(rows_at(history, now), history.schema, partition_by, order_by, calls)
        assert contents_at(changes, now) == bag(expected), now


SMALL = Schema.of(k="STRING", n="BIGINT", x="BIGINT", s="STRING", y="DOUBLE")


def small_rows(n: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(
        st.sampled_from(["a", "b", None]), n, st.sampled_from([1, 2, 3, None]), st.sampled_from(["p", "q", None]),
        st.sampled_from([0.1, 0.2, -0.0, None]),
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(data=st.data(), partition_by=st.sampled_from([(), ("k",), ("k", "s")]), saved=st.booleans(), room=st.sampled_from([1, 7, 4096]))
def test_every_call_equals_recomputation(data: st.DataObject, partition_by: tuple[str, ...], saved: bool, room: int) -> None:
    order_by = tuple(data.draw(st.lists(sort_keys(["n", "x", "s", "y"]), max_size=2)))
    offsets = OFFSETS["BIGINT"] if len(order_by) == 1 and order_by[0].column in ("n", "x") else []
    chosen = data.draw(calls(offsets))
    history = data.draw(histories(SMALL, rows=small_rows(st.sampled_from([0, 1, 2, 3, 5, None]))))
    with patch.object(over, "_ROOM", room), patch.object(row_store, "_SLACK", data.draw(st.sampled_from([1, 1024]))):
        check(history, partition_by, order_by, chosen, saved)


@pytest.mark.parametrize("type_", sorted(OFFSETS))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_range_frames_over_keys_of_every_type(type_: str, data: st.DataObject) -> None:
    schema = Schema.of(n=type_, x="BIGINT", s="STRING", y="DOUBLE")
    chosen = data.draw(calls(OFFSETS[type_]))
    check(data.draw(histories(schema)), (), (data.draw(sort_keys(["n"])),), chosen, data.draw(st.booleans()))


TYPES = ["BOOLEAN", "STRING", "BINARY", "FLOAT", "DOUBLE", "DECIMAL(38,3)", "ARRAY<STRING>", "STRUCT<a:INT,b:DOUBLE>", "ARRAY<ARRAY<INT>>"]


@pytest.mark.parametrize("type_", TYPES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_ties_are_broken_by_columns_of_every_type(type_: str, data: st.DataObject) -> None:
    schema = Schema.of(n="TINYINT", v=type_)
    numbered = (
        OverCall("_i", "row_number", None, pa.int32(), RUNNING),
        OverCall("_l", "lag", "v", type_from_name(type_), Frame("rows", -1, -1)),
    )
    check(data.draw(histories(schema)), (), (data.draw(sort_keys(["n"])),), numbered, data.draw(st.booleans()))
    check(data.draw(histories(schema)), ("v",), (data.draw(sort_keys(["n"])),), numbered, data.draw(st.booleans()))


@pytest.mark.parametrize("type_", TYPES[:6])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_sort_keys_of_every_type(type_: str, data: st.DataObject) -> None:
    schema = Schema.of(n=type_, v="INT")
    ranked = (OverCall("_i", "rank", None, pa.int32(), RUNNING), OverCall("j", "dense_rank", None, pa.int32(), RUNNING))
    check(data.draw(histories(schema)), (), (data.draw(sort_keys(["n"])), data.draw(sort_keys(["v"]))), ranked, False)
