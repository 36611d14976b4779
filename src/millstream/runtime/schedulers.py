"""Which operator runs next, when several have something to do.  Answers never depend on it; memory and delay do.

    fifo          what came first goes through all operators before what came next starts
    round_robin   each in turn, for a slice of time
    greedy        the one that shrinks the queues fastest: (rows in - rows out) / time
    chain         likewise, for runs of operators that together shrink them fastest; what came first goes first in a run

A scheduler sees operators through what it needs to know of them, so a test can drive it with operators that only pretend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Protocol

SchedulerName = Literal["fifo", "round_robin", "greedy", "chain"]


_FIRST_ROWS = 1 << 14
"""A slice of an operator that has not run yet."""
_LEAST_ROWS, _MOST_ROWS = 1 << 8, 1 << 20
"""Below, turns would cost more than rows; above, rows could be as many as there are."""


class Runnable(Protocol):
    """Operators come in the order of their plan: each stands behind those that it reads."""

    @property
    def is_ready(self) -> bool: ...

    @property
    def readers(self) -> Sequence[int]:
        """The places of the operators that read this one."""
        ...

    @property
    def selectivity(self) -> float:
        """Rows out for each row in."""
        ...

    @property
    def cost(self) -> float:
        """Time for each row in."""
        ...


class Scheduler(ABC):
    rows_a_slice: int | None = None
    """An operator's turn is over after about so many rows; None: the scheduler says when."""

    def rows_for(self, operator: Runnable) -> int | None:
        """For how many rows its turn lasts; None: until nothing waits for it."""
        return self.rows_a_slice

    @abstractmethod
    def choose(self, operators: Sequence[Runnable]) -> int | None:
        """The place of an operator that is ready; None if there is none."""


class Fifo(Scheduler):
    def choose(self, operators: Sequence[Runnable]) -> int | None:
        # what is nearest to the end came first
        return next((place for place in reversed(range(len(operators))) if operators[place].is_ready), None)


class RoundRobin(Scheduler):
    def __init__(self, slice_s: float = 0.01) -> None:
        self._slice_s = slice_s
        self._last = -1

    def rows_for(self, operator: Runnable) -> int | None:
        """As many as it does in its slice of time, by what its rows have cost so far."""
        if self.rows_a_slice is not None:
            return self.rows_a_slice
        return round(min(max(self._slice_s / operator.cost, _LEAST_ROWS), _MOST_ROWS)) if operator.cost else _FIRST_ROWS

    def choose(self, operators: Sequence[Runnable]) -> int | None:
        n = len(operators)
        turns = ((self._last + 1 + i) % n for i in range(n))
        chosen = next((place for place in turns if operators[place].is_ready), None)
        self._last = chosen if chosen is not None else -1
        return chosen


class Greedy(Scheduler):
    def choose(self, operators: Sequence[Runnable]) -> int | None:
        ready = [place for place, operator in enumerate(operators) if operator.is_ready]
        return max(ready, key=lambda place: _rate([operators[place]]), default=None)


class Chain(Scheduler):
    def choose(self, operators: Sequence[Runnable]) -> int | None:
        ready = [place for place, operator in enumerate(operators) if operator.is_ready]
        if len(ready) < 2:
            return ready[0] if ready else None
        rate = {place: rate for rate, places in chains(operators) for place in places}
        return max(ready, key=lambda place: (rate[place], place))


def chains(operators: Sequence[Runnable]) -> list[tuple[float, list[int]]]:
    """(rate, places): from the first operator without a chain on, the run of consecutive ones that shrinks most per time."""
    found: list[tuple[float, list[int]]] = []
    assigned: set[int] = set()
    for first in range(len(operators)):
        if first in assigned:
            continue
        path = _path(operators, first, assigned)
        runs = [path[: length + 1] for length in range(len(path))]
        rates = [_rate([operators[place] for place in run]) for run in runs]
        best = rates.index(max(rates))
        found.append((rates[best], runs[best]))
        assigned.update(runs[best])
    return found


def _path(operators: Sequence[Runnable], first: int, assigned: set[int]) -> list[int]:
    """The operators one behind the other from here on, as far as there is one reader and it has no chain yet."""
    path = [first]
    while len(operators[path[-1]].readers) == 1 and operators[path[-1]].readers[0] not in assigned:
        path.append(operators[path[-1]].readers[0])
    return path


def _rate(run: Sequence[Runnable]) -> float:
    """What one row in becomes less, for each unit of time."""
    size, time = 1.0, 0.0
    for operator in run:
        time += size * operator.cost
        size *= operator.selectivity
    return (1.0 - size) / time if time > 0 else 0.0


_BY_NAME: dict[str, type[Scheduler]] = {"fifo": Fifo, "round_robin": RoundRobin, "greedy": Greedy, "chain": Chain}


def new_scheduler(name: SchedulerName) -> Scheduler:
    return _BY_NAME[name]()
