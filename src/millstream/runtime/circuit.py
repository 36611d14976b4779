"""A fragment's running operators, wired as its physical plan says.

The circuit is the same object in a Spark worker and in a test without a JVM.  It knows nothing of
files or ticks: batches of changes go in at its inputs (sources and receives, from left to right),
the changes of its output come out.

Operators are joined by queues (queues.py, nodes.py), and a scheduler says which of them runs next (schedulers.py) until nothing waits.

A circuit may have more than one outlet, each for the plan of a fragment: what stands in several plans is there once (common_circuit.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.signed_batch import Instants, SignedBatch
from millstream.operators.evaluator import Evaluator
from millstream.operators.join import MOST_ENDING, MOST_PAIRS
from millstream.operators.match import MatchOp
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.operators.pair_extremes import PairExtremesOp
from millstream.operators.product_sums import ProductSumsOp
from millstream.operators.time_window import TimeWindowOp
from millstream.plan.physical import Exec, ReceiveExec, SourceExec, WindowExec, in_order, inputs, leaves, messages_of
from millstream.plan.selection import Wanted
from millstream.plan.window import RowsWindow
from millstream.runtime.nodes import Node, OperatorProfile, RowWiseNode, StepNode
from millstream.runtime.operator_nodes import Means, new_node
from millstream.runtime.queues import PiggybackQueue, Queue
from millstream.runtime.schedulers import Fifo, Scheduler
from millstream.runtime.store_reader import StoreReader, WindowHold


class _InPlan:
    """An operator among those of one plan, which are all that a scheduler sees."""

    def __init__(self, node: Node, readers: Sequence[int]) -> None:
        self._node = node
        self.readers = readers

    @property
    def is_ready(self) -> bool:
        return self._node.is_ready

    @property
    def selectivity(self) -> float:
        return self._node.selectivity

    @property
    def cost(self) -> float:
        return self._node.cost


@dataclass(eq=False)
class Outlet:
    """Where the changes of a plan come out, and the operators that make them, in the order of the plan."""

    root: Exec
    queue: Queue
    parts: tuple[Exec, ...]
    nodes: list[Node]
    operators: list[_InPlan]
    inputs: list[int]  # the places of those that it reads


class Circuit:
    def __init__(
        self, root: Exec, evaluator: Evaluator, pairs_a_piece: int = MOST_PAIRS, scheduler: Scheduler | None = None,
        readers: Mapping[SourceExec, StoreReader] = MappingProxyType({}), most_ending: int = MOST_ENDING,
    ) -> None:  # fmt: skip
        """Windows over a source that `readers` has leave their rows in its store."""
        self._readers = readers
        self._means = Means(evaluator, pairs_a_piece, most_ending)
        self._scheduler = scheduler or Fifo()
        self.inputs: list[SourceExec | ReceiveExec] = []
        self.nodes: list[Node] = []  # each behind those that it reads
        self.failed: dict[Node, Exception] = {}  # operators that have raised something, in the middle of a step
        self._feeds: list[list[Queue]] = []  # of each input: who reads it
        self._built: dict[Exec, int | Node] = {}  # what stands in several places of the plan runs once; inputs are known by their place
        self._holds: dict[Exec, tuple[StoreReader, WindowHold]] = {}  # of windows whose rows are in a store
        self._at: Micros = NEVER_BEFORE
        self.outlets: list[Outlet] = []
        self.add(root, {})

    def step(self, batches: Sequence[SignedBatch], frontier: Micros) -> SignedBatch:
        """One batch per input, sorted by instant, in (last frontier, frontier].

        The first step also tells what the query answers before any event, at the beginning of time.
        """
        self.put(batches, frontier)
        while self.turn() is not None:
            pass
        return self.take()

    def put(self, batches: Sequence[SignedBatch], frontier: Micros) -> None:
        """What the inputs have; nothing runs yet."""
        self._at = frontier
        for batch, queues in zip(batches, self._feeds, strict=True):
            for queue in queues:
                queue.put(batch, frontier)

    def turn(self, outlet: Outlet | None = None, rows: int | None = None) -> Node | None:
        """One turn of the operator that the scheduler chooses for an outlet, over about so many rows; None if nothing waits."""
        outlet = outlet or self.outlets[0]
        chosen = self._scheduler.choose(outlet.operators)
        if chosen is None:
            return None
        node = outlet.nodes[chosen]
        try:
            node.run(self._scheduler.rows_for(outlet.operators[chosen]) or rows)
        except Exception as error:
            self.failed[node] = error
            raise
        return node

    def take(self, outlet: Outlet | None = None) -> SignedBatch:
        """What has come out since the last call."""
        return (outlet or self.outlets[0]).queue.take_all()

    def prime(
        self, source: SourceExec, ts: Instants, rows: pa.RecordBatch, frontier: Micros, among: Collection[Node] | None = None
    ) -> None:
        """Give the windows over a source back their rows up to the frontier, without any change coming out."""
        position = self._built[source]
        assert isinstance(position, int)
        for node in self.nodes if among is None else among:
            if isinstance(node.state, TimeWindowOp) and node.inputs[0] in self._feeds[position]:
                node.state.prime(ts, rows, frontier)

    def want(self, wanted: Sequence[Wanted] | None, only: int | None) -> None:
        """Which selections its rows are for (None: the same as before); if `contents` are asked for, those of only this one."""
        for node in self.nodes:
            if isinstance(node, RowWiseNode) and isinstance(node.operator, MatchOp):
                node.operator.only = only
                if wanted is not None:
                    node.operator.want(wanted)

    def contents(self, outlet: Outlet | None = None) -> pa.RecordBatch:
        return self._contents(self._built[(outlet or self.outlets[0]).root])

    def save(self, outlet: Outlet | None = None) -> Arrays:
        """The same whatever else is in the circuit."""
        arrays: Arrays = {"at": np.array([self._at])}
        for i, node in enumerate((outlet or self.outlets[0]).nodes):
            arrays |= prefixed(node.state.save(), str(i)) if node.state is not None else {}
        return arrays

    def load(self, arrays: Arrays) -> None:
        """Into a fresh circuit only."""
        self._at = int(arrays["at"][0])
        for queue in (*self._output_and_feeds(), *(queue for node in self.nodes for queue in node.outputs)):
            queue.upto = self._at
        for i, node in enumerate(self.nodes):
            node.start_at(self._at)
            own = without_prefix(arrays, str(i))
            if own and node.state is not None:
                node.state.load(own)

    def state_rows(self, outlet: Outlet | None = None) -> int:
        return sum(node.state.state_rows() for node in (outlet or self.outlets[0]).nodes if node.state is not None)

    def profiles(self) -> list[OperatorProfile]:
        """What each operator has done since the last call."""
        return [node.report() for node in self.nodes]

    # --- several plans

    def missing(self, root: Exec) -> list[Exec]:
        """The operators of a plan that are not here."""
        return [part for part in in_order(root) if part not in self._built]

    def state(self, part: Exec) -> Arrays:
        node = self._built[part]
        return node.state.save() if isinstance(node, Node) and node.state is not None else {}

    def add(self, root: Exec, states: Mapping[Exec, Arrays]) -> Outlet:
        """Another outlet, between two steps; `states` are those of its operators that are new here, as of now."""
        queue = self._read(root)
        parts = in_order(root)
        nodes = [node for part in parts if isinstance(node := self._built[part], Node)]
        places = {part: place for place, part in enumerate(parts)}
        readers: list[list[int]] = [[] for _ in parts]
        for place, part in enumerate(parts):
            for below in inputs(part):
                if below in places:
                    readers[places[below]].append(place)
        for part, arrays in states.items():
            node = self._built[part]
            if arrays and isinstance(node, Node) and node.state is not None:
                node.state.load(arrays)
        operators = [_InPlan(*pair) for pair in zip(nodes, readers, strict=True)]
        read = [input_ for leaf in leaves(root) if isinstance(input_ := self._built[leaf], int)]
        self.outlets.append(Outlet(root, queue, parts, nodes, operators, read))
        return self.outlets[-1]

    def remove(self, outlet: Outlet) -> None:
        """With all operators that no other one needs."""
        self.outlets.remove(outlet)
        self._sends(outlet.root).remove(outlet.queue)
        needed = {node for other in self.outlets for node in other.nodes}
        for part, node in zip(outlet.parts, outlet.nodes, strict=True):
            if node not in needed:
                for below, queue in zip(inputs(part), node.inputs, strict=True):
                    self._sends(below).remove(queue)
        for part, node in zip(outlet.parts, outlet.nodes, strict=True):
            if node not in needed:
                del self._built[part]
                self.nodes.remove(node)
                self.failed.pop(node, None)
                if part in self._holds:
                    reader, hold = self._holds.pop(part)
                    reader.let_go(hold)

    @property
    def is_read(self) -> list[bool]:
        """Of each input: whether somebody still needs it."""
        return list(map(bool, self._feeds))

    def node_of(self, part: Exec) -> int | Node:
        return self._built[part]

    def _output_and_feeds(self) -> list[Queue]:
        return [self.outlets[0].queue, *(queue for queues in self._feeds for queue in queues)]

    def _sends(self, part: Exec) -> list[Queue]:
        source = self._built[part]
        return self._feeds[source] if isinstance(source, int) else source.outputs

    def _contents(self, source: int | Node) -> pa.RecordBatch:
        match source:
            case StepNode() | RowWiseNode():
                return source.operator.contents(lambda: self._contents(source.below))
            case Node(state=PairExtremesOp() | ProductSumsOp() as operator):
                return operator.contents()
            case _:
                raise InternalError("this part of a plan keeps no contents")

    # --- building -----------------------------------------------------------------------------

    def _read(self, node: Exec) -> Queue:
        """A new queue for what this part of the plan makes."""
        if node not in self._built:
            self._built[node] = self._new(node)
        queue = PiggybackQueue(node.schema) if messages_of(node) == "with piggybacked messages" else Queue(node.schema)
        queue.upto = self._at
        self._sends(node).append(queue)
        return queue

    def _new(self, node: Exec) -> int | Node:
        if isinstance(node, SourceExec | ReceiveExec):
            self.inputs.append(node)
            self._feeds.append([])
            return len(self.inputs) - 1
        queues = [self._read(below) for below in inputs(node)]
        new = new_node(node, queues, self._built[inputs(node)[0]], self._means, self._hold(node))
        new.start_at(self._at)
        self.nodes.append(new)
        return new

    def _hold(self, node: Exec) -> WindowHold | None:
        """For a window that leaves its rows in a store; those by count for each key keep their own, or an old row would hold up all."""
        if not isinstance(node, WindowExec) or not isinstance(node.input, SourceExec) or node.input not in self._readers:
            return None
        if isinstance(node.spec, RowsWindow) and node.spec.partition_by:
            return None
        reader = self._readers[node.input]
        self._holds[node] = reader, reader.window(node.spec)
        return self._holds[node][1]
