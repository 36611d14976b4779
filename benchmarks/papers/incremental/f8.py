"""Figure 8: what a join sends for rows that leave, and how much it can handle, against how many partners a row has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from millstream.plan.expiry import EXPIRIES, Expiry
from millstream.runtime.nodes import PairNode
from papers.incremental.machine import Costs, Machine
from papers.incremental.plans import circuit_of, inputs_of
from papers.incremental.plots import Line, panels
from papers.incremental.workloads import SECOND_US, Workload, partners

MULTIPLICITIES = (1, 2, 3, 4, 5)
SELECTIVITY = 0.01
WINDOW_S = 30
MACHINE = Costs(elements_a_second=500)
SENDERS: tuple[Expiry, ...] = ("input_triggered", "negative", "time_message")
FOLLOW, EITHER = "partners follow", "on either side"


@dataclass(frozen=True)
class Ratio:
    """Negative rows and messages that the join sends, for each positive row."""

    strategy: str
    partners: str
    multiplicity: int
    ratio: float
    expected: float


@dataclass(frozen=True)
class Capacity:
    """Rows of both signs that go through the join in a second."""

    strategy: str
    multiplicity: int
    rows_a_second: float


def least_ratio(multiplicity: int) -> float:
    """All pairs of a row end with it."""
    return 1 / multiplicity


def symmetric_ratio(multiplicity: int) -> float:
    """Half of the partners come first and end one by one; the others end with the row, if there is one of them."""
    return 1 / 2 + (1 - 0.5**multiplicity) / multiplicity


def compute_ratios(seconds: float = 2_000) -> list[Ratio]:
    found = []
    for where in (FOLLOW, EITHER):
        for multiplicity in MULTIPLICITIES:
            workload = partners(50, seconds, WINDOW_S, SELECTIVITY, multiplicity, follow=where == FOLLOW)
            told = least_ratio(multiplicity) if where == FOLLOW else symmetric_ratio(multiplicity)
            expected = {"input_triggered": 0.0, "negative": 1.0, "time_message": told}
            found += [Ratio(each, where, multiplicity, _sent(workload, each, seconds), expected[each]) for each in SENDERS]
    return found


def _sent(workload: Workload, strategy: Expiry, seconds: float) -> float:
    """Counts do not depend on when operators run, so time may go in long steps."""
    circuit = circuit_of(workload, strategy)
    circuit.step(inputs_of(circuit, workload), int((seconds + WINDOW_S) * SECOND_US))
    (did,) = (node.profile for node in circuit.nodes if isinstance(node, PairNode))
    return (did.sent_leaving + did.sent_messages) / did.sent_entering


def capacity(strategy: Expiry, multiplicity: int, rate: float = 300, seconds: float = 4) -> Capacity:
    """More rows arrive than the machine can handle, once the window is full and rows leave it."""
    since = 2 * WINDOW_S + 1
    workload = partners(rate, since + seconds + WINDOW_S, WINDOW_S, SELECTIVITY, multiplicity, follow=False)
    machine = Machine(workload, strategy, MACHINE, since)
    machine.run(since + seconds)
    entering, leaving = machine.handled(machine.join)
    return Capacity(strategy, multiplicity, (entering + leaving + machine.counted_ends) / (machine.clock / SECOND_US - since))


def compute_capacities(multiplicities: Sequence[int] = MULTIPLICITIES) -> list[Capacity]:
    return [capacity(strategy, multiplicity) for strategy in EXPIRIES for multiplicity in multiplicities]


def draw_ratios(points: Sequence[Ratio]) -> Figure:
    lines = [
        Line(f"{strategy}, {where}", _line(points, strategy, where), strategy, dashed=where == FOLLOW)
        for strategy in SENDERS
        for where in (EITHER, FOLLOW)
    ]
    axes = [("negative rows or messages\nfor each positive row", lines)]
    return panels("Figure 8a: Q2, 50 rows/s in each stream, window of 30 s", "partners of a row", axes)


def draw_capacities(points: Sequence[Capacity]) -> Figure:
    lines = [Line(each, [(p.multiplicity, p.rows_a_second) for p in points if p.strategy == each], each) for each in EXPIRIES]
    axes = [("rows of both signs\nthrough the join (1/s)", lines)]
    return panels("Figure 8b: Q2, more input than the machine can handle", "partners of a row", axes, from_zero=True)


def _line(points: Sequence[Ratio], strategy: str, where: str) -> list[tuple[float, float]]:
    return [(p.multiplicity, p.ratio) for p in points if (p.strategy, p.partners) == (strategy, where)]
