from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from millstream.plan.expression import Expr, Named
from millstream.plan.logical import Aggregate, AggregateCall, Plan, Project


def share_distinct_values(plan: Plan) -> Plan:
    """Values that DISTINCT looks at with and without conditions are kept, and looked up, once.

        Aggregate count(DISTINCT x),            Aggregate count(DISTINCT x), count(DISTINCT x) FILTER (WHERE _if0)
        │         count(DISTINCT _arg1)    =>   │
        └─ Project x,                           └─ Project x, c AS _if0
                   CASE WHEN c THEN x END AS _arg1

    Fires only if:
      (1) DISTINCT looks at all x, too: if it did only where a condition holds, the others would be looked up for nothing.
      (2) x is one expression, and the CASE has one branch, of the same type.
      (3) x and the condition are the same whenever they are asked for.
    """
    if not isinstance(plan, Aggregate) or not isinstance(plan.input, Project):
        return plan
    columns = {named.name: named.expr for named in plan.input.columns}
    whole = {call.argument: columns[call.argument] for call in plan.calls if _is_plain(call) and call.argument}
    found = {call.name: shared for call in plan.calls if (shared := _shared(call, columns, whole)) is not None}
    if not found:
        return plan
    conditions = _named([shared.condition for shared in found.values()], columns)
    calls = [
        replace(call, argument=found[call.name].value, where=_name_of(found[call.name].condition, conditions))
        if call.name in found
        else call
        for call in plan.calls
    ]
    return replace(plan, input=replace(plan.input, columns=(*plan.input.columns, *conditions)), calls=tuple(calls))


@dataclass(frozen=True)
class _Shared:
    value: str
    """The column with all values."""
    condition: Expr


def _is_plain(call: AggregateCall) -> bool:
    return call.distinct and not call.more and call.where is None


def _shared(call: AggregateCall, columns: Mapping[str, Expr], whole: Mapping[str, Expr]) -> _Shared | None:
    """The value that the call is about, if it is one of `whole` under a condition."""
    if not _is_plain(call) or call.argument is None:
        return None
    told = columns[call.argument]
    match told.tree:
        case exp.Case(args={"ifs": [exp.If() as branch]}) if told.tree.args.get("this") is None and told.tree.args.get("default") is None:
            condition = Expr(branch.this, pa.bool_())
            for name, value in whole.items():
                if value.tree == branch.args["true"] and value.type == told.type and value.deterministic and condition.deterministic:
                    return _Shared(name, condition)
    return None


def _named(conditions: list[Expr], columns: Mapping[str, Expr]) -> tuple[Named, ...]:
    """A column for each different one."""
    fresh: Iterator[str] = (name for number in range(len(columns) + len(conditions)) if (name := f"_if{number}") not in columns)
    found: list[Named] = []
    for condition in conditions:
        if all(condition.tree != named.expr.tree for named in found):
            found.append(Named(next(fresh), condition))
    return tuple(found)


def _name_of(condition: Expr, named: tuple[Named, ...]) -> str:
    return next(each.name for each in named if each.expr.tree == condition.tree)
