"""A store against readers that keep all rows for themselves: none can tell the difference.

Readers join, lag, overtake one another and leave.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.plan.shared_reading import SharedSources
from millstream.plan.window import TimeWindow
from millstream.runtime.stores import Stores
from property.store_model import COLUMNS, Log, Pair

SPECS = (
    TimeWindow.range_(0), TimeWindow.range_(4), TimeWindow.range_(20), TimeWindow.slide(6, 2), TimeWindow.slide(2, 5),
    TimeWindow("BEGIN NOW - 7 END NOW - 3", delay_us=3, length_us=8), TimeWindow("BEGIN 2 END 25", since=2, until=25, length_us=9),
)  # fmt: skip

ACTIONS = st.one_of(
    st.tuples(st.just("arrive"), st.lists(st.integers(1, 9), max_size=5), st.integers(0, 6)),
    st.tuples(
        st.just("join"), st.sets(st.sampled_from(COLUMNS), min_size=1), st.sampled_from(SPECS), st.integers(0, 25), st.integers(0, 9)
    ),
    st.tuples(st.just("step"), st.integers(0, 5), st.integers(0, 9)),
    st.tuples(st.just("step"), st.integers(0, 5), st.just(99)),
    st.tuples(st.just("leave"), st.integers(0, 5)),
    st.just(("trim",)),
)


@given(st.lists(ACTIONS, max_size=40))
@settings(max_examples=400)
def test_windows_over_a_store_cannot_tell_it_from_rows_of_their_own(actions: list[tuple[Any, ...]]) -> None:
    log, stores, pairs = Log(), Stores(), list[Pair]()
    for what, *detail in actions:
        match what, detail:
            case "arrive", [offsets, advance]:
                log.arrive(offsets, advance)
            case "join", [columns, spec, behind, rest]:
                pairs.append(Pair(log, stores, pairs, tuple(sorted(columns)), spec, max(0, log.frontier - behind), rest))
            case "step", [number, forward] if number < len(pairs):
                one = pairs[number]
                one.step(SharedSources(pair.source for pair in pairs), min(one.at + forward, log.frontier))
            case "leave", [number] if number < len(pairs):
                pairs.pop(number).reader.leave()
            case "trim", []:
                stores.trim(0)
