"""A store against readers that keep all rows for themselves: none can tell the difference, and nothing is kept that none needs.

Readers join with feeds of any length, lag, overtake one another and leave; the log drops what it need not keep.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.plan.shared_reading import SharedSources
from millstream.plan.window import RowsWindow, TimeWindow
from millstream.runtime import source_store
from millstream.runtime.stores import Stores
from property.store_model import Log, Pair, check_what_is_kept

SPECS = (
    TimeWindow.range_(0), TimeWindow.range_(4), TimeWindow.range_(20), TimeWindow.slide(6, 2), TimeWindow.slide(2, 5),
    TimeWindow("BEGIN NOW - 7 END NOW - 3", delay_us=3, length_us=8), TimeWindow("BEGIN 2 END 25", since=2, until=25, length_us=9),
    RowsWindow("ROWS 1", 1), RowsWindow("ROWS 3", 3), RowsWindow("ROWS 10", 10), RowsWindow("ROWS 4 RANGE 3", 4, range_us=3),
    RowsWindow("ROWS 3 RANGE 12", 3, range_us=12),
)  # fmt: skip

SETS = (("a",), ("b",), ("a", "b"), ("b", "c"), ("a", "b", "c"))
LITTLE, MUCH = st.integers(0, 4), st.integers(0, 30)
ARRIVE = st.tuples(st.just("arrive"), st.lists(st.sampled_from([1, 1, 2, 3, 6]), max_size=6), st.integers(0, 8))
JOIN = st.tuples(
    st.just("join"), st.sampled_from(SETS), st.sampled_from(SPECS), LITTLE, LITTLE | MUCH, st.none() | LITTLE | MUCH, LITTLE | MUCH
)
STEP = st.tuples(st.just("step"), st.integers(0, 3), LITTLE, LITTLE | MUCH)
LEAVE = st.tuples(st.just("leave"), st.integers(0, 3))
DROP = st.tuples(st.just("drop"), st.integers(0, 3), st.integers(0, 4))
TRIM, TICK = st.just(("trim",)), st.just(("tick",))
ACTIONS = st.one_of(ARRIVE, ARRIVE, JOIN, STEP, TICK, TICK, LEAVE, DROP, TRIM)


@given(
    st.lists(ARRIVE, min_size=2, max_size=6), st.lists(JOIN, min_size=2, max_size=4), st.lists(ACTIONS, min_size=5, max_size=30),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=400)
def test_windows_over_a_store_cannot_tell_it_from_rows_of_their_own(
    first: list[tuple[Any, ...]], then: list[tuple[Any, ...]], actions: list[tuple[Any, ...]], joining: bool
) -> None:
    log, stores, pairs = Log(), Stores(), list[Pair]()
    with patch.object(source_store, "_SMALL", source_store._SMALL if joining else 0):
        for action in (*first, *then, *actions):
            _do(log, stores, pairs, *action)
        _do(log, stores, pairs, "tick")
        _do(log, stores, pairs, "trim")


def _do(log: Log, stores: Stores, pairs: list[Pair], what: str, *detail: Any) -> None:
    match what, detail:
        case "arrive", (offsets, advance):
            log.arrive(offsets, advance)
        case "join", (columns, spec, unfed, behind, look_back, rest):
            # some rows may have come when others were planned already, but all up to where these are had come before
            furthest = bisect_left(log.frontiers, max((pair.store.at for pair in pairs), default=0))
            upto = max(len(log.rows) - unfed, furthest) - 1
            at = max(0, log.frontiers[upto + 1] - behind, log.whole_from)
            if look_back is None and at - spec.held_us < log.whole_from:
                return  # the log keeps what it needs
            pairs.append(Pair(log, stores, pairs, columns, spec, at, upto, look_back, rest))
        case "step", (number, unfed, forward) if number < len(pairs):
            one = pairs[number]
            one.step(SharedSources(pair.source for pair in pairs), one.at + forward, unfed)
        case "tick", ():
            for one in pairs:
                one.step(SharedSources(pair.source for pair in pairs), log.frontier)
        case "leave", (number,) if number < len(pairs):
            pairs.pop(number).reader.leave()
        case "drop", (earlier, spared):
            # a window by time needs its rows in the log, and any reader those that it has yet to see
            log.drop(min((pair.at - pair.spec.held_us for pair in pairs), default=log.frontiers[0]) - earlier, spared)
        case "trim", ():
            stores.trim(0)
            check_what_is_kept(log, pairs)
    for pair in pairs:
        pair.check()
