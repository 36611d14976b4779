"""JoinOp against the nested loop: every instant, any cut, any type, rows that leave as their partners come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.join import JoinOp
from millstream.plan.logical import JoinKey
from property.histories import Bag, Change, History, bag, comparable, contents_at, histories, signed_batch
from property.test_aggregate import KEY_TYPES

Keys = list[tuple[str, str]]


def join(left: Schema, right: Schema, keys: Keys, null_safe: list[bool]) -> JoinOp:
    output = Schema(tuple(left) + tuple(Field(f"r_{field.name}", field.type) for field in right))
    return JoinOp(left, right, [JoinKey(one, other, safe) for (one, other), safe in zip(keys, null_safe, strict=True)], output)


def steps(left: History, right: History) -> list[tuple[SignedBatch, SignedBatch, int]]:
    """Both histories cut at the same frontiers."""
    cuts, after = [], -100
    for frontier in sorted(left.cuts | right.cuts | {max(left.instants() + right.instants(), default=0)}):
        parts = [[change for change in history.changes if after < change[0] <= frontier] for history in (left, right)]
        cuts.append((signed_batch(left.schema, parts[0]), signed_batch(right.schema, parts[1]), frontier))
        after = frontier
    return cuts


def assert_saved_state_goes_on(new: Callable[[], Any], left: History, right: History) -> None:
    """Saved and loaded before every step, an operator of two inputs gives the same changes and keeps as much."""
    lasting = new()
    for mine, theirs, _ in steps(left, right):
        loaded = new()
        loaded.load(lasting.save())
        expected = sorted(map(repr, lasting.step(mine, theirs).changes()))
        assert sorted(map(repr, loaded.step(mine, theirs).changes())) == expected
        assert loaded.state_rows() == lasting.state_rows()
        lasting = loaded


def changes_of(operator: JoinOp, left: History, right: History) -> list[Change]:
    return [change for mine, theirs, _ in steps(left, right) for change in operator.step(mine, theirs).changes()]


def changes_in_pieces(operator: JoinOp, left: History, right: History, most_pairs: int) -> list[Change]:
    changes = []
    for mine, theirs, upto in steps(left, right):
        pieces = list(operator.pieces(mine, theirs, upto, most_pairs))
        assert all(len(piece) <= most_pairs for piece in pieces)
        changes += [change for piece in pieces for change in piece.changes()]
    return changes


def join_slow(left: History, right: History, keys: Keys, null_safe: list[bool], now: int) -> Bag:
    def match(a: object, b: object, safe: bool) -> bool:
        return comparable(a) == comparable(b) and (safe or a is not None)

    places = [(left.schema.names.index(a), right.schema.names.index(b)) for a, b in keys]
    return bag(
        one + other
        for one in left.rows_at(now)
        for other in right.rows_at(now)
        if all(match(one[i], other[j], safe) for (i, j), safe in zip(places, null_safe, strict=True))
    )


def check(left: History, right: History, keys: Keys, null_safe: list[bool]) -> None:
    changes = changes_of(join(left.schema, right.schema, keys, null_safe), left, right)
    assert [change[0] for change in changes] == sorted(change[0] for change in changes)
    for now in sorted({-100, *left.instants(), *right.instants()}):
        assert contents_at(changes, now) == join_slow(left, right, keys, null_safe, now)


@settings(max_examples=150, deadline=None)
@given(histories(Schema.of(k="INT", v="STRING")), histories(Schema.of(k="INT", x="DOUBLE")), st.booleans())
def test_pairs_equal_recomputation(left: History, right: History, null_safe: bool) -> None:
    check(left, right, [("k", "k")], [null_safe])


@settings(max_examples=150, deadline=None)
@given(histories(Schema.of(k="INT", v="STRING")), histories(Schema.of(k="INT", x="DOUBLE")), st.booleans(), st.integers(1, 7))
def test_pieces_add_up_to_the_step(left: History, right: History, with_key: bool, most_pairs: int) -> None:
    keys: Keys = [("k", "k")] if with_key else []
    whole = changes_of(join(left.schema, right.schema, keys, [True] * len(keys)), left, right)
    operator = join(left.schema, right.schema, keys, [True] * len(keys))
    assert list(map(repr, changes_in_pieces(operator, left, right, most_pairs))) == list(map(repr, whole))


@pytest.mark.parametrize("type_", [name for name in KEY_TYPES if not name.startswith(("ARRAY", "STRUCT"))])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_keys_of_every_type(type_: str, data: st.DataObject) -> None:
    schema = Schema.of(k=type_, v="TINYINT")
    check(data.draw(histories(schema)), data.draw(histories(schema)), [("k", "k")], [data.draw(st.booleans())])


@settings(deadline=None)
@given(histories(Schema.of(a="STRING", b="INT"), size=12), histories(Schema.of(b="INT", a="STRING", c="FLOAT"), size=12), st.booleans())
def test_several_keys(left: History, right: History, null_safe: bool) -> None:
    check(left, right, [("a", "a"), ("b", "b")], [False, null_safe])


@settings(deadline=None)
@given(histories(Schema.of(a="DOUBLE"), size=8), histories(Schema.of(b="ARRAY<INT>"), size=8))
def test_without_keys_every_row_meets_every_row(left: History, right: History) -> None:
    check(left, right, [], [])


@settings(deadline=None)
@given(histories(Schema.of(k="STRING", v="DECIMAL(20,2)")), histories(Schema.of(k="STRING", w="BIGINT")))
def test_saved_state_goes_on_as_if_nothing_had_happened(left: History, right: History) -> None:
    assert_saved_state_goes_on(lambda: join(left.schema, right.schema, [("k", "k")], [False]), left, right)


@settings(deadline=None)
@given(histories(Schema.of(k="INT")), histories(Schema.of(k="INT")))
def test_nothing_is_kept_of_rows_that_left(left: History, right: History) -> None:
    operator = join(left.schema, right.schema, [("k", "k")], [True])
    for mine, theirs, frontier in steps(left, right):
        operator.step(mine, theirs)
        assert operator.state_rows() == len({*contents_at(left.changes, frontier)}) + len({*contents_at(right.changes, frontier)})
        assert len(operator._keys) == len({row[0] for history in (left, right) for row in history.rows_at(frontier)})


def test_rows_that_come_and_go_in_one_step_meet_only_those_of_their_time() -> None:
    """All with one key: a pair that never was is not made and taken back."""
    schema = Schema.of(k="INT", v="INT")
    changes = [(t, sign, (1, t // 2)) for t in range(1_000) for sign in ([1] if t % 2 == 0 else [-1])]
    batch = signed_batch(schema, changes)
    out = join(schema, schema, [("k", "k")], [False]).step(batch, batch)
    assert list(out.changes()) == [(t, sign, (1, v, 1, v)) for t, sign, (_, v) in changes]


def test_a_join_gives_the_columns_that_are_wanted_in_their_order() -> None:
    left, right = Schema.of(k="INT", a="STRING", unused="INT"), Schema.of(j="INT", b="STRING")
    output = Schema.of(theirs="STRING", key="INT", ours="STRING", again="STRING")
    join = JoinOp(left, right, [JoinKey("k", "j")], output, gives=["b", "j", "a", "b"])
    one = pa.RecordBatch.from_pydict({"k": [1, 2], "a": ["x", "y"], "unused": [7, 8]}, schema=left.to_arrow())
    other = pa.RecordBatch.from_pydict({"j": [2, 3], "b": ["Y", "Z"]}, schema=right.to_arrow())
    pairs = join.step(SignedBatch.arrivals(np.zeros(2, np.int64), one), SignedBatch.arrivals(np.ones(2, np.int64), other))
    assert pairs.rows.to_pylist() == [{"theirs": "Y", "key": 2, "ours": "y", "again": "Y"}]
