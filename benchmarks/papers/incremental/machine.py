"""A slow machine that runs a circuit: the clock moves by what operators handle, so queues fill as they did in 2004.

Our operators work on columns; the paper's handled tuple by tuple, some hundreds or thousands a second.  The circuit here is the real
one, its rows, messages and queues are what our engine makes of the input.  Only time is made up:

    an element (a row of either sign, or a message) that a join or an aggregate handles      1 unit of time
    a row that ends inside an operator which finds it at once, as states ordered by their
        ends do: nothing is looked up, nothing is joined, nothing is sent                    1/20
    a row that ends inside a join which nobody tells (input_triggered): the paper's join has
        to look for it, and costs then as much as with a negative tuple (its figure 8b)      1
    windows, projections                                                                     0

Where rows say when they end, an aggregate of the paper is two of our operators, one that holds rows until they end and one that
aggregates; the first is charged for both.

Operators take turns, a slice of some elements each, and what happens costs what the operator took.  Under FIFO an event goes
through the whole plan before the next is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from millstream.operators.aggregate import AggregateOp
from millstream.plan.expiry import Expiry
from millstream.runtime.nodes import ExpireNode, Node, PairNode, Profile
from millstream.runtime.schedulers import Fifo, Runnable, Scheduler
from papers.incremental.plans import circuit_of, inputs_of
from papers.incremental.workloads import SECOND_US, Ints, Workload

Floats = npt.NDArray[np.float64]

FOUND_AT_ONCE = 1 / 20
LOOKED_FOR = 1.0
ROWS_A_SLICE = 5


@dataclass(frozen=True)
class Costs:
    """`elements_a_second`: how many the machine handles; `untold_end`: of a row's end in a join of input_triggered, in elements."""

    elements_a_second: float
    untold_end: float = LOOKED_FOR


class Turns(Scheduler):
    """Round robin of the operators that cost time, in slices; the others run as soon as they can."""

    def __init__(self) -> None:
        self.costly: Sequence[int] = ()
        self._last = 0

    def choose(self, operators: Sequence[Runnable]) -> int | None:
        ready = [place for place, operator in enumerate(operators) if operator.is_ready]
        free = [place for place in ready if place not in self.costly]
        self.rows_a_slice = None if free or not self.costly else ROWS_A_SLICE
        if free:
            return free[-1]
        turns = [*self.costly[self._last + 1 :], *self.costly[: self._last + 1]]
        chosen = next((place for place in turns if place in ready), None)
        self._last = self.costly.index(chosen) if chosen is not None else 0
        return chosen


@dataclass
class Effects:
    """How many changes had reached the aggregate, and when."""

    many: list[int] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)

    def note(self, many: int, clock: float) -> None:
        if many:
            self.many.append(many)
            self.clock.append(clock)

    def delays(self, belongs_to: Ints, skipped: int, since: float, upto: float) -> Floats:
        """In seconds, of changes that belong to instants of these seconds; changes come in their order."""
        clock = np.repeat(np.array(self.clock), self.many)
        instant = belongs_to[skipped : skipped + len(clock)]
        wanted = (instant >= since * SECOND_US) & (instant < upto * SECOND_US)
        return (clock - instant)[wanted] / SECOND_US


class Machine:
    """`since`: up to that second rows cost nothing, so that windows are full when the clock starts there."""

    def __init__(self, workload: Workload, expiry: Expiry, costs: Costs, since: float, *, fifo: bool = False) -> None:
        self._workload, self._costs, self._one_event_at_a_time = workload, costs, fifo
        self._told_by = expiry
        turns = Turns()
        self._circuit = circuit_of(workload, expiry, Fifo() if fifo else turns)
        nodes = self._circuit.nodes
        self.join = next(node for node in nodes if isinstance(node, PairNode))
        self._last = next(node for node in nodes if isinstance(node.state, AggregateOp))
        self.aggregate: Node = next((node for node in nodes if isinstance(node, ExpireNode)), self._last)
        # who is told nothing looks at its rows when the next arrive
        self._events = workload.arrivals if expiry == "input_triggered" else workload.events
        self._batches = inputs_of(self._circuit, workload)
        self._taken, self._next_event = [0] * len(self._batches), 0
        self.counted_ends = 0
        self._entered, self._left = Effects(), Effects()
        self.clock = 0.0
        self._fill(int(since * SECOND_US))
        turns.costly = [nodes.index(self.join), nodes.index(self.aggregate)]

    def run(self, until: float) -> None:
        """Up to this second of the clock."""
        stop = until * SECOND_US
        while self.clock < stop:
            self._arrive()
            if not self._turn():
                if self._next_event == len(self._events):
                    return
                self.clock = max(self.clock, float(self._events[self._next_event]))

    def handled(self, node: Node) -> tuple[int, int]:
        """Since the clock started: positive rows; negative rows and messages."""
        did = node.profile.since(self._before[node])
        return did.entering, did.leaving + did.messages

    def delays(self, since: float, upto: float) -> tuple[Floats, Floats]:
        """In seconds, of results that began and that ended between these seconds."""
        before = self._before[self._last]
        return (
            self._entered.delays(self._workload.entered, before.entering, since, upto),
            self._left.delays(self._workload.ended, before.leaving, since, upto),
        )

    def _fill(self, instant: int) -> None:
        self._put(instant)
        while self._circuit.turn() is not None:
            pass
        self._next_event = int(np.searchsorted(self._events, instant, side="right"))
        self.clock = float(instant)
        self._before = {node: replace(node.profile) for node in (self.join, self.aggregate, self._last)}
        self._seen = dict(self._before)
        self._held = self.join.operator.state_rows()

    def _arrive(self) -> None:
        """What has come up to now; under FIFO the first of it, once everything before is through."""
        come = int(np.searchsorted(self._events, self.clock, side="right"))
        if self._one_event_at_a_time:
            if any(node.is_ready for node in self._circuit.nodes):
                return
            come = min(come, self._next_event + 1)
        if come > self._next_event:
            self._next_event = come
            self._put(int(self._events[come - 1]))

    def _put(self, instant: int) -> None:
        stops = [int(np.searchsorted(batch.instant, instant, side="right")) for batch in self._batches]
        arrived = [batch.slice(start, stop) for batch, start, stop in zip(self._batches, self._taken, stops, strict=True)]
        self._taken = stops
        self._circuit.put(arrived, instant)

    def _turn(self) -> bool:
        """One operator's; false if nothing waits."""
        node = self._circuit.turn()
        if node is None:
            return False
        if node is self.join:
            node.run(None)  # a join's turn is over when it has said how far it has come
        if node in self._seen:
            did = node.profile.since(self._seen[node])
            self._seen[node] = replace(node.profile)
            self.clock += self._cost(node, did) * SECOND_US / self._costs.elements_a_second
            if node is self._last:
                self._entered.note(did.entering, self.clock)
                self._left.note(did.leaving, self.clock)
        return True

    def _cost(self, node: Node, did: Profile) -> float:
        """In elements."""
        if node is self.join:
            return did.rows_in + self._ends(did) * (self._costs.untold_end if self._told_by == "input_triggered" else FOUND_AT_ONCE)
        if node is not self.aggregate:
            return 0.0
        undone = did.rows_out - did.rows_in if node is not self._last else 0
        return did.rows_in + did.messages + undone * FOUND_AT_ONCE

    def _ends(self, did: Profile) -> int:
        """Of rows inside the join: those that came and are not held any more.  Equal rows differ in when they end."""
        if self._told_by == "negative":
            return 0
        held = self.join.operator.state_rows()
        ended = did.entering - (held - self._held)
        self._held = held
        self.counted_ends += ended
        return ended
