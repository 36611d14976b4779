"""Figure 9: what piggybacking gains, in delay and in what the aggregate handles, against how much the join sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from millstream.plan.expiry import Expiry
from papers.incremental.machine import Costs, Machine
from papers.incremental.plots import Line, panels
from papers.incremental.workloads import stores

SELECTIVITIES = (0.001, 0.002, 0.004, 0.006, 0.008, 0.01)
STRATEGIES: tuple[Expiry, ...] = ("negative", "time_message", "piggyback")
RATE, WINDOW_S = 200, 2
MACHINE = Costs(elements_a_second=5_000)


@dataclass(frozen=True)
class Gain:
    """Delays of all changes in seconds; `ratio` is of negative rows or messages to positive rows that the aggregate handles."""

    strategy: str
    selectivity: float
    mean_s: float
    max_s: float
    positive: int
    others: int

    @property
    def ratio(self) -> float:
        return self.others / self.positive


def gain(strategy: Expiry, selectivity: float, seconds: float = 5) -> Gain:
    until = WINDOW_S + seconds
    machine = Machine(stores(RATE, until, WINDOW_S, selectivity), strategy, MACHINE, WINDOW_S)
    machine.run(until)
    delays = np.concatenate(machine.delays(WINDOW_S, until))
    return Gain(strategy, selectivity, float(delays.mean()), float(delays.max()), *machine.handled(machine.aggregate))


def compute(selectivities: Sequence[float] = SELECTIVITIES, seconds: float = 5) -> list[Gain]:
    return [gain(strategy, selectivity, seconds) for strategy in STRATEGIES for selectivity in selectivities]


def draw_delays(points: Sequence[Gain]) -> Figure:
    lines = [Line(each, [(100 * p.selectivity, 1000 * p.mean_s) for p in points if p.strategy == each], each) for each in STRATEGIES]
    return panels(_TITLE.format("a"), _X, [("mean delay of a change (ms)", lines)], from_zero=True)


def draw_ratios(points: Sequence[Gain]) -> Figure:
    lines = [Line(each, [(100 * p.selectivity, p.ratio) for p in points if p.strategy == each], each) for each in STRATEGIES]
    return panels(_TITLE.format("b"), _X, [("negative rows or messages for each\npositive row that MAX handles", lines)], from_zero=True)


_TITLE = f"Figure 9{{}}: Q2, {RATE} rows/s in each stream, window of {WINDOW_S} s"
_X = "pairs of rows in the same store (%)"
