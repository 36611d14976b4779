"""The shapes of the figures in benchmarks/papers/incremental: of the data that is committed, and computed again on less input.

The clock is made of counts, so that they never waver.
"""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from millstream.plan.expiry import EXPIRIES, Expiry
from papers.incremental import f7, f8, f9, f10, fifo
from papers.incremental.f9 import Gain
from papers.incremental.machine import Costs, Machine
from papers.incremental.workloads import stores

RESULTS = Path(__file__).parents[3] / "benchmarks" / "papers" / "incremental" / "results"
EXACTLY: tuple[Expiry, ...] = ("negative", "time_message", "piggyback")


def committed(figure: str) -> list[dict[str, str]]:
    with (RESULTS / f"{figure}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("strategy", EXPIRIES)
def test_every_result_is_seen_to_begin_and_to_end(strategy: Expiry) -> None:
    workload = stores(50, 3, 1, 0.02)
    machine = Machine(workload, strategy, Costs(1_000), since=1)
    machine.run(float("inf"))
    entered, ended = machine.delays(1, float("inf"))
    assert len(entered) == np.count_nonzero(workload.entered >= 1_000_000)
    assert min(entered.min(), ended.min()) > 0
    if strategy != "input_triggered":
        assert len(ended) == np.count_nonzero(workload.ended >= 1_000_000)


# --- figure 7


def test_negative_tuples_are_equally_late_whatever_qualifies() -> None:
    found = [f7.delays("negative", kind, selectivity, rate=10, windows=1).mean_s for kind in (1, 2) for selectivity in (0.1, 1.0)]
    assert max(found) <= 1.2 * min(found)


def test_scattered_rows_are_late_by_the_time_to_the_next_one() -> None:
    found = {selectivity: f7.delays("input_triggered", 2, selectivity, rate=10).mean_s for selectivity in (0.1, 0.5)}
    assert found == {selectivity: pytest.approx(1 / (10 * selectivity), rel=0.25) for selectivity in found}


def test_clustered_rows_are_late_by_a_good_part_of_the_window() -> None:
    """Few rows in a cluster: how many there are in each makes a difference."""
    few, many = f7.delays("input_triggered", 1, 0.1, rate=10), f7.delays("input_triggered", 1, 0.5, rate=4)
    assert few.mean_s == pytest.approx(10.1, rel=0.2)
    assert many.mean_s == pytest.approx(5.6, rel=0.2)
    assert few.max_s >= 25


def test_the_committed_delays() -> None:
    mean = {(row["strategy"], int(row["distribution"]), float(row["selectivity"])): float(row["mean_s"]) for row in committed("f7")}
    greatest = {(row["strategy"], int(row["distribution"]), float(row["selectivity"])): float(row["max_s"]) for row in committed("f7")}
    late = "input_triggered"
    assert mean[late, 1, 0.1] == pytest.approx(10.1, rel=0.05)
    assert mean[late, 1, 0.5] == pytest.approx(5.6, rel=0.05)
    assert mean[late, 1, 1.0] == pytest.approx(mean[late, 2, 1.0], rel=0.05)
    for less, more in pairwise(f7.SELECTIVITIES):
        assert all(mean[late, kind, less] > mean[late, kind, more] for kind in (1, 2))
        assert mean[late, 1, less] > mean[late, 2, less]
        assert greatest[late, 1, less] > greatest[late, 2, less]
    for selectivity in f7.SELECTIVITIES:
        assert mean[late, 2, selectivity] == pytest.approx(1 / (50 * selectivity), rel=0.15)
    flat = [mean["negative", kind, selectivity] for kind in (1, 2) for selectivity in f7.SELECTIVITIES]
    assert max(flat) <= 1.2 * min(flat)


# --- figure 8


def test_messages_are_fewer_the_more_partners_a_row_has() -> None:
    points = f8.compute_ratios(seconds=400)
    told = {(p.partners, p.multiplicity): p.ratio for p in points if p.strategy == "time_message"}
    assert {p.ratio for p in points if p.strategy == "negative"} == {1.0}
    assert {p.ratio for p in points if p.strategy == "input_triggered"} == {0.0}
    for k in f8.MULTIPLICITIES:
        assert told[f8.FOLLOW, k] == f8.least_ratio(k)
        assert f8.least_ratio(k) <= told[f8.EITHER, k] <= f8.symmetric_ratio(k) + 0.05
        assert told[f8.EITHER, k] == pytest.approx(f8.symmetric_ratio(k), abs=0.05)
    for where in (f8.FOLLOW, f8.EITHER):
        assert all(told[where, k] > told[where, k + 1] for k in f8.MULTIPLICITIES[:-1])


def test_a_join_that_need_not_undo_its_pairs_has_twice_the_capacity() -> None:
    found = {(each, k): f8.capacity(each, k, rate=300, seconds=1).rows_a_second for each in EXPIRIES for k in (1, 5)}
    for k in (1, 5):
        assert 0.9 <= found["negative", k] / found["input_triggered", k] <= 1.1
        for each in ("time_message", "piggyback"):
            assert 1.6 <= found[each, k] / found["negative", k] <= 2.2
    for each in EXPIRIES:
        assert found[each, 1] == pytest.approx(found[each, 5], rel=0.05)


def test_the_committed_ratios_and_capacities() -> None:
    ratio = {(row["strategy"], row["partners"], int(row["multiplicity"])): float(row["ratio"]) for row in committed("f8a")}
    assert {found for (strategy, _, _), found in ratio.items() if strategy == "negative"} == {1.0}
    for where in (f8.FOLLOW, f8.EITHER):
        assert all(ratio["time_message", where, k] > ratio["time_message", where, k + 1] for k in f8.MULTIPLICITIES[:-1])
    rows = {(row["strategy"], int(row["multiplicity"])): float(row["rows_a_second"]) for row in committed("f8b")}
    for k in f8.MULTIPLICITIES:
        assert 0.9 <= rows["negative", k] / rows["input_triggered", k] <= 1.1
        assert all(1.6 <= rows[each, k] / rows["negative", k] <= 2.2 for each in ("time_message", "piggyback"))


# --- figure 9


@pytest.fixture(scope="module")
def gains() -> dict[str, list[Gain]]:
    points = f9.compute((0.002, 0.006, 0.01), seconds=0.8)
    return {strategy: [p for p in points if p.strategy == strategy] for strategy in EXACTLY}


def test_piggybacking_is_never_later_and_gains_with_what_the_join_sends(gains: dict[str, list[Gain]]) -> None:
    gaps = [negative.mean_s - piggyback.mean_s for negative, piggyback in zip(gains["negative"], gains["piggyback"], strict=True)]
    assert gaps[0] >= 0
    assert all(more > less for less, more in pairwise(gaps))


def test_piggybacking_leaves_the_aggregate_least_to_handle(gains: dict[str, list[Gain]]) -> None:
    for negative, told, piggyback in zip(*(gains[each] for each in EXACTLY), strict=True):
        assert piggyback.ratio < told.ratio < negative.ratio
        assert piggyback.positive + piggyback.others < told.positive + told.others < negative.positive + negative.others
    for each in ("time_message", "piggyback"):
        assert all(more.ratio < less.ratio for less, more in pairwise(gains[each]))
    assert [p.ratio for p in gains["negative"]] == [pytest.approx(1, abs=0.2)] * 3


def test_the_committed_gains() -> None:
    found = {(row["strategy"], float(row["selectivity"])): row for row in committed("f9")}
    selectivities = sorted({selectivity for _, selectivity in found})
    gaps = [float(found["negative", at]["mean_s"]) - float(found["piggyback", at]["mean_s"]) for at in selectivities]
    assert gaps[0] >= 0
    assert all(more > less for less, more in pairwise(gaps))
    for at in selectivities:
        handled = [int(found[each, at]["positive"]) + int(found[each, at]["others"]) for each in ("piggyback", "time_message", "negative")]
        assert handled == sorted(handled)


# --- figure 10


def test_throughput_is_equal_at_low_rates_and_then_saturates_in_this_order() -> None:
    found = {(each, rate): f10.throughput(each, rate, seconds=8) for each in EXPIRIES for rate in (50, 200, 350)}
    assert max(found[each, 50] for each in EXPIRIES) <= 1.05 * min(found[each, 50] for each in EXPIRIES)
    for rate in (200, 350):
        assert found["negative", rate] < found["input_triggered", rate] < found["time_message", rate] < found["piggyback", rate]
    for each in EXPIRIES:
        assert found[each, 200] == pytest.approx(found[each, 350], rel=0.2)


def test_the_committed_throughput() -> None:
    found = {(row["strategy"], int(row["rate"])): float(row["positive_a_second"]) for row in committed("f10")}
    rates = sorted({rate for _, rate in found})
    assert max(found[each, rates[0]] for each in EXPIRIES) <= 1.05 * min(found[each, rates[0]] for each in EXPIRIES)
    last = [found[each, rates[-1]] for each in ("negative", "input_triggered", "time_message", "piggyback")]
    assert last == sorted(last)


# --- first in, first out


def test_piggybacking_gains_nothing_where_nothing_piles_up() -> None:
    elements = {
        (fifo_, each): fifo.handled(each, 0.006, fifo=fifo_, seconds=0.5).elements for fifo_ in (True, False) for each in fifo.STRATEGIES
    }
    assert elements[True, "piggyback"] == elements[True, "time_message"] == elements[False, "time_message"]
    assert elements[False, "piggyback"] < elements[False, "time_message"]


def test_the_committed_elements() -> None:
    found = {(row["scheduler"], row["strategy"], row["selectivity"]): int(row["elements"]) for row in committed("fifo")}
    others = {scheduler for scheduler, _, _ in found} - {"fifo"}
    for selectivity in {selectivity for _, _, selectivity in found}:
        assert found["fifo", "piggyback", selectivity] == found["fifo", "time_message", selectivity]
        assert all(found[each, "piggyback", selectivity] < found[each, "time_message", selectivity] for each in others)
