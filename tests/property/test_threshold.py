"""ThresholdOp against comparing all rows: every instant, every comparison, any cut, ties, NULLs and copies."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import InternalError
from millstream.core.schema import Schema
from millstream.operators.threshold import ThresholdOp
from millstream.plan.logical import Comparison, JoinKey, Match
from property.histories import (
    Bag,
    Change,
    History,
    assert_netted,
    bag,
    comparable,
    contents_at,
    histories,
    rows_of,
    signed_batch,
    sort_key,
    values,
)  # fmt: skip
from property.test_join import assert_saved_state_goes_on, steps

COMPARISONS = get_args(Comparison)
TYPES = ["TINYINT", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL(9,2)", "DECIMAL(38,2)", "DATE", "TIMESTAMP", "BOOLEAN"]


@st.composite
def thresholds(draw: st.DrawFn, schema: Schema) -> History:
    """The columns but the last are keys: at every instant there is at most one row of each, and changes are netted."""
    keys, value = st.tuples(*(values(field.type) for field in schema.fields[:-1])), values(schema.fields[-1].type)
    moves = draw(st.lists(st.tuples(st.sampled_from([0, 1, 1, 3]), keys, st.one_of(value, value, st.just("gone"))), max_size=20))
    now, changes, held, moved = draw(st.integers(-5, 5)), [], {}, set()
    for gap, key, new in moves:
        now += gap
        name = comparable(key)
        if (now, name) in moved:
            continue
        moved.add((now, name))
        old = held.pop(name, None)
        row = None if new == "gone" else (*key, new)
        if row is not None:
            held[name] = row
        if comparable(old) != comparable(row):
            changes += [(now, -1, old)] if old is not None else []
            changes += [(now, 1, row)] if row is not None else []
        elif old is not None:
            held[name] = old
    if draw(st.booleans()):
        changes.sort(key=lambda change: (change[0], -change[1]))
    cuts = draw(st.frozensets(st.sampled_from(sorted({change[0] for change in changes})))) if changes else frozenset()
    return History(schema, tuple(changes), cuts)


class Case:
    """Left rows (keys, x, ...), right rows (keys, y)."""

    def __init__(self, left: Schema, right: Schema, null_safe: tuple[bool, ...], comparison: Any) -> None:
        self.left, self.right, self.null_safe, self.comparison = left, right, null_safe, comparison

    def operator(self) -> ThresholdOp:
        keys = [JoinKey(self.left.names[i], self.right.names[i], safe) for i, safe in enumerate(self.null_safe)]
        return ThresholdOp(self.left, self.right, keys, Match(self.left.names[len(keys)], self.comparison, self.right.names[-1]))

    def slow(self, left: History, right: History, now: int) -> Bag:
        return bag(one for one in left.rows_at(now) if any(self._passes(one, other) for other in right.rows_at(now)))

    def _passes(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        for a, b, safe in zip(one, other, self.null_safe, strict=False):
            if comparable(a) != comparable(b) or (a is None and not safe):
                return False
        x, y = one[len(self.null_safe)], other[-1]
        if x is None or y is None:
            return False
        x, y = sort_key(x), sort_key(y)
        return bool({">=": x >= y, ">": x > y, "<=": x <= y, "<": x < y}[self.comparison])


def changes_of(operator: ThresholdOp, left: History, right: History) -> list[Change]:
    return [change for mine, theirs, _ in steps(left, right) for change in operator.step(mine, theirs).changes()]


def check(case: Case, left: History, right: History) -> None:
    changes = changes_of(case.operator(), left, right)
    assert_netted(changes)
    for now in sorted({-100, *left.instants(), *right.instants()}):
        assert contents_at(changes, now) == case.slow(left, right, now)


@settings(max_examples=200, deadline=None)
@given(
    histories(Schema.of(x="TINYINT", v="STRING"), size=60), thresholds(Schema.of(y="TINYINT")), st.sampled_from(COMPARISONS),
)  # fmt: skip
def test_one_value_for_all_rows(left: History, right: History, comparison: Any) -> None:
    check(Case(left.schema, right.schema, (), comparison), left, right)


@settings(max_examples=200, deadline=None)
@given(
    histories(Schema.of(k="STRING", j="INT", x="TINYINT", v="DOUBLE"), size=40), thresholds(Schema.of(a="STRING", b="INT", y="TINYINT")),
    st.sampled_from(COMPARISONS), st.tuples(st.booleans(), st.booleans()),
)  # fmt: skip
def test_a_value_for_each_key(left: History, right: History, comparison: Any, null_safe: tuple[bool, bool]) -> None:
    check(Case(left.schema, right.schema, null_safe, comparison), left, right)


@pytest.mark.parametrize("type_", TYPES)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_values_of_every_type(type_: str, data: st.DataObject) -> None:
    schema = Schema.of(x=type_, v="INT")
    left, right = data.draw(histories(schema, rows=rows_of(schema), size=40)), data.draw(thresholds(Schema.of(y=type_)))
    check(Case(schema, right.schema, (), data.draw(st.sampled_from(COMPARISONS))), left, right)


@settings(deadline=None)
@given(histories(Schema.of(k="STRING", x="DOUBLE")), thresholds(Schema.of(k="STRING", y="DOUBLE")), st.sampled_from(COMPARISONS))
def test_saved_state_goes_on_as_if_nothing_had_happened(left: History, right: History, comparison: Any) -> None:
    case = Case(left.schema, right.schema, (False,), comparison)
    assert_saved_state_goes_on(case.operator, left, right)


@settings(deadline=None)
@given(histories(Schema.of(k="INT", x="INT")), thresholds(Schema.of(k="INT", y="INT")))
def test_nothing_is_kept_of_what_left(left: History, right: History) -> None:
    operator = Case(left.schema, right.schema, (False,), ">").operator()
    for mine, theirs, frontier in steps(left, right):
        operator.step(mine, theirs)
        rows = [row for row in left.rows_at(frontier) if None not in row]
        bounds = [row for row in right.rows_at(frontier) if None not in row]
        assert operator.state_rows() == len(rows) + len(bounds)
        assert len(operator._partitions._keys) == len({row[0] for row in (*rows, *bounds)})  # type: ignore[arg-type]


def test_many_rows_cross_at_once() -> None:
    left, right = Schema.of(x="INT"), Schema.of(y="INT")
    operator = Case(left, right, (), ">=").operator()
    operator.step(signed_batch(left, [(0, 1, (i,)) for i in range(5000)]), signed_batch(right, [(0, 1, (4999,))]))
    moved = operator.step(signed_batch(left, []), signed_batch(right, [(1, -1, (4999,)), (1, 1, (0,)), (2, -1, (0,)), (2, 1, (4998,))]))
    signs = [(instant, sign) for instant, sign, _ in moved.changes()]
    assert signs == [(1, 1)] * 4999 + [(2, -1)] * 4998


def test_only_the_rows_between_the_old_value_and_the_new_one_change() -> None:
    left, right = Schema.of(x="DOUBLE"), Schema.of(y="DOUBLE")
    operator = Case(left, right, (), ">").operator()
    operator.step(signed_batch(left, [(0, 1, (float(x),)) for x in range(10)]), signed_batch(right, [(0, 1, (4.5,))]))
    moved = operator.step(signed_batch(left, []), signed_batch(right, [(1, -1, (4.5,)), (1, 1, (6.0,))]))
    assert list(moved.changes()) == [(1, -1, (5.0,)), (1, -1, (6.0,))]


def test_a_row_that_was_never_there_cannot_leave() -> None:
    left, right = Schema.of(x="INT"), Schema.of(y="INT")
    with pytest.raises(InternalError):
        Case(left, right, (), ">").operator().step(signed_batch(left, [(0, -1, (1,))]), signed_batch(right, []))
