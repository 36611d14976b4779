from __future__ import annotations

from millstream.plan.expression import Named
from millstream.plan.logical import Plan, Project, children, with_children


def drop_idle_projects(plan: Plan) -> Plan:
    """A projection that only repeats its input's columns, in their order, is its input.

        Project a, b                 x (a, b)
        └─ x (a, b)         =>

    A rule over whole plans, after pruning has made the columns of both sides equal.
    """
    plan = with_children(plan, [drop_idle_projects(child) for child in children(plan)])
    if isinstance(plan, Project) and plan.schema == plan.input.schema and all(_repeats(named) for named in plan.columns):
        return plan.input
    return plan


def _repeats(named: Named) -> bool:
    return named.expr.is_column and named.expr.columns == {named.name}
