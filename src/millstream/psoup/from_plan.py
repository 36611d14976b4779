"""From a bound query to what the soup keeps of it, and what is left to do whenever somebody asks.

    Project, Aggregate, TopK, Over ...     finish: over the rows of one invocation, once
    ─────────────────────────────────
    Filter, Project, Join                  the clause: sources, factors, joins, conditions (conditions.py)
    Window, Scan                           BEGIN and END, the same for all sources

count, sum, avg, min and max of columns without GROUP BY come from ranked trees: then the line is drawn above the aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast, get_args

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import NotSupported
from millstream.core.instant import NEVER_BEFORE
from millstream.core.schema import Field
from millstream.kernels.sort_keys import is_sortable
from millstream.language.scalar_predicates import comparison
from millstream.plan.expression import Expr, Named, column
from millstream.plan.logical import (
    Aggregate,
    AggregateCall,
    BoundQuery,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    ToStream,
    Window,
    children,
    scans,
    with_children,
)
from millstream.plan.physical import AggregateExec, Exec, PhysicalPlan, inputs
from millstream.plan.planner import plan_physical
from millstream.plan.rewrite import rewrite
from millstream.plan.window import TimeWindow
from millstream.psoup.conditions import Base, clause_of
from millstream.psoup.query import Aggregate as SoupAggregate
from millstream.psoup.query import Bound, ColumnOf, Function, Now, Query, Source, Variant, is_number

_BY_TIME = ("first", "last", "collect_list", "collect_ordered")
_ROWS = "rows"
"""What the rest of the plan calls the rows of an invocation."""


@dataclass(frozen=True)
class Planned:
    """`finish`: what makes the answer of the rows that the soup gives; None: they are the answer."""

    query: Query
    finish: PhysicalPlan | None

    @cached_property
    def by_time(self) -> bool:
        """Whether the answer depends on when rows came, not only on which there are."""
        plans = [fragment.root for fragment in self.finish.fragments] if self.finish is not None else []
        return any(call.function in _BY_TIME for plan in plans for call in _calls(plan))

    @property
    def streams(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(dict.fromkeys(source.stream for source in self.query.clause.sources))


def planned(bound: BoundQuery, variant: Variant) -> Planned:
    """`bound` is a query that registered_shape.py lets through."""
    plan = bound.plan.input if isinstance(bound.plan, ToStream) else bound.plan
    core, above = _core(plan)
    taken = _Taken()
    columns = taken.columns(core)
    totals = _totals(above, columns, taken.base) if isinstance(above, Aggregate) else None
    if totals is not None and isinstance(above, Aggregate):
        rest = _replaced(plan, above, _scan({call.name: call.type for call in above.calls}))
    else:
        rows = _scan({name: base.type for name, base in taken.base.items()})
        rest = _replaced(plan, core, Project(rows, tuple(Named(name, columns[name]) for name in core.schema.names)))
    rest = rewrite(rest)
    listed = _listed(rest)
    shown = listed or [(name, name) for name, _ in scans(rest)[0].columns]
    begin, end = _bounds(taken.windows[0])
    query = Query(clause_of(taken.sources, taken.conditions, taken.base), begin=begin, end=end, variant=variant)
    if totals is not None:
        query = replace(query, aggregates=tuple(replace(totals[of], name=name) for name, of in shown))
    else:
        query = replace(query, select=tuple((name, taken.base[of].of) for name, of in shown))
    return Planned(query, None if listed else plan_physical(replace(bound, plan=rest), {}))


def _calls(node: Exec) -> list[AggregateCall]:
    own = node.calls if isinstance(node, AggregateExec) else ()
    return [*own, *(call for below in inputs(node) for call in _calls(below))]


def _core(plan: Plan) -> tuple[Plan, Plan | None]:
    """The part that the soup keeps, and the node above it, if there is one."""
    core, above = plan, None
    while not _is_core(core):
        if len(children(core)) != 1:
            raise NotSupported("a registered query cannot be made of this", hint="CREATE QUERY takes it.")
        core, above = children(core)[0], core
    return core, above


def _scan(columns: Mapping[str, pa.DataType]) -> Scan:
    return Scan(_ROWS, tuple((name, Field(name, type_)) for name, type_ in columns.items()))


def _is_core(plan: Plan) -> bool:
    match plan:
        case Window(Scan(kind="stream"), TimeWindow()):
            return True
        case Filter() | Project():
            return _is_core(plan.input)
        case Join():
            return _is_core(plan.left) and _is_core(plan.right)
        case _:
            return False


@dataclass
class _Taken:
    """The lower part of a plan, taken apart.  Base columns are those of the streams, `place.column`."""

    sources: list[Source] = field(default_factory=list)
    windows: list[TimeWindow] = field(default_factory=list)
    base: dict[str, Base] = field(default_factory=dict)
    conditions: list[Expr] = field(default_factory=list)

    def columns(self, plan: Plan) -> dict[str, Expr]:
        """What each column of the plan is, over base columns."""
        match plan:
            case Window(Scan() as scan, TimeWindow() as spec):
                return self._source(scan, spec)
            case Filter():
                below = self.columns(plan.input)
                self.conditions.append(plan.predicate.substitute(below))
                return below
            case Project():
                below = self.columns(plan.input)
                return {named.name: named.expr.substitute(below) for named in plan.columns}
            case Join():
                both = {**self.columns(plan.left), **self.columns(plan.right)}
                for key in plan.keys:
                    self.conditions.append(
                        comparison(exp.NullSafeEQ if key.null_safe else exp.EQ, _copy(both[key.left]), _copy(both[key.right]))
                    )
                return both
            case _:
                raise AssertionError(f"not a part of the core: {plan}")

    def _source(self, scan: Scan, spec: TimeWindow) -> dict[str, Expr]:
        name = str(len(self.sources))
        self.sources.append(Source(name, scan.source))
        self.windows.append(spec)
        for _, own in scan.columns:
            self.base[f"{name}.{own.name}"] = Base(ColumnOf(name, own.name), own.type)
        return {known: column(f"{name}.{own.name}", own.type) for known, own in scan.columns}


def _copy(expr: Expr) -> Expr:
    return Expr(expr.tree.copy(), expr.type)


def _bounds(window: TimeWindow) -> tuple[Bound, Bound]:
    begin: Bound = NEVER_BEFORE if window.since is None else window.since
    if window.length_us is not None:
        begin = Now(window.length_us - 1)
    return begin, Now(window.delay_us) if window.until is None else window.until


def _replaced(plan: Plan, old: Plan, new: Plan) -> Plan:
    return new if plan is old else with_children(plan, [_replaced(child, old, new) for child in children(plan)])


def _listed(plan: Plan) -> list[tuple[str, str]] | None:
    """Names of the answer with the columns that they are, if nothing has to be computed."""
    match plan:
        case Scan():
            return [(name, name) for name, _ in plan.columns]
        case Project(Scan(), columns) if all(named.expr.is_column for named in columns):
            return [(named.name, next(iter(named.expr.columns))) for named in columns]
        case _:
            return None


# --- aggregates that ranked trees know ----------------------------------------------------------


def _totals(plan: Aggregate, columns: Mapping[str, Expr], base: Mapping[str, Base]) -> dict[str, SoupAggregate] | None:
    """By the names of the aggregate's columns; None if one of them is not for a tree."""
    found = {call.name: _total(call, columns, base) for call in plan.calls}
    return None if plan.keys or None in found.values() else cast("dict[str, SoupAggregate]", found)


def _total(call: AggregateCall, columns: Mapping[str, Expr], base: Mapping[str, Base]) -> SoupAggregate | None:
    if call.function not in get_args(Function) or call.distinct or call.more or call.parameters:
        return None
    function = cast(Function, call.function)
    if call.argument is None:
        return SoupAggregate(call.name, function) if function == "count" else None
    argument = columns[call.argument]
    if not argument.is_column:
        return None
    of = base[next(iter(argument.columns))]
    return SoupAggregate(call.name, function, of.of) if _type_of_total(function, of.type) == call.type else None


def _type_of_total(function: Function, type_: pa.DataType) -> pa.DataType | None:
    """None: there is no tree for it."""
    if not is_sortable(type_) or pa.types.is_null(type_):
        return None
    if function in ("min", "max"):
        return type_
    if function == "count":
        return pa.int64()
    if pa.types.is_decimal(type_):
        digits, scale = (10, 0) if function == "sum" else (4, 4)
        return pa.decimal128(min(type_.precision + digits, 38), min(type_.scale + scale, 38))
    if not is_number(type_):
        return None
    return pa.float64() if function == "avg" or pa.types.is_floating(type_) else pa.int64()
