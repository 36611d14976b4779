"""Schedulers over operators that only pretend: how much waits at each moment, against the worked tables of the STREAM system.

A batch of n rows arrives at each of t = 0 .. 6, and every operator needs one unit of time for a batch.  Sizes are in multiples of n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from millstream.runtime.schedulers import Chain, Fifo, Greedy, RoundRobin, Scheduler, chains


@dataclass
class Pretended:
    selectivity: float
    batch: float  # rows in a batch when it gets here
    readers: Sequence[int]
    waiting: list[float] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        return bool(self.waiting)

    @property
    def cost(self) -> float:
        return 1 / self.batch


def pipeline(*selectivities: float) -> list[Pretended]:
    operators, batch = [], 1.0
    for place, selectivity in enumerate(selectivities):
        operators.append(Pretended(selectivity, batch, [place + 1] if place + 1 < len(selectivities) else []))
        batch *= selectivity
    return operators


def sizes(operators: list[Pretended], scheduler: Scheduler, arrivals: int = 7, until: int = 40) -> list[float]:
    """What waits at each moment, just after the arrival if there is one; ends when nothing does."""
    found = []
    for now in range(until):
        if now < arrivals:
            operators[0].waiting.append(1.0)
        found.append(round(sum(sum(operator.waiting) for operator in operators), 6))
        chosen = scheduler.choose(operators)
        if chosen is None:
            return found
        batch = operators[chosen].waiting.pop(0)
        if operators[chosen].readers:
            operators[chosen + 1].waiting.append(batch * operators[chosen].selectivity)
    raise AssertionError("something waits for ever")


FIRST, SECOND = (0.2, 0.0), (0.9, 1.0, 0.0)
FIFO_FIRST, FIFO_SECOND = [1, 1.2, 2, 2.2, 3, 3.2, 4], [1, 1.9, 2.9, 3, 3.9, 4.9, 5]
GREEDY_FIRST, GREEDY_SECOND = [1, 1.2, 1.4, 1.6, 1.8, 2, 2.2], [1, 1.9, 2.8, 3.7, 4.6, 5.5, 6.4]


@pytest.mark.parametrize(
    ("plan", "scheduler", "expected", "average"),
    [
        (FIRST, Fifo(), FIFO_FIRST, 2.4),
        (FIRST, Greedy(), GREEDY_FIRST, 1.6),
        (FIRST, Chain(), GREEDY_FIRST, 1.6),
        (SECOND, Fifo(), FIFO_SECOND, 3.2),
        (SECOND, Greedy(), GREEDY_SECOND, 3.7),
        (SECOND, Chain(), FIFO_SECOND, 3.2),
    ],
)
def test_the_worked_tables(plan: tuple[float, ...], scheduler: Scheduler, expected: list[float], average: float) -> None:
    found = sizes(pipeline(*plan), scheduler)[:7]
    assert found == expected
    assert round(sum(found) / 7, 1) == average


def test_when_the_plans_have_run_dry() -> None:
    for scheduler in (Fifo(), Greedy(), Chain(), RoundRobin()):
        assert len(sizes(pipeline(*FIRST), scheduler)) == 15  # nothing waits after t = 13
    for scheduler in (Fifo(), Greedy(), Chain(), RoundRobin()):
        assert len(sizes(pipeline(*SECOND), scheduler)) == 22  # nor here after t = 20


def test_chains() -> None:
    assert [(round(rate, 6), places) for rate, places in chains(pipeline(*FIRST))] == [(0.8, [0]), (0.2, [1])]
    assert [(round(rate, 6), places) for rate, places in chains(pipeline(*SECOND))] == [(round(1 / 3, 6), [0, 1, 2])]


def test_chains_of_a_plan_with_two_inputs_end_where_another_one_begins() -> None:
    left, right, both = Pretended(0.9, 1, [2]), Pretended(0.1, 1, [2]), Pretended(0.0, 0.5, [])
    assert [places for _, places in chains([left, right, both])] == [[0, 2], [1]]


def test_round_robin_gives_everybody_a_turn() -> None:
    operators = pipeline(1.0, 1.0, 0.0)
    scheduler, turns = RoundRobin(), []
    for operator in operators:
        operator.waiting = [1.0, 1.0]
    while (chosen := scheduler.choose(operators)) is not None:
        turns.append(chosen)
        operators[chosen].waiting.pop()
    assert turns == [0, 1, 2, 0, 1, 2]


def test_a_slice_is_of_time() -> None:
    """A million rows in a second are ten thousand in a slice of 10 ms; a fixed number of rows goes before."""
    scheduler = RoundRobin(slice_s=0.01)
    quick, slow, idle = Pretended(1.0, 1e6, []), Pretended(1.0, 1e5, []), Pretended(1.0, float("inf"), [])
    assert (scheduler.rows_for(quick), scheduler.rows_for(slow)) == (10_000, 1_000)
    assert scheduler.rows_for(idle) == 1 << 14
    assert scheduler.rows_for(Pretended(1.0, 1.0, [])) == 256
    scheduler.rows_a_slice = 3
    assert scheduler.rows_for(quick) == 3
    assert [each.rows_for(quick) for each in (Fifo(), Greedy(), Chain())] == [None] * 3


def test_nothing_to_do() -> None:
    for scheduler in (Fifo(), Greedy(), Chain(), RoundRobin()):
        assert scheduler.choose(pipeline(0.5, 0.0)) is None
