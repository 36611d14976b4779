"""A fragment's running operators, wired as its physical plan says.

The circuit is the same object in a Spark worker and in a test without a JVM.  It knows nothing of
files or ticks: batches of changes go in at its inputs (sources and receives, from left to right),
the changes of its output come out.

Operators are joined by queues (queues.py, nodes.py), and a scheduler says which of them runs next (schedulers.py) until nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.signed_batch import Instants, SignedBatch
from millstream.operators.aggregate import AggregateOp
from millstream.operators.asof_join import AsOfJoinOp
from millstream.operators.evaluator import Evaluator
from millstream.operators.expire import ExpireOp
from millstream.operators.join import MOST_ENDING, MOST_PAIRS, JoinOp
from millstream.operators.match import MatchOp
from millstream.operators.negate import NegateOp
from millstream.operators.net import NetOp
from millstream.operators.newest_rows import NewestRowsOp
from millstream.operators.operator import Arrays, Operator, prefixed, without_prefix
from millstream.operators.over import OverOp
from millstream.operators.repeat import RepeatOp
from millstream.operators.row_wise import FilterOp, ProjectOp
from millstream.operators.rows_window import RowsWindowOp
from millstream.operators.rstream import RStreamOp
from millstream.operators.set_operation import SetOperationOp
from millstream.operators.threshold import ThresholdOp
from millstream.operators.time_window import HeldRows, RowQueue, TimeWindowOp
from millstream.operators.to_stream import ToStreamOp
from millstream.operators.top_k import TopKOp
from millstream.plan.explain import describe
from millstream.plan.physical import (
    AggregateExec,
    AsOfJoinExec,
    Exec,
    ExpireExec,
    FilterExec,
    JoinExec,
    MatchExec,
    NegateExec,
    NetExec,
    OverExec,
    ProjectExec,
    ReceiveExec,
    RepeatExec,
    RStreamExec,
    SetOperationExec,
    SourceExec,
    ThresholdExec,
    TopKExec,
    ToStreamExec,
    UnionExec,
    WindowExec,
    inputs,
    messages_of,
)
from millstream.plan.selection import Wanted
from millstream.plan.window import RowsWindow, TimeWindow
from millstream.runtime.nodes import (
    ExpireNode,
    Node,
    OperatorProfile,
    PairNode,
    RowWiseNode,
    RStreamNode,
    SetOperationNode,
    StepNode,
    TwoInputNode,
    UnionNode,
)
from millstream.runtime.queues import PiggybackQueue, Queue
from millstream.runtime.schedulers import Fifo, Scheduler
from millstream.runtime.source_store import StoreReader

_OneInput = WindowExec | AggregateExec | OverExec | TopKExec | NegateExec | RepeatExec | NetExec | ToStreamExec
_Several = JoinExec | AsOfJoinExec | ThresholdExec | UnionExec | SetOperationExec | RStreamExec
_Inner = _OneInput | FilterExec | ProjectExec | MatchExec | ExpireExec | _Several


class Circuit:
    def __init__(
        self, root: Exec, evaluator: Evaluator, pairs_a_piece: int = MOST_PAIRS, scheduler: Scheduler | None = None,
        readers: Mapping[SourceExec, StoreReader] = MappingProxyType({}), most_ending: int = MOST_ENDING,
    ) -> None:  # fmt: skip
        """Windows over a source that `readers` has leave their rows in its store."""
        self._evaluator = evaluator
        self._readers = readers
        self._pairs_a_piece, self._most_ending = pairs_a_piece, most_ending
        self._scheduler = scheduler or Fifo()
        self.inputs: list[SourceExec | ReceiveExec] = []
        self.nodes: list[Node] = []  # each behind those that it reads
        self._feeds: list[list[Queue]] = []  # of each input: who reads it
        self._built: dict[Exec, int | Node] = {}  # what stands in several places of the plan runs once; inputs are known by their place
        self._output = self._read(root)
        self._root = self._built[root]
        self._at: Micros = NEVER_BEFORE

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

    def turn(self) -> Node | None:
        """One turn of the operator that the scheduler chooses; None if nothing waits."""
        chosen = self._scheduler.choose(self.nodes)
        if chosen is None:
            return None
        self.nodes[chosen].run(self._scheduler.rows_for(self.nodes[chosen]))
        return self.nodes[chosen]

    def take(self) -> SignedBatch:
        """What has come out since the last call."""
        return self._output.take_all()

    def prime(self, position: int, ts: Instants, rows: pa.RecordBatch, frontier: Micros) -> None:
        """Give the windows over source `position` back their rows up to the frontier, without any change coming out."""
        for node in self.nodes:
            if isinstance(node.state, TimeWindowOp) and node.inputs[0] in self._feeds[position]:
                node.state.prime(ts, rows, frontier)

    def want(self, wanted: Sequence[Wanted] | None, only: int | None) -> None:
        """Which selections its rows are for (None: the same as before); if `contents` are asked for, those of only this one."""
        for node in self.nodes:
            if isinstance(node, RowWiseNode) and isinstance(node.operator, MatchOp):
                node.operator.only = only
                if wanted is not None:
                    node.operator.want(wanted)

    def contents(self) -> pa.RecordBatch:
        return self._contents(self._root)

    def save(self) -> Arrays:
        arrays: Arrays = {"at": np.array([self._at])}
        for i, node in enumerate(self.nodes):
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

    def state_rows(self) -> int:
        return sum(node.state.state_rows() for node in self.nodes if node.state is not None)

    def take_late(self) -> list[Instants]:
        """When the rows ended whose end was learned later, since the last call."""
        return [instants for node in self.nodes if isinstance(node, ExpireNode) for instants in node.operator.take_late()]

    def profiles(self) -> list[OperatorProfile]:
        """What each operator has done since the last call."""
        return [node.report() for node in self.nodes]

    def _output_and_feeds(self) -> list[Queue]:
        return [self._output, *(queue for queues in self._feeds for queue in queues)]

    def _contents(self, source: int | Node) -> pa.RecordBatch:
        if not isinstance(source, StepNode | RowWiseNode):
            raise InternalError("this part of a plan keeps no contents")
        return source.operator.contents(lambda: self._contents(source.below))

    # --- building -----------------------------------------------------------------------------

    def _read(self, node: Exec) -> Queue:
        """A new queue for what this part of the plan makes."""
        if node not in self._built:
            self._built[node] = self._new(node)
        source = self._built[node]
        queue = PiggybackQueue(node.schema) if messages_of(node) == "with piggybacked messages" else Queue(node.schema)
        (self._feeds[source] if isinstance(source, int) else source.outputs).append(queue)
        return queue

    def _new(self, node: Exec) -> int | Node:
        if isinstance(node, SourceExec | ReceiveExec):
            self.inputs.append(node)
            self._feeds.append([])
            return len(self.inputs) - 1
        queues = [self._read(below) for below in inputs(node)]
        new = self._node(node, queues)
        for below in inputs(node):
            source = self._built[below]
            if isinstance(source, Node):
                source.readers.append(len(self.nodes))
        self.nodes.append(new)
        return new

    def _node(self, node: _Inner, queues: list[Queue]) -> Node:
        name = describe(node)
        match node:
            case JoinExec():
                operator = JoinOp(
                    node.left.schema, node.right.schema, node.keys, node.schema, with_ends=node.ends is not None,
                    tells_ends=node.ends not in (None, "silently"), most_ending=self._most_ending if node.may_become_exact else None,
                )  # fmt: skip
                return PairNode(name, operator, self._pairs_a_piece, *queues)
            case AsOfJoinExec():
                nearest = AsOfJoinOp(
                    node.left.schema, node.right.schema, node.keys, node.match, node.tie_sql, node.schema, self._evaluator,
                    keeps_left=node.keeps_left,
                )  # fmt: skip
                return TwoInputNode(name, nearest, *queues)
            case ThresholdExec():
                return TwoInputNode(name, ThresholdOp(node.left.schema, node.right.schema, node.keys, node.match), *queues)
            case ExpireExec():
                return ExpireNode(name, ExpireOp(node.schema, by_input=node.by_input), queues[0])
            case UnionExec():
                return UnionNode(name, node.schema, queues)
            case SetOperationExec():
                return SetOperationNode(name, SetOperationOp(node.schema, node.kind), queues)
            case RStreamExec():
                return RStreamNode(name, RStreamOp(node.schema), queues)
            case FilterExec():
                below = self._built[node.input]
                return RowWiseNode(name, FilterOp(node.schema, node.predicate_sql, self._evaluator, node.calls), queues[0], below)
            case ProjectExec():
                below = self._built[node.input]
                return RowWiseNode(name, ProjectOp(node.schema, node.columns, self._evaluator, node.calls), queues[0], below)
            case MatchExec():
                return RowWiseNode(name, MatchOp(node.input.schema, node.schema, self._evaluator), queues[0], self._built[node.input])
            case _:
                return StepNode(name, self._operator(node), queues[0], self._built[node.input])

    def _operator(self, node: _OneInput) -> Operator:
        match node:
            case WindowExec():
                return self._window(node, self._readers.get(node.input) if isinstance(node.input, SourceExec) else None)
            case AggregateExec():
                return AggregateOp(node.input.schema, node.keys, node.calls)
            case OverExec():
                return OverOp(node.input.schema, node.partition_by, node.order_by, node.calls)
            case TopKExec():
                return TopKOp(node.input.schema, node.partition_by, node.order_by, node.limit, node.offset, node.number)
            case NegateExec():
                return NegateOp(node.schema)
            case RepeatExec():
                return RepeatOp(node.schema, node.copies)
            case NetExec():
                return NetOp(node.schema)
            case ToStreamExec():
                return ToStreamOp(node.schema, node.kind)

    def _window(self, node: WindowExec, reader: StoreReader | None) -> Operator:
        match node.spec:
            case RowsWindow() if node.spec.partition_by:
                return RowsWindowOp(node.schema, node.spec)
            case RowsWindow():
                return NewestRowsOp(node.schema, node.spec, RowQueue if reader is None else reader.window(node.spec))
            case TimeWindow():
                hold: Callable[[], HeldRows] = RowQueue if reader is None else reader.window(node.spec)
                return TimeWindowOp(node.schema, node.spec, hold, says_until=node.says_until)
