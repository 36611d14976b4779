"""PairExtremesOp against the nested loop: every instant, any cut, ties, NULLs, groups that empty, state that is saved and loaded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import InternalError
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels.pair_extremes import OFFERS
from millstream.operators.pair_extremes import PairExtremesOp
from millstream.plan.logical import AggregateCall, JoinKey
from property.histories import Bag, Change, assert_netted, bag, bag_of, comparable, contents_at, signed_batch, sort_key, values

Row = tuple[Any, ...]
FIRST = -15
"""Before 1970: -1 is an instant like any other."""
LEFT, RIGHT = Schema.of(k="INT", g="STRING", a="BIGINT"), Schema.of(j="INT", v="BIGINT", x="DOUBLE")
CALLS = {"max v": "BIGINT", "min v": "BIGINT", "max a": "BIGINT", "min x": "DOUBLE", "max j": "INT", "min a": "BIGINT"}
CALLS |= {"max x": "DOUBLE", "min j": "INT", "max k": "INT", "min k": "INT"}


@dataclass(frozen=True)
class Arrivals:
    """Rows of a stream in the order of time, and how long each is there."""

    schema: Schema
    rows: tuple[tuple[int, Row], ...]
    length: int

    def at(self, now: int) -> list[Row]:
        return [row for ts, row in self.rows if ts <= now < ts + self.length]

    def between(self, after: int, upto: int) -> SignedBatch:
        batch = signed_batch(self.schema, [(ts, 1, row) for ts, row in self.rows if after < ts <= upto])
        return SignedBatch(batch.instant, batch.sign, batch.rows, batch.instant + self.length)


@st.composite
def arrivals(draw: st.DrawFn, schema: Schema, columns: list[st.SearchStrategy[Any]]) -> Arrivals:
    gaps = draw(st.lists(st.tuples(st.sampled_from([0, 0, 1, 1, 4]), st.tuples(*columns)), max_size=20))
    instants = np.cumsum([draw(st.integers(FIRST, 4)), *(gap for gap, _ in gaps)]).tolist()[1:]
    return Arrivals(schema, tuple(zip(instants, (row for _, row in gaps), strict=True)), draw(st.integers(1, 9)))


KEY = st.sampled_from([1, 1, 2, None])
NUMBER = st.integers(-2, 3) | st.sampled_from([2**63 - 1, -(2**63), None])
FALLING = st.builds(lambda n: -n, st.integers(0, 30))
LEFTS = arrivals(LEFT, [KEY, st.sampled_from(["p", "p", "q", None]), NUMBER])
RIGHTS = arrivals(RIGHT, [KEY, NUMBER | FALLING, values(RIGHT["x"].type)])
CUTS = st.frozensets(st.integers(FIRST, 60), max_size=8)
CHOSEN = st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=4, unique=True)


def operator(calls: list[str], keys: list[JoinKey]) -> PairExtremesOp:
    made = [AggregateCall(name.replace(" ", "_"), *name.split(), Schema.of(c=CALLS[name])["c"].type) for name in calls]
    output = Schema((LEFT["g"], *(Field(call.name, call.type) for call in made)))
    return PairExtremesOp(LEFT, RIGHT, keys, ["g"], made, output)


def extremes_slow(left: list[Row], right: list[Row], calls: list[str], match: Any) -> Bag:
    groups: dict[Any, list[Row]] = {}
    for one in left:
        for other in right:
            if match(one[0], other[0]):
                groups.setdefault(one[1], []).append(one + other)
    names = [*LEFT.names, *RIGHT.names]
    rows = []
    for group, pairs in groups.items():
        found: list[Any] = [group]
        for call in calls:
            function, column = call.split()
            present = [pair[names.index(column)] for pair in pairs if pair[names.index(column)] is not None]
            found.append((max if function == "max" else min)(present, key=sort_key, default=None))
        rows.append(tuple(found))
    return bag(rows)


def frontiers(left: Arrivals, right: Arrivals, cuts: frozenset[int]) -> list[int]:
    last = max([ts + side.length for side in (left, right) for ts, _ in side.rows], default=0)
    return sorted({*cuts, last + 1})


def changes_of(op: PairExtremesOp, left: Arrivals, right: Arrivals, cuts: frozenset[int]) -> list[Change]:
    changes, after = [], FIRST - 1
    for upto in frontiers(left, right, cuts):
        changes += list(op.step(left.between(after, upto), right.between(after, upto), upto).changes())
        after = upto
    return changes


def check(left: Arrivals, right: Arrivals, calls: list[str], keys: list[JoinKey], match: Any, cuts: frozenset[int]) -> None:
    op = operator(calls, keys)
    changes = changes_of(op, left, right, cuts)
    assert_netted(changes)
    for now in range(FIRST - 1, frontiers(left, right, cuts)[-1] + 1):
        assert contents_at(changes, now) == extremes_slow(left.at(now), right.at(now), calls, match)
    assert op.state_rows() == 0


@settings(max_examples=400, deadline=None)
@given(LEFTS, RIGHTS, CHOSEN, st.booleans(), CUTS)
def test_extremes_equal_recomputation(left: Arrivals, right: Arrivals, calls: list[str], null_safe: bool, cuts: frozenset[int]) -> None:
    def match(one: Any, other: Any) -> bool:
        return comparable(one) == comparable(other) and (null_safe or one is not None)

    check(left, right, calls, [JoinKey("k", "j", null_safe)], match, cuts)


@settings(max_examples=100, deadline=None)
@given(LEFTS, RIGHTS, CHOSEN, CUTS)
def test_without_keys_every_row_meets_every_row(left: Arrivals, right: Arrivals, calls: list[str], cuts: frozenset[int]) -> None:
    check(left, right, calls, [], lambda one, other: True, cuts)


@settings(max_examples=150, deadline=None)
@given(LEFTS, RIGHTS, CHOSEN, CUTS)
def test_saved_state_goes_on_as_if_nothing_had_happened(left: Arrivals, right: Arrivals, calls: list[str], cuts: frozenset[int]) -> None:
    keys = [JoinKey("k", "j")]
    lasting, after, changes = operator(calls, keys), FIRST - 1, list[Change]()
    for upto in frontiers(left, right, cuts):
        loaded = operator(calls, keys)
        loaded.load(lasting.save())
        assert loaded.state_rows() == lasting.state_rows()
        batches = left.between(after, upto), right.between(after, upto)
        expected = list(lasting.step(*batches, upto).changes())
        assert Counter(map(repr, loaded.step(*batches, upto).changes())) == Counter(map(repr, expected))
        changes += expected
        assert bag_of(loaded.contents()) == bag_of(lasting.contents()) == contents_at(changes, upto)
        lasting, after = loaded, upto


def test_a_pair_that_ends_just_before_1970() -> None:
    """-1 stood for groups that have no pairs."""
    left, right = Arrivals(LEFT, ((-3, (1, "p", 0)),), 2), Arrivals(RIGHT, ((-3, (1, 5, 0.0)),), 2)
    check(left, right, ["max v"], [JoinKey("k", "j")], lambda one, other: one == other, frozenset())


def test_of_rows_that_ended_nothing_is_kept() -> None:
    """Keys and groups come and go for ever, most values fall, so that each is the greatest for a while."""
    op, most = operator(["max v"], [JoinKey("k", "j")]), 0
    for turn in range(60):
        now = np.arange(turn * 500, (turn + 1) * 500)
        left = Arrivals(LEFT, tuple((int(t), (int(t) // 10, f"g{t // 100}", 0)) for t in now), 100)
        right = Arrivals(RIGHT, tuple((int(t), (int(t) // 10, -int(t), 0.0)) for t in now), 100)
        op.step(left.between(-1, int(now[-1])), right.between(-1, int(now[-1])), int(now[-1]))
        most = max(most, op._keys.capacity, op._groups.capacity, len(op._steps), len(op._one.ring))
    assert most < 10_000
    assert len(op._keys.table) < 2_000


@pytest.mark.parametrize("calls", [["max v", "min a"], ["max v"], ["max a"], ["max v", "max a", "min v", "min a", "max j"]], ids=" ".join)
@pytest.mark.parametrize("values", ["falling", "rising", "random", "few"])
@pytest.mark.parametrize("groups", [1, 7, 100])
def test_many_rows_in_one_step(groups: int, values: str, calls: list[str]) -> None:
    """More notes and steps than there is room for at first; values that fall make long staircases, many groups long chains of partners."""
    random = Random(f"{groups} {values}")
    value = {"falling": lambda t: -t + random.randrange(20), "rising": int, "random": lambda _: random.randrange(10**6)}
    value["few"] = lambda _: random.choice([None, 1, 2])
    left = tuple((t // 2, (random.randrange(3), f"g{random.randrange(groups)}", value[values](t))) for t in range(300))
    right = tuple((t // 2, (random.randrange(3), value[values](t), 0.0)) for t in range(300))
    for lengths in ((40, 60), (60, 40), (50, 50)):
        sides = Arrivals(LEFT, left, lengths[0]), Arrivals(RIGHT, right, lengths[1])
        op = operator(calls, [JoinKey("k", "j")])
        op._noted = op._noted[:1]
        changes = list(op.step(sides[0].between(-1, 120), sides[1].between(-1, 120), 120).changes())
        loaded = operator(calls, [JoinKey("k", "j")])
        loaded.load(op.save())
        assert loaded.state_rows() == op.state_rows()
        changes += loaded.step(sides[0].between(120, 400), sides[1].between(120, 400), 400).changes()
        for now in range(0, 220, 7):
            expected = extremes_slow(sides[0].at(now), sides[1].at(now), calls, lambda one, other: one == other)
            assert contents_at(changes, now) == expected


def test_what_hides_another_is_no_null() -> None:
    left = Arrivals(LEFT, ((0, (1, "p", 0)), (5, (2, "p", 0)), (5, (3, "p", 0))), 10)
    right = Arrivals(RIGHT, ((5, (2, None, 0.0)), (5, (3, None, 0.0)), (7, (1, -5, 0.0))), 100)
    check(left, right, ["max v"], [JoinKey("k", "j")], lambda one, other: one == other, frozenset())


def test_an_equal_value_waits_until_the_one_before_it_ends() -> None:
    """Else all partners would be told of each."""
    right = Arrivals(RIGHT, tuple((t, (1, 7, 0.0)) for t in range(50)), 20)
    for calls in (["max v"], ["max a"]):
        op = operator(calls, [JoinKey("k", "j")])
        offered = []
        for now in range(50):
            op.step(SignedBatch.empty(LEFT), right.between(now - 1, now), now)
            offered.append(int(op._partners[0, OFFERS]))
        assert offered == [0] * 20 + [19] * 19 + [38] * 11


@pytest.mark.parametrize("values", ["falling", "rising"])
def test_the_greatest_that_is_left_is_at_hand(values: str) -> None:
    """Of 20,000 rows of one key each is the greatest for a while: looking for the next among all of them took 72 us a row."""
    sign = -1 if values == "falling" else 1
    left = Arrivals(LEFT, tuple((t, (1, "p", 0)) for t in range(0, 60_000, 2)), 20_000)
    right = Arrivals(RIGHT, tuple((t, (1, sign * t, 0.0)) for t in range(1, 60_000, 2)), 20_000)
    op = operator(["max v"], [JoinKey("k", "j")])
    changes = op.step(left.between(-1, 60_000), right.between(-1, 60_000), 80_000)
    tops = {instant: row[1] for instant, diff, row in changes.changes() if diff > 0}
    for now in (101, 19_999, 20_500, 41_001, 59_998):
        oldest, newest = max(1, now - 20_000 + 1) | 1, min(now, 59_999) - 1 | 1
        newest = newest if newest <= now else newest - 2
        assert tops[max(instant for instant in tops if instant <= now)] == (-oldest if sign < 0 else newest), now


def test_more_calls_than_a_byte_has_bits() -> None:
    calls = [f"{function} {column}" for function in ("max", "min") for column in ("v", "a", "x", "j", "k")]
    random = Random(1)
    left = Arrivals(LEFT, tuple((t, (random.randrange(3), "p", random.choice([None, t]))) for t in range(60)), 20)
    right = Arrivals(RIGHT, tuple((t, (random.randrange(3), random.choice([None, -t]), None)) for t in range(60)), 30)
    op, after, changes = operator(calls, [JoinKey("k", "j")]), -1, list[Change]()
    for upto in (10, 25, 40, 100):
        changes += op.step(left.between(after, upto), right.between(after, upto), upto).changes()
        saved, after = op.save(), upto
        op = operator(calls, [JoinKey("k", "j")])
        op.load(saved)
    for now in range(0, 100, 3):
        assert contents_at(changes, now) == extremes_slow(left.at(now), right.at(now), calls, lambda one, other: one == other)


def test_after_loading_rows_still_have_to_end_in_order() -> None:
    op = operator(["max v"], [JoinKey("k", "j")])
    rows = Arrivals(LEFT, ((5, (1, "p", 1)),), 10)
    op.step(rows.between(0, 5), SignedBatch.empty(RIGHT), 5)
    loaded = operator(["max v"], [JoinKey("k", "j")])
    loaded.load(op.save())
    early = Arrivals(LEFT, ((6, (1, "p", 1)),), 8)
    with pytest.raises(InternalError):
        loaded.step(early.between(5, 6), SignedBatch.empty(RIGHT), 6)


def test_a_row_meets_its_partners_only_as_the_greatest_of_its_key() -> None:
    """What a longer window costs: of 100 partners hardly any is looked at, so there are hardly any steps to keep."""
    random = Random(0)
    left = tuple((t, (random.randrange(10), f"g{t}", 0)) for t in range(4000))
    right = tuple((t, (random.randrange(10), random.randrange(10**6), 0.0)) for t in range(4000))
    op = operator(["max v"], [JoinKey("k", "j")])
    sides = Arrivals(LEFT, left, 1000), Arrivals(RIGHT, right, 1000)
    op.step(sides[0].between(-1, 3999), sides[1].between(-1, 3999), 3999)
    groups, rows = 1000, 2000
    assert op.state_rows() - rows < 1.2 * groups


@pytest.mark.parametrize(
    ("sign", "until"), [([1, -1], [9, 9]), ([1, 1], [9, 8]), ([1, 1], [1, 9])], ids=["taken back", "not in order", "never there"]
)
def test_rows_that_do_not_come_as_out_of_a_window_are_refused(sign: list[int], until: list[int]) -> None:
    batch = signed_batch(LEFT, [(1, 1, (1, "p", 1)), (2, 1, (1, "p", 1))])
    batch = SignedBatch(batch.instant, np.array(sign, np.int8), batch.rows, np.array(until))
    with pytest.raises(InternalError):
        operator(["max v"], [JoinKey("k", "j")]).step(batch, SignedBatch.empty(RIGHT), 3)
