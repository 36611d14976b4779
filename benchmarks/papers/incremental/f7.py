"""Figure 7: how late an answer learns that rows have left, against how many rows qualify and where these stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from millstream.plan.expiry import Expiry
from papers.incremental.machine import Costs, Machine
from papers.incremental.plots import Line, panels
from papers.incremental.workloads import ENDS_OF_CYCLES, favourites

SELECTIVITIES = (0.1, 0.25, 0.5, 0.75, 1.0)
STRATEGIES: tuple[Expiry, ...] = ("input_triggered", "negative")
WINDOW_S = 30
ELEMENTS_A_ROW = 40
"""So many the machine handles in the time between two arrivals: it is never busy for long."""


@dataclass(frozen=True)
class Delays:
    """In seconds, of the ends of qualifying rows, and the mean of their arrivals."""

    distribution: int
    strategy: str
    selectivity: float
    mean_s: float
    max_s: float
    mean_of_arrivals_s: float


def delays(
    strategy: Expiry, distribution: int, selectivity: float, rate: float = 50, windows: int = 3, elements_a_row: float = ELEMENTS_A_ROW
) -> Delays:  # fmt: skip
    """`windows`: for how many lengths of the window; input_triggered with clusters needs a whole round of them, and what comes behind."""
    clustered = distribution == 1
    rounds = len(ENDS_OF_CYCLES) if clustered and strategy == "input_triggered" else windows
    last = (1 + rounds + (2 if rounds > windows else 0)) * WINDOW_S
    workload = favourites(rate, last, WINDOW_S, selectivity, clustered=clustered)
    machine = Machine(workload, strategy, Costs(elements_a_row * rate), WINDOW_S)
    machine.run(last)
    arrived, ended = machine.delays(WINDOW_S, (1 + rounds) * WINDOW_S - 1)
    return Delays(distribution, strategy, selectivity, float(ended.mean()), float(ended.max()), float(arrived.mean()))


def compute(selectivities: Sequence[float] = SELECTIVITIES) -> list[Delays]:
    return [delays(strategy, kind, selectivity) for strategy in STRATEGIES for kind in (1, 2) for selectivity in selectivities]


def draw(points: Sequence[Delays]) -> Figure:
    def lines(value: str) -> list[Line]:
        return [
            Line(
                f"{strategy}, distribution {kind}",
                [(p.selectivity, getattr(p, value)) for p in points if (p.strategy, p.distribution) == (strategy, kind)],
                strategy, dashed=kind == 2,
            )
            for strategy in STRATEGIES
            for kind in (1, 2)
        ]  # fmt: skip

    axes = [("mean delay of an end (s)", lines("mean_s")), ("greatest delay of an end (s)", lines("max_s"))]
    return panels("Figure 7: Q1, 50 rows/s, window of 30 s", "selectivity of the join", axes, logarithmic=True)
