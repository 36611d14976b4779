"""Time windows against their definition: contents at every instant, under every cut into steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.time_window import TimeWindowOp
from millstream.plan.window import TimeWindow

SCHEMA = Schema.of(n="INT")
Rows = list[tuple[int, int]]  # (ts, n)
Slow = Callable[[Rows, int], Counter[int]]


def range_slow(w: int) -> Slow:
    return lambda rows, t: Counter(n for ts, n in rows if t - w <= ts <= t)


def exclusive_slow(w: int) -> Slow:
    return lambda rows, t: Counter(n for ts, n in rows if t - w < ts <= t)


def slide_slow(w: int, s: int) -> Slow:
    return lambda rows, t: Counter(n for ts, n in rows if (t // s) * s - w <= ts < (t // s) * s)


def unbounded_slow(rows: Rows, t: int) -> Counter[int]:
    return Counter(n for ts, n in rows if ts <= t)


def between_slow(begin: Callable[[int], int], end: Callable[[int], int]) -> Slow:
    return lambda rows, t: Counter(n for ts, n in rows if begin(t) <= ts <= min(end(t), t))


WINDOWS: dict[str, tuple[TimeWindow, Slow]] = {
    "range": (TimeWindow.range_(5), range_slow(5)),
    "range 0": (TimeWindow.range_(0), range_slow(0)),
    "exclusive": (TimeWindow.range_(5, exclusive=True), exclusive_slow(5)),
    "now": (TimeWindow.now(), range_slow(0)),
    "unbounded": (TimeWindow.unbounded(), unbounded_slow),
    "hop": (TimeWindow.slide(6, 2), slide_slow(6, 2)),
    "tumble": (TimeWindow.slide(4, 4), slide_slow(4, 4)),
    "hop of uneven length": (TimeWindow.slide(5, 3), slide_slow(5, 3)),
    "hop with gaps": (TimeWindow.slide(2, 5), slide_slow(2, 5)),
    "lagging": (TimeWindow("BEGIN NOW - 7 END NOW - 3", delay_us=3, length_us=8), between_slow(lambda t: t - 7, lambda t: t - 3)),
    "lagging and empty": (TimeWindow("BEGIN NOW - 1 END NOW - 3", delay_us=3, length_us=2), between_slow(lambda t: t - 1, lambda t: t - 3)),
    "snapshot": (TimeWindow("BEGIN 3 END 9", since=3, until=9), between_slow(lambda t: 3, lambda t: 9)),
    "landmark": (TimeWindow("BEGIN 4 END NOW", since=4), between_slow(lambda t: 4, lambda t: t)),
    "lagging landmark": (TimeWindow("BEGIN 4 END NOW - 2", since=4, delay_us=2), between_slow(lambda t: 4, lambda t: t - 2)),
    "closing": (TimeWindow("BEGIN NOW - 6 END 10", until=10, length_us=7), between_slow(lambda t: t - 6, lambda t: 10)),
}


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Rows, int]]:
    """Steps of (rows, frontier): rows in order, ties and duplicates, empty steps, frontiers ahead of the rows."""
    steps, at = [], -6
    for _ in range(draw(st.integers(1, 6))):
        frontier = at + draw(st.integers(1, 8))
        stamps = sorted(draw(st.lists(st.integers(at + 1, frontier), max_size=6)))
        steps.append(([(ts, draw(st.integers(0, 2))) for ts in stamps], frontier))
        at = frontier
    return steps


def batch_of(rows: Rows) -> SignedBatch:
    instants = np.array([ts for ts, _ in rows], np.int64)
    return SignedBatch.arrivals(instants, pa.RecordBatch.from_arrays([pa.array([n for _, n in rows], pa.int32())], names=["n"]))


def contents_at(changes: list[tuple[int, int, tuple[int]]], t: int) -> Counter[int]:
    bag: Counter[int] = Counter()
    for instant, sign, (n,) in changes:
        if instant <= t:
            bag[n] += sign
    assert min(bag.values(), default=0) >= 0
    return +bag


@pytest.mark.parametrize("name", WINDOWS)
@given(history=histories())
def test_window_equals_its_definition(name: str, history: list[tuple[Rows, int]]) -> None:
    spec, slow = WINDOWS[name]
    op, seen, changes, at = TimeWindowOp(SCHEMA, spec), [], [], -7
    for rows, frontier in history:
        seen += rows
        step = list(op.step(batch_of(rows), frontier).changes())
        assert [change[0] for change in step] == sorted(change[0] for change in step)
        assert all(at < instant <= frontier for instant, _, _ in step)
        changes += step
        for t in range(at, frontier + 1):
            assert contents_at(changes, t) == slow(seen, t), (name, t)
        if not spec.grows_only:
            held = op.contents(lambda: pytest.fail("a window answers from its state"))
            assert Counter(held.column(0).to_pylist()) == slow(seen, frontier)
        at = frontier


@pytest.mark.parametrize("name", WINDOWS)
@given(history=histories(), cut=st.integers(0, 5))
def test_primed_window_goes_on_as_before(name: str, history: list[tuple[Rows, int]], cut: int) -> None:
    spec, _ = WINDOWS[name]
    cut = min(cut, len(history) - 1)
    old = TimeWindowOp(SCHEMA, spec)
    for rows, frontier in history[: cut + 1]:
        old.step(batch_of(rows), frontier)
    frontier = history[cut][1]
    past = [row for rows, _ in history[: cut + 1] for row in rows if row[0] >= frontier - spec.held_us]
    new = TimeWindowOp(SCHEMA, spec)
    batch = batch_of(past)
    new.prime(batch.instant, batch.rows, frontier)
    for rows, frontier in history[cut + 1 :]:
        assert list(new.step(batch_of(rows), frontier).changes()) == list(old.step(batch_of(rows), frontier).changes())
