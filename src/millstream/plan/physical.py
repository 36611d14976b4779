"""Physical nodes: how a query runs, ready to be sent to workers.

A query is cut into fragments.  A fragment is a tree of operators that runs once per bucket, on
changes that belong to that bucket; between fragments changes are exchanged by key.

    stage 1   Source ─► Window ─► Aggregate ──┐ by key
    stage 2                                   └─► Receive ─► Net ─► changelog

A source carries its row-wise prefix (filters and projections that run on each row of the log,
before it is split) and says how its rows are spread over the buckets.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from millstream.core.instant import Micros, format_duration
from millstream.core.schema import Schema
from millstream.plan.logical import AggregateCall, JoinKey, Match, SetKind, SourceKind
from millstream.plan.ordering import OverCall, SortKey
from millstream.plan.python_function import PythonFunction
from millstream.plan.window import TimeWindow, WindowSpec


@dataclass(frozen=True)
class ByKey:
    """Rows with equal values in these columns are in one bucket."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"by {', '.join(self.columns)}"


@dataclass(frozen=True)
class Single:
    """All rows are in bucket 0."""

    def __str__(self) -> str:
        return "in one bucket"


@dataclass(frozen=True)
class Anywhere:
    """Spread evenly, by arrival: no operator needs to see two rows together."""

    dealing: int = 2
    """Which way of it (state/sequence.py): a state does not go on where its rows are dealt in another, so this is part of `plan_id`."""

    def __str__(self) -> str:
        return "spread by arrival"


Distribution = ByKey | Single | Anywhere


@dataclass(frozen=True)
class ComputedColumn:
    """A column as DuckDB computes it."""

    name: str
    sql: str
    type: pa.DataType


@dataclass(frozen=True)
class FunctionCall:
    """A column that a Python function computes, for the rows where `when` is true; NULL for the others."""

    name: str
    function: PythonFunction
    arguments: tuple[ComputedColumn, ...]
    when: str | None

    def __str__(self) -> str:
        condition = f" where {self.when}" if self.when is not None else ""
        return f"{self.function.name}({', '.join(argument.sql for argument in self.arguments)}) AS {self.name}{condition}"


@dataclass(frozen=True)
class FilterStep:
    predicate_sql: str
    calls: tuple[FunctionCall, ...] = ()  # made before the predicate is evaluated


@dataclass(frozen=True)
class ProjectStep:
    columns: tuple[ComputedColumn, ...]
    calls: tuple[FunctionCall, ...] = ()


RowWiseStep = FilterStep | ProjectStep


@dataclass(frozen=True)
class PartialCall:
    """`name` := function(argument) over the rows of a pane; there is no argument for count."""

    name: str
    function: Literal["count", "sum", "min", "max"]
    argument: str | None
    type: pa.DataType


@dataclass(frozen=True)
class Panes:
    """Rows of a stream, added up over each span of `slide_us` before they enter a window that moves by as much.

    For each group, one row or more, with the timestamp of the last instant of the span: when it enters the window, and when it leaves,
    so would have all rows that it stands for.
    """

    slide_us: Micros
    keys: tuple[str, ...]
    calls: tuple[PartialCall, ...]
    rows: Schema  # what is added up

    def __str__(self) -> str:
        calls = ", ".join(f"{call.function}({call.argument or '*'}) AS {call.name}" for call in self.calls)
        return f"{calls}{' by ' + ', '.join(self.keys) if self.keys else ''} over each {format_duration(self.slide_us)}"


@dataclass(frozen=True)
class SourceExec:
    """What a log tells: rows that arrive (of a stream, of a query that gives one), or changes of a relation."""

    name: str
    kind: SourceKind
    retracts: bool
    columns: tuple[tuple[str, str, pa.DataType], ...]  # (column in the log, name in the plan, its type there)
    prefix: tuple[RowWiseStep, ...]
    schema: Schema  # after the prefix, and after what is made of panes
    distribution: Distribution
    split_at_ingest: bool  # the log's own buckets already are this distribution
    ties_by_value: bool = False  # rows of one instant come in the order of their values, where their log knows no other
    panes: Panes | None = None  # what is made of the rows after the prefix, in each bucket


@dataclass(frozen=True)
class ReceiveExec:
    """Changes that another fragment of the same query sends."""

    fragment: int
    schema: Schema
    distribution: Distribution


@dataclass(frozen=True)
class FilterExec:
    input: Exec
    predicate_sql: str
    schema: Schema
    calls: tuple[FunctionCall, ...] = ()


@dataclass(frozen=True)
class ProjectExec:
    input: Exec
    columns: tuple[ComputedColumn, ...]
    schema: Schema
    calls: tuple[FunctionCall, ...] = ()
    may_be_idle: bool = False  # of a change of a row there may be nothing left to see


@dataclass(frozen=True)
class WindowExec:
    input: Exec
    spec: WindowSpec
    schema: Schema
    says_until: bool = False  # rows say when they are gone, instead of being taken back


@dataclass(frozen=True)
class ExpireExec:
    """Takes back what says when it ends."""

    input: Exec
    by_input: bool  # when the next row arrives; else when it is told
    schema: Schema


@dataclass(frozen=True)
class AggregateExec:
    input: Exec
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    schema: Schema
    # no row ever leaves the input; follows from what is below, and states kept without knowing it can be taken over: no part of plan_id
    append_only: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class OverExec:
    input: Exec
    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    calls: tuple[OverCall, ...]
    schema: Schema


@dataclass(frozen=True)
class TopKExec:
    input: Exec
    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    limit: int
    offset: int
    number: str | None
    schema: Schema


Ends = Literal["silently", "with messages", "with piggybacked messages"]


@dataclass(frozen=True)
class JoinExec:
    left: Exec
    right: Exec
    keys: tuple[JoinKey, ...]
    schema: Schema
    ends: Ends | None = None  # its pairs say when they end
    may_become_exact: bool = False  # if there get to be too many that do
    gives: tuple[str, ...] | None = None  # which columns of the sides the schema renames; None: all of them, in their order


@dataclass(frozen=True)
class PairExtremesExec:
    """MIN and MAX over the pairs of a join, by columns of its left side; rows of both sides say when they end."""

    left: Exec
    right: Exec
    keys: tuple[JoinKey, ...]
    groups: tuple[str, ...]
    calls: tuple[AggregateCall, ...]  # over columns of either side
    schema: Schema
    state: int = 2  # the form in which it is saved: a plan is known by it, so another form is not taken for this one


@dataclass(frozen=True)
class ProductCall:
    """A count, or a sum, of a column of one of several sides; of no side: a count of rows."""

    function: str
    side: int
    column: str
    type: pa.DataType

    def __str__(self) -> str:
        return f"{self.function}({self.column or '*'})"


@dataclass(frozen=True)
class ProductSumsExec:
    """Counts and sums by the key of a join of several sides, over all combinations of their rows."""

    inputs: tuple[Exec, ...]
    keys: tuple[tuple[str, ...], ...]  # of each side; those at the same place are equal, and the schema begins with them
    calls: tuple[ProductCall, ...]
    schema: Schema


@dataclass(frozen=True)
class AsOfJoinExec:
    left: Exec
    right: Exec
    keys: tuple[JoinKey, ...]
    match: Match
    tie_sql: str | None  # of bytes in the order of right rows with the same match value; None: they are equal
    keeps_left: bool
    schema: Schema


@dataclass(frozen=True)
class ThresholdExec:
    left: Exec
    right: Exec
    keys: tuple[JoinKey, ...]
    match: Match
    schema: Schema


@dataclass(frozen=True)
class UnionExec:
    inputs: tuple[Exec, ...]
    schema: Schema


@dataclass(frozen=True)
class SetOperationExec:
    """Of one input or two; its rows say when they end, if theirs do."""

    kind: SetKind
    inputs: tuple[Exec, ...]
    schema: Schema


@dataclass(frozen=True)
class NegateExec:
    input: Exec
    schema: Schema


@dataclass(frozen=True)
class RepeatExec:
    input: Exec
    copies: str
    schema: Schema


@dataclass(frozen=True)
class MatchExec:
    """Each row once for every selection that wants it; which these are, is told with each task."""

    input: Exec
    schema: Schema


@dataclass(frozen=True)
class NetExec:
    """Equal rows that enter and leave at the same instant cancel."""

    input: Exec
    schema: Schema


@dataclass(frozen=True)
class ToStreamExec:
    input: Exec
    kind: Literal["istream", "dstream"]
    schema: Schema


@dataclass(frozen=True)
class RStreamExec:
    """All rows of `input` at every instant at which something moves in one of `moments`."""

    input: Exec
    moments: tuple[Exec, ...]
    schema: Schema


Exec = (
    SourceExec
    | ReceiveExec
    | FilterExec
    | ProjectExec
    | WindowExec
    | ExpireExec
    | AggregateExec
    | OverExec
    | TopKExec
    | JoinExec
    | PairExtremesExec
    | ProductSumsExec
    | AsOfJoinExec
    | ThresholdExec
    | UnionExec
    | SetOperationExec
    | NegateExec
    | RepeatExec
    | MatchExec
    | NetExec
    | ToStreamExec
    | RStreamExec
)


@dataclass(frozen=True)
class Fragment:
    stage: int
    root: Exec
    sends: Distribution | None  # how the output is spread over the next stage's buckets; None: it is the query's changelog

    @property
    def single(self) -> bool:
        """Everything it reads is in bucket 0, so it runs there alone."""
        return any(isinstance(leaf.distribution, Single) for leaf in leaves(self.root))


@dataclass(frozen=True)
class PhysicalPlan:
    fragments: tuple[Fragment, ...]  # the last one writes the changelog
    append_only: bool  # the changelog never retracts

    @property
    def schema(self) -> Schema:
        return self.fragments[-1].root.schema

    @property
    def stages(self) -> int:
        return self.fragments[-1].stage


def plan_id(plan: PhysicalPlan) -> str:
    """Equal for plans whose operators can take over each other's states: a function given again is the same function."""
    return hashlib.sha256(re.sub(r"\bkey='\w*'", "", repr(plan.fragments)).encode()).hexdigest()[:20]


def inputs(node: Exec) -> tuple[Exec, ...]:
    match node:
        case SourceExec() | ReceiveExec():
            return ()
        case JoinExec() | PairExtremesExec() | AsOfJoinExec() | ThresholdExec():
            return (node.left, node.right)
        case UnionExec() | SetOperationExec() | ProductSumsExec():
            return node.inputs
        case RStreamExec():
            return (node.input, *node.moments)
        case _:
            return (node.input,)


def leaves(node: Exec) -> tuple[SourceExec | ReceiveExec, ...]:
    """All that a fragment reads, each once, from left to right: the order in which it takes its inputs."""
    if isinstance(node, SourceExec | ReceiveExec):
        return (node,)
    return tuple(dict.fromkeys(leaf for child in inputs(node) for leaf in leaves(child)))


def in_order(node: Exec) -> tuple[Exec, ...]:
    """The operators of a fragment, each once, behind those that it reads: so circuits are built, and so snapshots number them."""
    if isinstance(node, SourceExec | ReceiveExec):
        return ()
    return tuple(dict.fromkeys((*(part for child in inputs(node) for part in in_order(child)), node)))


def sources(node: Exec) -> tuple[SourceExec, ...]:
    return tuple(leaf for leaf in leaves(node) if isinstance(leaf, SourceExec))


def receives(node: Exec) -> tuple[ReceiveExec, ...]:
    return tuple(leaf for leaf in leaves(node) if isinstance(leaf, ReceiveExec))


def windows(node: Exec) -> tuple[WindowSpec, ...]:
    here = (node.spec,) if isinstance(node, WindowExec) else ()
    return here + tuple(spec for child in inputs(node) for spec in windows(child))


def keeps_nothing(plan: PhysicalPlan) -> bool:
    """Whether every row goes its way alone, and for ever: then what it gives does not depend on those before."""
    return all(rows_go_alone(fragment.root) for fragment in plan.fragments)


def rows_go_alone(node: Exec) -> bool:
    match node:
        case WindowExec():
            alone = node.spec.grows_only and isinstance(node.spec, TimeWindow) and node.spec.enters_on_arrival
        case SourceExec():
            alone = not node.retracts
        case _:
            alone = isinstance(node, ReceiveExec | FilterExec | ProjectExec | MatchExec | UnionExec)
    return alone and all(map(rows_go_alone, inputs(node)))


def learns_by_input(node: Exec) -> bool:
    """Whether something in it learns the time from the rows that arrive."""
    return (isinstance(node, ExpireExec) and node.by_input) or any(map(learns_by_input, inputs(node)))


def functions(node: Exec) -> frozenset[PythonFunction]:
    """The Python functions that a fragment calls."""
    steps = node.prefix if isinstance(node, SourceExec) else (node,) if isinstance(node, FilterExec | ProjectExec) else ()
    here = frozenset(call.function for step in steps for call in step.calls)
    return here.union(*(functions(child) for child in inputs(node)))


def messages_of(node: Exec) -> Ends | None:
    """How those who read it learn when its rows have ended, if these say it."""
    match node:
        case JoinExec():
            return node.ends
        case FilterExec() | ProjectExec():
            return messages_of(node.input)
        case _:
            return None


def contents_fragment(plan: PhysicalPlan) -> int | None:
    """The fragment whose operators can tell the current relation, if any: netting changes no contents, so look below it."""
    number, node = len(plan.fragments) - 1, plan.fragments[-1].root
    while True:
        match node:
            case NetExec():
                node = node.input
            case ReceiveExec():
                number, node = node.fragment, plan.fragments[node.fragment].root
            case _:
                return number if keeps_contents(node) else None


def keeps_contents(node: Exec) -> bool:
    """Whether the running operators can tell the current relation; else it is folded from the changelog."""
    match node:
        case AggregateExec() | PairExtremesExec() | ProductSumsExec():
            return True
        case WindowExec():
            return not node.spec.grows_only
        case SourceExec() | ReceiveExec() | JoinExec() | UnionExec() | NegateExec() | RepeatExec() | ToStreamExec() | RStreamExec():
            return False
        case ExpireExec() | SetOperationExec() | OverExec() | TopKExec() | AsOfJoinExec() | ThresholdExec():
            return False
        case _:
            return keeps_contents(node.input)
