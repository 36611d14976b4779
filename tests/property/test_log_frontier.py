"""Lateness and the frontier against the fine print, one row at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.instant import BEGINNING, NEVER_BEFORE
from millstream.state.frontier import Frontier, frontiers_before, late_mask

instants = st.integers(-30, 30) | st.integers(BEGINNING, BEGINNING + 5)
starts = st.builds(Frontier, st.none() | instants, st.none() | instants, st.integers(0, 12))
arrivals = st.lists(instants, max_size=20).map(lambda values: np.array(values, np.int64))


def late_slow(ts: np.ndarray, start: Frontier) -> tuple[list[bool], int]:
    """Row by row, in arrival order; a late row moves nothing."""
    frontier, late = start.value, []
    for t in ts.tolist():
        late.append(t <= frontier)
        if not late[-1]:
            frontier = max(frontier, t - start.slack_us - 1, NEVER_BEFORE)
    return late, frontier


def after(ts: np.ndarray, start: Frontier) -> Frontier:
    return start.after_rows(int(ts.max())) if len(ts) else start


@given(arrivals, starts)
def test_late_rows_are_those_at_or_behind_the_frontier_before_them(ts: np.ndarray, start: Frontier) -> None:
    late, end = late_slow(ts, start)
    assert late_mask(ts, start).tolist() == late
    accepted = ts[~late_mask(ts, start)]
    assert (start.after_rows(int(accepted.max())) if len(accepted) else start).value == end


@given(arrivals, starts)
def test_late_rows_need_not_be_left_out_of_the_maximum(ts: np.ndarray, start: Frontier) -> None:
    assert after(ts, start).value == late_slow(ts, start)[1]


@given(arrivals, arrivals, starts)
def test_chunks_one_after_the_other_are_one_chunk(first: np.ndarray, second: np.ndarray, start: Frontier) -> None:
    one_by_one = late_mask(first, start).tolist() + late_mask(second, after(first, start)).tolist()
    assert one_by_one == late_mask(np.concatenate([first, second]), start).tolist()


@given(starts, instants)
def test_the_frontier_never_goes_back(start: Frontier, ts: int) -> None:
    assert start.after_rows(ts).value >= start.value
    assert start.after_advance(ts).value == max(start.value, ts)


@given(arrivals, starts)
def test_the_frontier_before_a_row_is_that_of_the_rows_before_it(ts: np.ndarray, start: Frontier) -> None:
    expected = [late_slow(ts[:i], start)[1] for i in range(len(ts))]
    assert np.maximum(frontiers_before(ts, start), NEVER_BEFORE).tolist() == expected


def test_a_tie_with_the_greatest_less_the_slack_is_not_late() -> None:
    start = Frontier(slack_us=5)
    assert late_mask(np.array([100, 95, 94]), start).tolist() == [False, False, True]


def test_state_survives_json_and_the_slack_is_declared_again() -> None:
    frontier = Frontier(7, 3, 2)
    assert Frontier.from_json(frontier.to_json(), 2) == frontier
