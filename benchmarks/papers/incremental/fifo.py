"""Piggybacking where nothing piles up: an event goes through the whole plan before the next one starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from millstream.plan.expiry import Expiry
from papers.incremental.f9 import MACHINE, RATE, WINDOW_S
from papers.incremental.machine import Machine
from papers.incremental.plots import Line, panels
from papers.incremental.workloads import stores

SELECTIVITIES = (0.002, 0.006, 0.01)
STRATEGIES: tuple[Expiry, ...] = ("time_message", "piggyback")


@dataclass(frozen=True)
class Handled:
    """Rows and messages that the aggregate handles."""

    scheduler: str
    strategy: str
    selectivity: float
    elements: int


def handled(strategy: Expiry, selectivity: float, *, fifo: bool, seconds: float = 2) -> Handled:
    """Until all is through, whatever the machine needs for it."""
    machine = Machine(stores(RATE, WINDOW_S + seconds, WINDOW_S, selectivity), strategy, MACHINE, WINDOW_S, fifo=fifo)
    machine.run(float("inf"))
    return Handled("fifo" if fifo else "round_robin", strategy, selectivity, sum(machine.handled(machine.aggregate)))


def compute(selectivities: Sequence[float] = SELECTIVITIES) -> list[Handled]:
    return [handled(strategy, each, fifo=fifo) for fifo in (True, False) for strategy in STRATEGIES for each in selectivities]


def draw(points: Sequence[Handled]) -> Figure:
    lines = [
        Line(
            f"{strategy}, {scheduler}",
            [(100 * p.selectivity, p.elements) for p in points if (p.scheduler, p.strategy) == (scheduler, strategy)],
            strategy, dashed=scheduler == "fifo",
        )
        for scheduler in ("fifo", "round_robin")
        for strategy in STRATEGIES
    ]  # fmt: skip
    title = "Piggybacking under FIFO and in turns: the workload of figure 9"
    return panels(title, "pairs of rows in the same store (%)", [("rows and messages that MAX handles", lines)], from_zero=True)
