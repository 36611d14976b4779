"""Figure 10: how many results a second come out, against how many rows come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from millstream.plan.expiry import EXPIRIES, Expiry
from papers.incremental.machine import FOUND_AT_ONCE, Costs, Machine
from papers.incremental.plots import Line, panels
from papers.incremental.workloads import partners

RATES = (50, 100, 150, 200, 250, 300, 350)
WINDOW_S = 5
SELECTIVITY, MULTIPLICITY = 0.5, 2
MACHINE = Costs(elements_a_second=300)
CHEAP_ENDS = Costs(MACHINE.elements_a_second, untold_end=FOUND_AT_ONCE)
AT_ONCE = "input_triggered, ends found at once"


@dataclass(frozen=True)
class Throughput:
    """Positive rows that the aggregate has handled, a second."""

    strategy: str
    rate: float
    positive_a_second: float


def throughput(strategy: Expiry, rate: float, costs: Costs = MACHINE, seconds: float = 10) -> float:
    since = 2 * WINDOW_S + 1
    workload = partners(rate, since + seconds + WINDOW_S, WINDOW_S, SELECTIVITY, MULTIPLICITY, follow=False)
    machine = Machine(workload, strategy, costs, since)
    machine.run(since + seconds)
    return machine.handled(machine.aggregate)[0] / seconds


def compute(rates: Sequence[float] = RATES) -> list[Throughput]:
    found = [Throughput(strategy, rate, throughput(strategy, rate)) for strategy in EXPIRIES for rate in rates]
    return found + [Throughput(AT_ONCE, rate, throughput("input_triggered", rate, CHEAP_ENDS)) for rate in rates]


def draw(points: Sequence[Throughput]) -> Figure:
    lines = [
        Line(each, [(p.rate, p.positive_a_second) for p in points if p.strategy == each], each.split(",")[0], dashed=each == AT_ONCE)
        for each in (*EXPIRIES, AT_ONCE)
    ]
    title = f"Figure 10: Q2, window of {WINDOW_S} s, half of the rows of one stream have a partner"
    return panels(title, "rows a second in each stream", [("results a second", lines)], from_zero=True)
