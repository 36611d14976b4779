"""The ranked tree on an example that can be followed by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels.ranked_tree import FAN, RankedTree


def test_a_window_is_put_together_from_nodes_between_its_ends() -> None:
    """Rows at t1 to t24 hold 1, 2, 3, NULL, 1, 2, 3, NULL, ...: a window [t8, t20] has three whole rounds of 6 and the NULL before them."""
    values = [None if t % 4 == 0 else t % 4 for t in range(1, 25)]
    tree = RankedTree(pa.int32())
    tree.append(pa.array(values[:10], pa.int32()))
    tree.append(pa.array(values[10:], pa.int32()))
    totals = tree.ask([7], [20])  # the row of t8 has seven before it
    assert (totals.integers(), totals.count.tolist()) == ([18], [9])
    assert tree.values(totals.least, totals.count).to_pylist() == [1]
    assert tree.values(totals.greatest, totals.count).to_pylist() == [3]


def test_nothing_adds_up_to_nothing() -> None:
    tree = RankedTree(pa.string())
    tree.append(pa.array([None, "b", "a"]))
    totals = tree.ask([0, 1, 1], [1, 1, 3])
    assert totals.count.tolist() == [0, 0, 2]
    assert tree.values(totals.least, totals.count).to_pylist() == [None, None, "a"]


def test_the_tree_is_as_high_as_the_logarithm_of_its_leaves() -> None:
    tree = RankedTree(pa.int64())
    tree.append(pa.array(np.arange(FAN**3)))
    assert tree.height == 3
    tree.append(pa.array([0]))
    assert tree.height == 4
    assert tree.ask([1], [FAN**3]).integers() == [sum(range(FAN**3))]


def test_strings_that_are_gone_are_forgotten() -> None:
    tree = RankedTree(pa.string())
    for start in range(0, 20_000, 500):
        tree.append(pa.array([f"{n:06}" for n in range(start, start + 500)]))
        tree.drop_before(start)
    totals = tree.ask([tree.first], [tree.stop])
    assert tree.values(totals.greatest, totals.count).to_pylist() == ["019999"]
    assert tree._keys.held() < 5000
