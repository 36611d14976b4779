"""AsOfJoinOp against a search through all right rows: every instant, every comparison, any cut, ties, NULLs and copies."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import InternalError
from millstream.core.schema import Field, Schema
from millstream.operators.asof_join import AsOfJoinOp
from millstream.operators.evaluator import Evaluator
from millstream.plan.logical import Comparison, JoinKey, Match
from millstream.plan.sort_key_sql import sort_key_sql
from property.histories import (
    Bag,
    Change,
    History,
    Row,
    assert_netted,
    bag,
    comparable,
    contents_at,
    histories,
    rows_of,
    signed_batch,
    sort_key,
)  # fmt: skip
from property.test_join import assert_saved_state_goes_on, steps

COMPARISONS = get_args(Comparison)
EVALUATOR = Evaluator()
MATCH_TYPES = ["TIMESTAMP", "TINYINT", "BIGINT", "DATE", "DOUBLE", "FLOAT", "DECIMAL(9,2)", "DECIMAL(30,2)", "BOOLEAN"]


class Case:
    """One join of two schemas: `keys` are columns of both, the match value is the column `m` of both."""

    def __init__(self, left: Schema, right: Schema, keys: dict[str, bool], comparison: Any, *, keeps_left: bool) -> None:
        self.left, self.right, self.keys, self.comparison, self.keeps_left = left, right, keys, comparison, keeps_left
        # the values of keys and match are equal where rows tie, but 0.0 and -0.0 are two rows
        self.ties = [field for field in right if field.name not in (*keys, "m") or pa.types.is_floating(field.type)]

    def operator(self) -> AsOfJoinOp:
        output = Schema(tuple(self.left) + tuple(Field(f"r_{field.name}", field.type) for field in self.right))
        keys = [JoinKey(name, name, safe) for name, safe in self.keys.items()]
        tie_sql = sort_key_sql(self.ties) if self.ties else None
        return AsOfJoinOp(
            self.left, self.right, keys, Match("m", self.comparison, "m"), tie_sql, output, EVALUATOR, keeps_left=self.keeps_left
        )

    def slow(self, left: History, right: History, now: int) -> Bag:
        found = []
        for one in left.rows_at(now):
            partners = [other for other in right.rows_at(now) if self._meets(one, other)]
            if partners:
                found.append(one + max(partners, key=self._nearness))
            elif self.keeps_left:
                found.append(one + (None,) * len(self.right))
        return bag(found)

    def _meets(self, one: Row, other: Row) -> bool:
        for name, safe in self.keys.items():
            a, b = one[self.left.names.index(name)], other[self.right.names.index(name)]
            if comparable(a) != comparable(b) or (a is None and not safe):
                return False
        a, b = one[self.left.names.index("m")], other[self.right.names.index("m")]
        if a is None or b is None:
            return False
        a, b = sort_key(a), sort_key(b)
        return bool({">=": a >= b, ">": a > b, "<=": a <= b, "<": a < b}[self.comparison])

    def _nearness(self, other: Row) -> Any:
        value = sort_key(other[self.right.names.index("m")])
        nearest = cmp_to_key(lambda a, b: (a > b) - (a < b) if self.comparison in (">=", ">") else (a < b) - (a > b))(value)
        return nearest, [(value is not None, sort_key(value) if value is not None else 0) for value in other]


def changes_of(operator: AsOfJoinOp, left: History, right: History) -> list[Change]:
    return [change for mine, theirs, _ in steps(left, right) for change in operator.step(mine, theirs).changes()]


def check(case: Case, left: History, right: History) -> None:
    changes = changes_of(case.operator(), left, right)
    assert [change[0] for change in changes] == sorted(change[0] for change in changes)
    for now in sorted({-100, *left.instants(), *right.instants()}):
        assert contents_at(changes, now) == case.slow(left, right, now)


def pairs(left: Schema, right: Schema, size: int = 25) -> st.SearchStrategy[tuple[History, History]]:
    return st.tuples(histories(left, size=size), histories(right, size=size))


@settings(max_examples=200, deadline=None)
@given(
    pairs(Schema.of(k="INT", m="TINYINT", v="STRING"), Schema.of(k="INT", x="DOUBLE", m="TINYINT", y="STRING")),
    st.sampled_from(COMPARISONS), st.booleans(), st.booleans(),
)  # fmt: skip
def test_partners_equal_recomputation(both: tuple[History, History], comparison: Any, keeps_left: bool, null_safe: bool) -> None:
    left, right = both
    check(Case(left.schema, right.schema, {"k": null_safe}, comparison, keeps_left=keeps_left), left, right)


@settings(max_examples=150, deadline=None)
@given(pairs(Schema.of(m="TINYINT"), Schema.of(m="TINYINT"), size=60), st.sampled_from(COMPARISONS), st.booleans())
def test_many_rows_of_one_key(both: tuple[History, History], comparison: Any, keeps_left: bool) -> None:
    left, right = both
    check(Case(left.schema, right.schema, {}, comparison, keeps_left=keeps_left), left, right)


@pytest.mark.parametrize("type_", MATCH_TYPES)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_match_values_of_every_type(type_: str, data: st.DataObject) -> None:
    left, right = data.draw(pairs(Schema.of(m=type_, v="INT"), Schema.of(m=type_, w="INT")))
    check(Case(left.schema, right.schema, {}, data.draw(st.sampled_from(COMPARISONS)), keeps_left=data.draw(st.booleans())), left, right)


@pytest.mark.parametrize("type_", ["STRING", "BINARY", "BOOLEAN", "DECIMAL(30,2)", "TIMESTAMP", "DATE", "FLOAT", "BIGINT"])
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_ties_by_columns_of_every_type(type_: str, data: st.DataObject) -> None:
    schema = Schema.of(a=type_, m="BOOLEAN", b=type_)
    left, right = data.draw(histories(Schema.of(m="BOOLEAN"), size=6)), data.draw(histories(schema, rows=rows_of(schema)))
    check(Case(left.schema, schema, {}, data.draw(st.sampled_from(COMPARISONS)), keeps_left=True), left, right)


@settings(deadline=None)
@given(pairs(Schema.of(a="STRING", b="INT", m="INT"), Schema.of(b="INT", m="INT", a="STRING", c="STRING")), st.booleans())
def test_several_keys(both: tuple[History, History], null_safe: bool) -> None:
    left, right = both
    check(Case(left.schema, right.schema, {"a": False, "b": null_safe}, ">=", keeps_left=True), left, right)


@settings(deadline=None)
@given(pairs(Schema.of(k="STRING", m="INT"), Schema.of(k="STRING", m="INT", y="BIGINT")), st.sampled_from(COMPARISONS))
def test_changes_are_netted(both: tuple[History, History], comparison: Any) -> None:
    left, right = both
    case = Case(left.schema, right.schema, {"k": False}, comparison, keeps_left=False)
    assert_netted(changes_of(case.operator(), left, right))


@settings(deadline=None)
@given(
    pairs(Schema.of(k="STRING", m="DECIMAL(20,2)"), Schema.of(k="STRING", m="DECIMAL(20,2)", w="STRING")), st.sampled_from(COMPARISONS),
    st.booleans(),
)  # fmt: skip
def test_saved_state_goes_on_as_if_nothing_had_happened(both: tuple[History, History], comparison: Any, keeps_left: bool) -> None:
    left, right = both
    case = Case(left.schema, right.schema, {"k": False}, comparison, keeps_left=keeps_left)
    assert_saved_state_goes_on(case.operator, left, right)


@settings(deadline=None)
@given(pairs(Schema.of(k="INT", m="INT"), Schema.of(k="INT", m="INT", w="INT")))
def test_nothing_is_kept_of_rows_that_left(both: tuple[History, History]) -> None:
    left, right = both
    operator = Case(left.schema, right.schema, {"k": False}, ">=", keeps_left=True).operator()
    for mine, theirs, frontier in steps(left, right):
        operator.step(mine, theirs)
        kept = [{row for row in contents_at(history.changes, frontier) if None not in row[:2]} for history in (left, right)]
        assert operator.state_rows() == len(kept[0]) + len(kept[1])
        assert len(operator._key_table) == len({row[0] for rows in kept for row in rows})


def test_a_right_row_moves_only_the_left_rows_up_to_the_next_one() -> None:
    schema = Schema.of(m="INT")
    operator = Case(schema, schema, {}, ">=", keeps_left=False).operator()
    nothing = signed_batch(schema, [])
    operator.step(signed_batch(schema, [(0, 1, (m,)) for m in range(10)]), signed_batch(schema, [(0, 1, (m,)) for m in (0, 4, 8)]))
    moved = operator.step(nothing, signed_batch(schema, [(1, 1, (2,)), (2, -1, (2,))]))
    assert list(moved.changes()) == [
        (1, -1, (2, 0)), (1, 1, (2, 2)), (1, -1, (3, 0)), (1, 1, (3, 2)),
        (2, -1, (2, 2)), (2, 1, (2, 0)), (2, -1, (3, 2)), (2, 1, (3, 0)),
    ]  # fmt: skip


def test_a_right_row_that_takes_the_place_of_another_moves_each_left_row_once() -> None:
    left, right = Schema.of(m="INT"), Schema.of(m="INT", w="STRING")
    operator = Case(left, right, {}, "<=", keeps_left=True).operator()
    operator.step(signed_batch(left, [(0, 1, (1,)), (0, 1, (1,))]), signed_batch(right, [(0, 1, (5, "a")), (0, 1, (9, "z"))]))
    moved = operator.step(signed_batch(left, []), signed_batch(right, [(1, -1, (5, "a")), (1, 1, (5, "b"))]))
    assert list(moved.changes()) == [(1, -1, (1, 5, "a"))] * 2 + [(1, 1, (1, 5, "b"))] * 2


def test_a_row_that_was_never_there_cannot_leave() -> None:
    schema = Schema.of(m="INT")
    with pytest.raises(InternalError):
        Case(schema, schema, {}, ">", keeps_left=False).operator().step(signed_batch(schema, [(0, -1, (1,))]), signed_batch(schema, []))
