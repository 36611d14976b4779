from __future__ import annotations

from dataclasses import replace

from millstream.core.schema import Field
from millstream.plan.expression import Named, column
from millstream.plan.logical import (
    Aggregate,
    AggregateCall,
    AsOfJoin,
    Filter,
    Join,
    Negate,
    Over,
    Plan,
    Project,
    Repeat,
    Scan,
    SetOperation,
    Threshold,
    TopK,
    ToStream,
    Union,
    Window,
)
from millstream.plan.window import RowsWindow


def prune_columns(plan: Plan) -> Plan:
    """Columns that nobody reads are never read from the log nor kept in a window.

    A rule over whole plans: it walks down from the root with the set of columns that are wanted.
    At least one column stays everywhere, for the rows still have to be counted.
    """
    return _pruned(plan, frozenset(plan.schema.names))


def _pruned(plan: Plan, wanted: frozenset[str]) -> Plan:
    match plan:
        case Scan():
            kept = tuple(column for column in plan.columns if column[0] in wanted)
            return replace(plan, columns=kept or (_narrowest(plan),))
        case Filter():
            return replace(plan, input=_pruned(plan.input, wanted | plan.predicate.columns))
        case Project():
            kept_columns = tuple(named for named in plan.columns if named.name in wanted) or plan.columns[:1]
            read = frozenset(name for named in kept_columns for name in named.expr.columns)
            return Project(_pruned(plan.input, read), kept_columns)
        case Window():
            return replace(plan, input=_pruned(plan.input, wanted | _decisive(plan)))
        case Aggregate():
            calls = (
                tuple(call for call in plan.calls if call.name in wanted or _holds_values(call, plan, wanted))
                or plan.calls[: not plan.keys]
            )
            read = frozenset(plan.keys) | {name for call in calls for name in call.columns}
            return replace(plan, calls=calls, input=_pruned(plan.input, read))
        case Over():
            return _over(plan, wanted)
        case TopK():
            # every column below decides between rows that tie
            number = plan.number if plan.number in wanted else None
            return replace(plan, number=number, input=_pruned(plan.input, frozenset(plan.input.schema.names)))
        case Join():
            read = wanted | {name for key in plan.keys for name in (key.left, key.right)}
            return replace(plan, left=_pruned(plan.left, read), right=_pruned(plan.right, read))
        case AsOfJoin():
            # who wins a tie is decided by columns that nobody may read; those behind the last one that is read decide nothing
            last = max((i for i, name in enumerate(plan.ties) if name in wanted), default=-1)
            ties = plan.ties[: last + 1]
            read = wanted | {plan.match.left, plan.match.right, *ties} | {name for key in plan.keys for name in (key.left, key.right)}
            return replace(plan, ties=ties, left=_pruned(plan.left, read), right=_pruned(plan.right, read))
        case Threshold():
            left = wanted | {plan.match.left, *(key.left for key in plan.keys)}
            right = frozenset({plan.match.right, *(key.right for key in plan.keys)})
            return replace(plan, left=_pruned(plan.left, left), right=_pruned(plan.right, right))
        case Union():
            # inputs may keep more than is wanted, each something else: only a projection makes them equal again
            return Union(tuple(_exactly(child, wanted) for child in plan.inputs))
        case SetOperation():
            # every column says which rows are equal
            return replace(plan, inputs=tuple(_exactly(child, frozenset(child.schema.names)) for child in plan.inputs))
        case Negate():
            return replace(plan, input=_pruned(plan.input, wanted))
        case Repeat():
            kept_too = wanted if wanted & set(plan.schema.names) else {plan.schema.names[0]}
            return replace(plan, input=_pruned(plan.input, frozenset(kept_too) | {plan.copies}))
        case ToStream():
            return replace(plan, input=_pruned(plan.input, wanted))


def _decisive(window: Window) -> frozenset[str]:
    """The columns that say which rows are in the window; among rows without an order of arrival every column does."""
    if not isinstance(window.spec, RowsWindow):
        return frozenset()
    return frozenset(window.spec.partition_by if _has_arrival_order(window.input) else window.input.schema.names)


def _has_arrival_order(plan: Plan) -> bool:
    match plan:
        case Filter() | Project():
            return _has_arrival_order(plan.input)
        case _:
            return isinstance(plan, Scan) and plan.kind == "stream"


def _over(plan: Over, wanted: frozenset[str]) -> Plan:
    """Where a call can tell rows that tie apart, every column decides between them."""
    calls = tuple(call for call in plan.calls if call.name in wanted)
    if not calls:
        return _pruned(plan.input, wanted)
    read = wanted & frozenset(plan.input.schema.names)
    read |= frozenset(plan.partition_by) | {key.column for key in plan.order_by} | {name for call in calls for name in call.columns}
    if any(call.tells_ties_apart for call in calls):
        read = frozenset(plan.input.schema.names)
    return replace(plan, calls=calls, input=_pruned(plan.input, read))


def _exactly(plan: Plan, wanted: frozenset[str]) -> Plan:
    names = [name for name in plan.schema.names if name in wanted] or [plan.schema.names[0]]
    pruned = _pruned(plan, frozenset(names))
    if list(pruned.schema.names) == names:
        return pruned
    return Project(pruned, tuple(Named(name, column(name, pruned.schema[name].type)) for name in names))


def _narrowest(scan: Scan) -> tuple[str, Field]:
    def width(column: tuple[str, Field]) -> int:
        try:
            return int(column[1].type.bit_width)
        except ValueError:
            return 1_000

    return min(scan.columns, key=width)


def _holds_values(call: AggregateCall, plan: Aggregate, wanted: frozenset[str]) -> bool:
    """Whether others that are wanted count some of its values: they would look all of them up, wanted or not (share_distinct_values)."""
    if not call.distinct or call.where is not None:
        return False
    return any(other.name in wanted and other.where is not None and other.arguments == call.arguments for other in plan.calls)
