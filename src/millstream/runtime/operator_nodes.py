"""The running operator for each node of a physical plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from millstream.operators.aggregate import AggregateOp
from millstream.operators.asof_join import AsOfJoinOp
from millstream.operators.evaluator import Evaluator
from millstream.operators.expire import ExpireOp
from millstream.operators.join import JoinOp
from millstream.operators.match import MatchOp
from millstream.operators.negate import NegateOp
from millstream.operators.net import NetOp
from millstream.operators.newest_rows import NewestRowsOp
from millstream.operators.operator import Operator
from millstream.operators.over import OverOp
from millstream.operators.pair_extremes import PairExtremesOp
from millstream.operators.product_sums import ProductSumsOp
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
    ExpireExec,
    FilterExec,
    JoinExec,
    MatchExec,
    NegateExec,
    NetExec,
    OverExec,
    PairExtremesExec,
    ProductSumsExec,
    ProjectExec,
    RepeatExec,
    RStreamExec,
    SetOperationExec,
    ThresholdExec,
    TopKExec,
    ToStreamExec,
    UnionExec,
    WindowExec,
)
from millstream.plan.window import RowsWindow, TimeWindow
from millstream.runtime.nodes import (
    ExpireNode,
    Node,
    PairExtremesNode,
    PairNode,
    RowWiseNode,
    RStreamNode,
    SeveralInputsNode,
    StepNode,
    TwoInputNode,
    UnionNode,
)
from millstream.runtime.queues import Queue
from millstream.runtime.store_reader import WindowHold

_OneInput = WindowExec | AggregateExec | OverExec | TopKExec | NegateExec | RepeatExec | NetExec | ToStreamExec
_Several = JoinExec | PairExtremesExec | ProductSumsExec | AsOfJoinExec | ThresholdExec | UnionExec | SetOperationExec | RStreamExec
Inner = _OneInput | FilterExec | ProjectExec | MatchExec | ExpireExec | _Several


@dataclass(frozen=True)
class Means:
    """What operators are made with."""

    evaluator: Evaluator
    pairs_a_piece: int
    most_ending: int


def new_node(node: Inner, queues: list[Queue], below: int | Node, means: Means, hold: WindowHold | None) -> Node:
    """`below` is what sends into the first of the queues; `hold` is where a window leaves its rows, if not with itself."""
    name = describe(node)
    match node:
        case JoinExec():
            operator = JoinOp(
                node.left.schema, node.right.schema, node.keys, node.schema, with_ends=node.ends is not None,
                tells_ends=node.ends not in (None, "silently"), most_ending=means.most_ending if node.may_become_exact else None,
                gives=node.gives,
            )  # fmt: skip
            return PairNode(name, operator, means.pairs_a_piece, *queues)
        case PairExtremesExec():
            extremes = PairExtremesOp(node.left.schema, node.right.schema, node.keys, node.groups, node.calls, node.schema)
            return PairExtremesNode(name, extremes, *queues)
        case ProductSumsExec():
            sums = ProductSumsOp([side.schema for side in node.inputs], node.keys, node.calls, node.schema)
            return SeveralInputsNode(name, sums, queues)
        case AsOfJoinExec():
            nearest = AsOfJoinOp(
                node.left.schema, node.right.schema, node.keys, node.match, node.tie_sql, node.schema, means.evaluator,
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
            return SeveralInputsNode(name, SetOperationOp(node.schema, node.kind), queues)
        case RStreamExec():
            return RStreamNode(name, RStreamOp(node.schema), queues)
        case FilterExec():
            return RowWiseNode(name, FilterOp(node.schema, node.predicate_sql, means.evaluator, node.calls), queues[0], below)
        case ProjectExec():
            project = ProjectOp(node.schema, node.columns, means.evaluator, node.calls, may_be_idle=node.may_be_idle)
            return RowWiseNode(name, project, queues[0], below)
        case MatchExec():
            return RowWiseNode(name, MatchOp(node.input.schema, node.schema, means.evaluator), queues[0], below)
        case _:
            return StepNode(name, _operator(node, hold), queues[0], below)


def _operator(node: _OneInput, hold: WindowHold | None) -> Operator:
    match node:
        case WindowExec():
            return _window(node, hold)
        case AggregateExec():
            return AggregateOp(node.input.schema, node.keys, node.calls, append_only=node.append_only)
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


def _window(node: WindowExec, hold: WindowHold | None) -> Operator:
    match node.spec:
        case RowsWindow() if node.spec.partition_by:
            return RowsWindowOp(node.schema, node.spec)
        case RowsWindow():
            return NewestRowsOp(node.schema, node.spec, RowQueue if hold is None else hold)
        case TimeWindow():
            held: Callable[[], HeldRows] = RowQueue if hold is None else hold
            return TimeWindowOp(node.schema, node.spec, held, says_until=node.says_until)
