"""Plans as text, for people: what the query means, and how it runs.

Logical plan                         Physical plan
  Aggregate by sym: sum(size)          stage 1, by sym: Aggregate ─ Window ─ Source
  └─ Window [RANGE 5 MINUTES]
     └─ Scan trades (sym, size)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.core.schema import type_name
from millstream.plan.logical import (
    Aggregate,
    AsOfJoin,
    BoundQuery,
    Filter,
    Join,
    JoinKey,
    Negate,
    Over,
    Plan,
    Project,
    Repeat,
    Scan,
    SetOperation,
    SourceKind,
    Threshold,
    TopK,
    ToStream,
    Union,
    Window,
    children,
)
from millstream.plan.ordering import SortKey
from millstream.plan.physical import (
    AggregateExec,
    AsOfJoinExec,
    Exec,
    ExpireExec,
    FilterExec,
    FilterStep,
    Fragment,
    JoinExec,
    MatchExec,
    NegateExec,
    NetExec,
    OverExec,
    PairExtremesExec,
    PhysicalPlan,
    ProductSumsExec,
    ProjectExec,
    ReceiveExec,
    RepeatExec,
    RowWiseStep,
    RStreamExec,
    SetOperationExec,
    SourceExec,
    ThresholdExec,
    TopKExec,
    ToStreamExec,
    UnionExec,
    WindowExec,
    inputs,
)


def explain(bound: BoundQuery, rewritten: Plan, physical: PhysicalPlan, shared: Sequence[Mapping[Exec, Sequence[str]]] = ()) -> str:
    """`shared`: of each fragment, the parts that other queries have in common with this one, and their names."""
    kind = "stream" if bound.is_stream else "relation"
    columns = ", ".join(f"{name} {type_name(field.type)}" for name, field in zip(bound.names, bound.plan.schema, strict=True))
    sections = [f"Answer: a {kind} of ({columns})", "", "Logical plan", *_logical(bound.plan, 1)]
    if rewritten != bound.plan:
        sections += ["", "After the rewrite rules", *_logical(rewritten, 1)]
    sections += ["", "Physical plan"]
    for number, fragment in enumerate(physical.fragments):
        sections += [f"  stage {fragment.stage}, {_placement(fragment)}", *_physical(fragment.root, 2, shared[number] if shared else {})]
        sections.append(f"    => {'the changelog' if fragment.sends is None else f'exchanged {fragment.sends}, as fragment {number}'}")
    return "\n".join(sections)


def _logical(plan: Plan, depth: int) -> list[str]:
    lines = ["  " * depth + _describe(plan)]
    return lines + [line for child in children(plan) for line in _logical(child, depth + 1)]


def _describe(plan: Plan) -> str:
    match plan:
        case Scan():
            return f"Scan {_kind(plan.kind)}{plan.source} ({', '.join(plan.schema.names)})"
        case Filter():
            return f"Filter {plan.predicate}"
        case Project():
            return f"Project {', '.join(map(str, plan.columns))}"
        case Window():
            return f"Window {plan.spec}"
        case Aggregate():
            keys = f" by {', '.join(plan.keys)}" if plan.keys else ""
            return f"Aggregate{keys}: {', '.join(map(str, plan.calls)) or 'distinct'}"
        case Over():
            return _over(plan)
        case TopK():
            return _top_k(plan)
        case Join():
            return f"Join {_keys(plan.keys)}"
        case AsOfJoin():
            return _asof(plan)
        case Threshold():
            return _threshold(plan)
        case Union():
            return "Union"
        case SetOperation():
            return _set_operation(plan)
        case Negate():
            return "Take away"
        case Repeat():
            return f"Repeat each row {plan.copies} times"
        case ToStream():
            return plan.kind.upper()


def _placement(fragment: Fragment) -> str:
    return "in bucket 0 only" if fragment.single else "in every bucket"


def _physical(node: Exec, depth: int, shared: Mapping[Exec, Sequence[str]]) -> list[str]:
    lines = ["  " * depth + describe(node) + (f", shared with {', '.join(shared[node])}" if node in shared else "")]
    if isinstance(node, SourceExec):
        lines += ["  " * (depth + 1) + line for step in reversed(node.prefix) for line in (_describe_step(step), *_calls(step))]
    if isinstance(node, FilterExec | ProjectExec):
        lines += ["  " * (depth + 1) + line for line in _calls(node)]
    for child in inputs(node):
        lines += _physical(child, depth + 1, shared)
    return lines


def describe(node: Exec) -> str:
    """One part of a physical plan, in a line."""
    match node:
        case SourceExec():
            split = "split at ingest " if node.split_at_ingest else ""
            columns = ", ".join(column for column, _, _ in node.columns)
            return f"Source {_kind(node.kind)}{node.name} ({columns}), {split}{node.distribution}"
        case ReceiveExec():
            return f"Receive from fragment {node.fragment}, {node.distribution}"
        case FilterExec():
            return f"Filter {node.predicate_sql}"
        case ProjectExec():
            return f"Project {', '.join(f'{column.sql} AS {column.name}' for column in node.columns)}"
        case WindowExec():
            holds = "holds nothing" if node.spec.grows_only or node.says_until else "holds its rows"
            return f"Window {node.spec}, {'rows say when they end, ' if node.says_until else ''}{holds}"
        case ExpireExec():
            when = "when the next arrives" if node.by_input else "when told"
            return f"Take back rows that have ended, {when}, holds them until then"
        case AggregateExec():
            return f"Aggregate by ({', '.join(node.keys)}): {', '.join(map(str, node.calls)) or 'distinct'}, holds one row per group"
        case OverExec():
            return f"{_over(node)}, holds its rows in order"
        case TopKExec():
            return f"{_top_k(node)}, holds its rows in order"
        case JoinExec():
            ends = f", pairs end {node.ends}" if node.ends is not None else ""
            gives = f", gives {', '.join(node.gives)}" if node.gives is not None else ""
            return f"Join {_keys(node.keys)}{ends}{gives}, holds the rows of both sides"
        case PairExtremesExec():
            calls = ", ".join(map(str, node.calls))
            return f"Extremes of pairs {_keys(node.keys)}, by ({', '.join(node.groups)}): {calls}, holds the rows of both sides"
        case ProductSumsExec():
            keys = " and ".join(" = ".join(names) for names in zip(*node.keys, strict=True))
            return f"Sums of products on {keys}: {', '.join(map(str, node.calls)) or 'distinct'}, holds one row per key"
        case AsOfJoinExec():
            return f"{_asof(node)}, holds the rows of both sides in order"
        case ThresholdExec():
            return f"{_threshold(node)}, holds its rows in order"
        case UnionExec():
            return "Union"
        case SetOperationExec():
            return f"{_set_operation(node)}, rows say when they end, holds all copies"
        case NegateExec():
            return "Take away"
        case RepeatExec():
            return f"Repeat each row {node.copies} times"
        case MatchExec():
            return "Match with the selections that run together"
        case NetExec():
            return "Net equal rows of one instant"
        case ToStreamExec():
            return node.kind.upper()
        case RStreamExec():
            return "RSTREAM, holds the relation"


def _calls(node: RowWiseStep | FilterExec | ProjectExec) -> list[str]:
    return [f"- call {call}" for call in reversed(node.calls)]


def _kind(kind: SourceKind) -> str:
    return "" if kind == "stream" else f"{kind} "


def _over(node: Over | OverExec) -> str:
    return f"Over ({_ordered(node.partition_by, node.order_by)}): {', '.join(map(str, node.calls))}"


def _top_k(node: TopK | TopKExec) -> str:
    behind = f" behind the first {node.offset}" if node.offset else ""
    number = f", numbered as {node.number}" if node.number is not None else ""
    return f"Top {node.limit}{behind} ({_ordered(node.partition_by, node.order_by)}){number}"


def _ordered(partition_by: Sequence[str], order_by: Sequence[SortKey]) -> str:
    parts = [f"by {', '.join(partition_by)}"] if partition_by else []
    parts += [f"in order of {', '.join(map(str, order_by))}"] if order_by else []
    return " ".join(parts) or "all rows"


def _set_operation(node: SetOperation | SetOperationExec) -> str:
    return "Each row once" if node.kind == "distinct" else f"{node.kind.capitalize()}, copy by copy"


def _keys(keys: Sequence[JoinKey]) -> str:
    return f"on {' and '.join(map(str, keys))}" if keys else "of every row with every row"


def _asof(node: AsOfJoin | AsOfJoinExec) -> str:
    keys = f" {_keys(node.keys)}" if node.keys else ""
    return f"As-of join {node.match}, {'the next' if node.match.forward else 'the last'}{keys}{', or NULLs' if node.keeps_left else ''}"


def _threshold(node: Threshold | ThresholdExec) -> str:
    return f"Threshold {node.match}{f' {_keys(node.keys)}' if node.keys else ''}"


def _describe_step(step: RowWiseStep) -> str:
    if isinstance(step, FilterStep):
        return f"- keep {step.predicate_sql}"
    return f"- compute {', '.join(f'{column.sql} AS {column.name}' for column in step.columns)}"
