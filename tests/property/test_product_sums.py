"""ProductSumsOp against the nested loops: every instant, any cut, rows that leave as their partners come, NULLs, sums beyond BIGINT."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import InternalError, QueryFailed
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.product_sums import ProductSumsOp
from millstream.plan.physical import ProductCall
from property.histories import Bag, Change, History, Row, assert_netted, bag, bag_of, comparable, contents_at, histories, signed_batch
from property.test_aggregate import KEY_TYPES

SIDES = [Schema.of(k="INT", v="BIGINT"), Schema.of(w="TINYINT", k="INT"), Schema.of(k="INT", x="BIGINT")]
BIGINT = Schema.of(c="BIGINT")["c"].type
CALLS = [
    ProductCall("count", -1, "", BIGINT), ProductCall("sum", 0, "v", BIGINT), ProductCall("count", 1, "w", BIGINT),
    ProductCall("sum", 1, "w", BIGINT), ProductCall("sum", 2, "x", BIGINT), ProductCall("count", 0, "k", BIGINT),
]  # fmt: skip
NUMBER = st.integers(-2, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**61, -(2**61), -(2**62), None])
KEY = st.sampled_from([1, 1, 1, 2, None])
ROWS = [st.tuples(KEY, NUMBER), st.tuples(st.integers(-128, 127) | st.none(), KEY), st.tuples(KEY, NUMBER)]
HISTORIES = st.tuples(*(histories(schema, rows=rows, size=14) for schema, rows in zip(SIDES, ROWS, strict=True)))


def operator(sides: list[Schema], calls: list[ProductCall], keys: tuple[str, ...] = ("k",)) -> ProductSumsOp:
    output = Schema((*(sides[0][key] for key in keys), *(Field(f"c{i}", call.type) for i, call in enumerate(calls))))
    return ProductSumsOp(sides, [keys] * len(sides), calls, output)


def products_slow(sides: list[History], calls: list[ProductCall], keys: tuple[str, ...], now: int) -> Bag:
    places = [[side.schema.names.index(key) for key in keys] for side in sides]
    groups: dict[Any, list[tuple[Row, ...]]] = {}
    for rows in itertools.product(*(side.rows_at(now) for side in sides)):
        found = {comparable(tuple(row[i] for i in place)) for row, place in zip(rows, places, strict=True)}
        key = tuple(rows[0][i] for i in places[0])
        if len(found) == 1 and None not in key:
            groups.setdefault(comparable(key), []).append(rows)
    return bag(tuple(group) + tuple(_called(call, sides, rows) for call in calls) for group, rows in groups.items())


def _called(call: ProductCall, sides: list[History], pairs: list[tuple[Row, ...]]) -> int | None:
    if call.side < 0:
        return len(pairs)
    place = sides[call.side].schema.names.index(call.column)
    values = [rows[call.side][place] for rows in pairs if rows[call.side][place] is not None]
    if call.function == "count":
        return len(values)
    return sum(values) if values and -(2**63) <= sum(values) < 2**63 else None


def steps(sides: list[History]) -> list[list[SignedBatch]]:
    found, after = [], -100
    last = max((now for side in sides for now in side.instants()), default=0)
    for frontier in sorted({*itertools.chain(*(side.cuts for side in sides)), last}):
        parts = [[change for change in side.changes if after < change[0] <= frontier] for side in sides]
        found.append([signed_batch(side.schema, part) for side, part in zip(sides, parts, strict=True)])
        after = frontier
    return found


def check(sides: list[History], calls: list[ProductCall], keys: tuple[str, ...] = ("k",)) -> None:
    op, changes = operator([side.schema for side in sides], calls, keys), list[Change]()
    for batches in steps(sides):
        changes += list(op.step(*batches).changes())
    assert_netted(changes)
    for now in sorted({-100, *(instant for side in sides for instant in side.instants())}):
        assert contents_at(changes, now) == products_slow(sides, calls, keys, now)
    last = max((now for side in sides for now in side.instants()), default=0)
    assert op.state_rows() == len({comparable(row[0]) for row in _keys(sides, keys, last)})


def _keys(sides: list[History], keys: tuple[str, ...], now: int) -> list[Any]:
    rows = [tuple(row[side.schema.names.index(key)] for key in keys) for side in sides for row in side.rows_at(now)]
    return [(row,) for row in rows if None not in row]


@settings(max_examples=300, deadline=None)
@given(HISTORIES, st.integers(2, 3), st.lists(st.sampled_from(range(len(CALLS))), max_size=5, unique=True))
def test_products_equal_recomputation(sides: tuple[History, ...], many: int, chosen: list[int]) -> None:
    check(list(sides[:many]), [CALLS[i] for i in chosen if CALLS[i].side < many])


@pytest.mark.parametrize("type_", [name for name in KEY_TYPES if not name.startswith(("ARRAY", "STRUCT"))])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_keys_of_every_type(type_: str, data: st.DataObject) -> None:
    schema = Schema.of(k=type_, v="TINYINT")
    sides = [data.draw(histories(schema)), data.draw(histories(schema))]
    check(sides, [CALLS[0], ProductCall("sum", 1, "v", BIGINT)])


@settings(deadline=None)
@given(histories(Schema.of(k="STRING", j="INT", v="INT")), histories(Schema.of(j="INT", k="STRING")))
def test_several_keys(left: History, right: History) -> None:
    check([left, right], [CALLS[0], ProductCall("sum", 0, "v", BIGINT)], ("k", "j"))


@settings(max_examples=100, deadline=None)
@given(HISTORIES)
def test_saved_state_goes_on_as_if_nothing_had_happened(sides: tuple[History, ...]) -> None:
    lasting, changes = operator(SIDES, CALLS), list[Change]()
    for batches in steps(list(sides)):
        loaded = operator(SIDES, CALLS)
        loaded.load(lasting.save())
        expected = list(lasting.step(*batches).changes())
        assert Counter(map(repr, loaded.step(*batches).changes())) == Counter(map(repr, expected))
        changes += expected
        last = max((change[0] for change in changes), default=0)
        assert bag_of(loaded.contents()) == bag_of(lasting.contents()) == contents_at(changes, last)
        assert loaded.state_rows() == lasting.state_rows()
        lasting = loaded


@pytest.mark.parametrize("value", [-(2**62), 2**62, -(2**63), 2**63 - 1, (2**63 - 1) // 3, -(2**63) // 3, -(2**63) // 3 + 1, 2**61, 0, -1])
@pytest.mark.parametrize("many", [1, 2, 3, 4, 8])
def test_a_sum_that_does_not_fit_is_null(value: int, many: int) -> None:
    """Minus 2**62, three times, was 2**62: to the compiler nothing wraps round."""
    op = operator([SIDES[0], SIDES[1]], [ProductCall("sum", 0, "v", BIGINT)])
    partners = signed_batch(SIDES[1], [(0, 1, (0, 1))] * many)
    (change,) = op.step(signed_batch(SIDES[0], [(0, 1, (1, value))]), partners).changes()
    assert change == (0, 1, (1, value * many if -(2**63) <= value * many < 2**63 else None))


@pytest.mark.parametrize("partner", [True, False])
def test_a_row_that_never_came_cannot_leave(partner: bool) -> None:
    op = operator(SIDES[:2], CALLS[:1])
    others = signed_batch(SIDES[1], [(0, 1, (1, 7))] if partner else [])
    with pytest.raises(InternalError):
        op.step(signed_batch(SIDES[0], [(1, -1, (7, 1))]), others)


def test_more_combinations_than_can_be_counted_are_an_error() -> None:
    sides, many = [Schema.of(k="INT")] * 4, 1 << 16
    batch = signed_batch(sides[0], [(1, 1, (7,))])
    rows = batch.rows.take(np.zeros(many, np.int64))
    with pytest.raises(QueryFailed, match="more partners"):
        operator(sides, CALLS[:1]).step(*[SignedBatch(np.ones(many, np.int64), np.ones(many, np.int8), rows)] * 4)
