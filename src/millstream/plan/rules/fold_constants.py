from __future__ import annotations

from dataclasses import replace

from millstream.plan.constant_folding import folded, truth
from millstream.plan.expression import Named
from millstream.plan.logical import Filter, Plan, Project


def fold_constants(plan: Plan) -> Plan:
    """What no row can change is computed once, when the query is planned.

        Filter size > 60 * 60        Filter size > 3600        Filter TRUE
        └─ x                   =>    └─ x                      └─ x           =>   x

    A condition that is never true stays, as FALSE: pushed down to the scan it lets nothing into any state.
    """
    match plan:
        case Filter():
            predicate = folded(plan.predicate)
            if truth(predicate.tree) is True:
                return plan.input
            return plan if predicate is plan.predicate else replace(plan, predicate=predicate)
        case Project():
            columns = tuple(_folded_column(named) for named in plan.columns)
            return plan if all(new is old for new, old in zip(columns, plan.columns, strict=True)) else replace(plan, columns=columns)
        case _:
            return plan


def _folded_column(named: Named) -> Named:
    expr = folded(named.expr)
    return named if expr is named.expr else replace(named, expr=expr)
