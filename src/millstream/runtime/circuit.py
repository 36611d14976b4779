"""A fragment's running operators, wired as its physical plan says.

The circuit is the same object in a Spark worker and in a test without a JVM.  It knows nothing of
files or ticks: batches of changes go in at its inputs (sources and receives, from left to right),
the changes of its output come out.

A join makes its pairs in pieces, and one that only one node reads hands them to that node piece by piece: they are never all there
at once where a condition lets few of them through, or an aggregate makes little of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import Micros
from millstream.core.signed_batch import Instants, SignedBatch, concat, merge_by_instant, whole_instants
from millstream.operators.aggregate import AggregateOp
from millstream.operators.asof_join import AsOfJoinOp
from millstream.operators.evaluator import Evaluator
from millstream.operators.join import MOST_PAIRS, JoinOp
from millstream.operators.negate import NegateOp
from millstream.operators.net import NetOp, netted
from millstream.operators.operator import Arrays, Operator, prefixed, without_prefix
from millstream.operators.over import OverOp
from millstream.operators.repeat import RepeatOp
from millstream.operators.row_wise import FilterOp, ProjectOp
from millstream.operators.rows_window import RowsWindowOp
from millstream.operators.rstream import RStreamOp
from millstream.operators.threshold import ThresholdOp
from millstream.operators.time_window import TimeWindowOp
from millstream.operators.to_stream import ToStreamOp
from millstream.operators.top_k import TopKOp
from millstream.plan.physical import (
    AggregateExec,
    AsOfJoinExec,
    Exec,
    FilterExec,
    JoinExec,
    NegateExec,
    NetExec,
    OverExec,
    ProjectExec,
    ReceiveExec,
    RepeatExec,
    RStreamExec,
    SourceExec,
    ThresholdExec,
    TopKExec,
    ToStreamExec,
    UnionExec,
    WindowExec,
)
from millstream.plan.window import RowsWindow


@dataclass(frozen=True)
class _Input:
    position: int


@dataclass(frozen=True, eq=False)
class _Node:
    operator: Operator
    below: _Tree


@dataclass(frozen=True, eq=False)
class _JoinNode:
    operator: JoinOp | AsOfJoinOp | ThresholdOp
    left: _Tree
    right: _Tree


@dataclass(frozen=True, eq=False)
class _UnionNode:
    inputs: tuple[_Tree, ...]


@dataclass(frozen=True, eq=False)
class _RStreamNode:
    operator: RStreamOp
    below: _Tree
    moments: tuple[_Tree, ...]


_Stateful = _Node | _JoinNode | _RStreamNode
_Tree = _Input | _Stateful | _UnionNode


class Circuit:
    def __init__(self, root: Exec, evaluator: Evaluator, pairs_a_piece: int = MOST_PAIRS) -> None:
        self._evaluator = evaluator
        self._pairs_a_piece = pairs_a_piece
        self.inputs: list[SourceExec | ReceiveExec] = []
        self._nodes: list[_Stateful] = []
        self._built: dict[Exec, _Tree] = {}  # what stands in several places of the plan runs once
        self._readers: Counter[Exec] = Counter()
        self._tree = self._build(root)
        self._shared = frozenset(id(self._built[node]) for node, readers in self._readers.items() if readers > 1)
        self._started = False

    def step(self, batches: Sequence[SignedBatch], frontier: Micros) -> SignedBatch:
        """One batch per input, sorted by instant, in (last frontier, frontier].

        The first step also tells what the query answers before any event, at the beginning of time.
        """
        first, self._started = not self._started, True
        return _Step(batches, frontier, self._pairs_a_piece, self._shared, first=first).run(self._tree)

    def prime(self, position: int, ts: Instants, rows: pa.RecordBatch, frontier: Micros) -> None:
        """Give the windows over source `position` back their rows up to the frontier, without any change coming out."""
        for node in self._nodes:
            if isinstance(node, _Node) and isinstance(node.operator, TimeWindowOp) and node.below == _Input(position):
                node.operator.prime(ts, rows, frontier)

    def contents(self) -> pa.RecordBatch:
        return _contents(self._tree)

    def save(self) -> Arrays:
        arrays: Arrays = {"started": np.array([self._started])}
        for i, node in enumerate(self._nodes):
            arrays |= prefixed(node.operator.save(), str(i))
        return arrays

    def load(self, arrays: Arrays) -> None:
        self._started = bool(arrays["started"][0])
        for i, node in enumerate(self._nodes):
            own = without_prefix(arrays, str(i))
            if own:
                node.operator.load(own)

    def state_rows(self) -> int:
        return sum(node.operator.state_rows() for node in self._nodes)

    def _build(self, node: Exec) -> _Tree:
        self._readers[node] += 1
        if node not in self._built:
            self._built[node] = self._new(node)
        return self._built[node]

    def _new(self, node: Exec) -> _Tree:
        match node:
            case SourceExec() | ReceiveExec():
                self.inputs.append(node)
                return _Input(len(self.inputs) - 1)
            case JoinExec():
                operator = JoinOp(node.left.schema, node.right.schema, node.keys, node.schema)
                return self._added(_JoinNode(operator, self._build(node.left), self._build(node.right)))
            case AsOfJoinExec():
                nearest = AsOfJoinOp(
                    node.left.schema, node.right.schema, node.keys, node.match, node.tie_sql, node.schema, self._evaluator,
                    keeps_left=node.keeps_left,
                )  # fmt: skip
                return self._added(_JoinNode(nearest, self._build(node.left), self._build(node.right)))
            case ThresholdExec():
                threshold = ThresholdOp(node.left.schema, node.right.schema, node.keys, node.match)
                return self._added(_JoinNode(threshold, self._build(node.left), self._build(node.right)))
            case UnionExec():
                return _UnionNode(tuple(map(self._build, node.inputs)))
            case RStreamExec():
                below = self._build(node.input)
                return self._added(_RStreamNode(RStreamOp(node.schema), below, tuple(self._build(moment) for moment in node.moments)))
            case _:
                return self._added(_Node(self._operator(node), self._build(node.input)))

    def _added(self, node: _Stateful) -> _Tree:
        self._nodes.append(node)
        return node

    def _operator(
        self,
        node: FilterExec
        | ProjectExec
        | WindowExec
        | AggregateExec
        | OverExec
        | TopKExec
        | NegateExec
        | RepeatExec
        | NetExec
        | ToStreamExec,
    ) -> Operator:
        match node:
            case FilterExec():
                return FilterOp(node.schema, node.predicate_sql, self._evaluator, node.calls)
            case ProjectExec():
                return ProjectOp(node.schema, node.columns, self._evaluator, node.calls)
            case WindowExec():
                return RowsWindowOp(node.schema, node.spec) if isinstance(node.spec, RowsWindow) else TimeWindowOp(node.schema, node.spec)
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


class _Step:
    """One step of a circuit: every node runs once, however many read it."""

    def __init__(
        self, batches: Sequence[SignedBatch], frontier: Micros, pairs_a_piece: int, shared: frozenset[int], *, first: bool
    ) -> None:
        self._batches = batches
        self._frontier = frontier
        self._pairs_a_piece = pairs_a_piece
        self._shared = shared  # the ids of nodes that several others read
        self._first = first
        self._done: dict[int, SignedBatch] = {}

    def run(self, tree: _Tree) -> SignedBatch:
        if isinstance(tree, _Input):
            return self._batches[tree.position]
        if id(tree) not in self._done:
            self._done[id(tree)] = self._run(tree)
        return self._done[id(tree)]

    def _run(self, tree: _Stateful | _UnionNode) -> SignedBatch:
        match tree:
            case _Node():
                changes = concat(list(self._stepped(tree)))
                return self._with_start(tree.operator, changes) if self._first else changes
            case _JoinNode():
                return tree.operator.step(self.run(tree.left), self.run(tree.right))
            case _UnionNode():
                return merge_by_instant([self.run(below) for below in tree.inputs])
            case _RStreamNode():
                return tree.operator.step(self.run(tree.below), [self.run(moment) for moment in tree.moments])

    def _stepped(self, node: _Node) -> Iterator[SignedBatch]:
        """A step of one operator, made as several: the changes of all of them, in order."""
        pieces = self._pieces(node.below)
        if _row_wise(node):
            yield from (node.operator.step(piece, self._frontier) for piece in pieces)
            return
        batches = whole_instants(pieces, self._pairs_a_piece)
        batch = next(batches)
        for later in batches:
            yield node.operator.step(batch, int(batch.instant[-1]))
            batch = later
        yield node.operator.step(batch, self._frontier)

    def _pieces(self, tree: _Tree) -> Iterator[SignedBatch]:
        """The changes of a node for its only reader."""
        if id(tree) in self._shared:
            yield self.run(tree)
        elif isinstance(tree, _JoinNode) and isinstance(tree.operator, JoinOp):
            yield from tree.operator.pieces(self.run(tree.left), self.run(tree.right), self._pairs_a_piece)
        elif isinstance(tree, _Node) and _row_wise(tree):
            yield from self._stepped(tree)
        else:
            yield self.run(tree)

    def _with_start(self, operator: Operator, changes: SignedBatch) -> SignedBatch:
        """A start row rises through the operators above like any other change; what relations held since ever may take it back."""
        start = operator.start()
        if not len(start):
            return changes
        return netted(merge_by_instant([start, changes]))


def _row_wise(node: _Node) -> bool:
    return isinstance(node.operator, FilterOp | ProjectOp)


def _contents(tree: _Tree) -> pa.RecordBatch:
    if not isinstance(tree, _Node):
        raise InternalError("this part of a plan keeps no contents")
    return tree.operator.contents(lambda: _contents(tree.below))
