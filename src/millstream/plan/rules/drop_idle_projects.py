from __future__ import annotations

from dataclasses import replace

from millstream.plan.expression import Named
from millstream.plan.logical import Plan, Project, Scan


def drop_idle_projects(plan: Plan) -> Plan:
    """A projection that only repeats its input's columns, in their order, is its input.

        Project a, b                 x (a, b)
        └─ x (a, b)         =>

    A rule over whole plans, after pruning has made the columns of both sides equal.
    """
    if isinstance(plan, Scan):
        return plan
    below = drop_idle_projects(plan.input)
    if isinstance(plan, Project) and plan.schema == below.schema and all(_repeats(named) for named in plan.columns):
        return below
    return plan if below is plan.input else replace(plan, input=below)


def _repeats(named: Named) -> bool:
    return named.expr.is_column and named.expr.columns == {named.name}
