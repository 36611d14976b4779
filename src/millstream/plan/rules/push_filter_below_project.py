from __future__ import annotations

from dataclasses import replace

from millstream.plan.logical import Filter, Plan, Project
from millstream.plan.rules.conditions import filtered, parts


def push_filter_below_project(plan: Plan) -> Plan:
    """Filter before anything is computed, and let the filter go on down.

        Filter p AND q               Filter q
        └─ Project a, f(b) AS c  =>  └─ Project a, f(b) AS c
           └─ x                         └─ Filter p
                                           └─ x

    p reads columns that the projection only passes on, q also others.  Fires only if p is deterministic and reads a column.
    """
    match plan:
        case Filter(Project() as project, predicate):
            passed_on = {named.name: named.expr for named in project.columns if named.expr.is_column}
            lower = [part for part in parts(predicate) if part.deterministic and part.columns and part.columns <= set(passed_on)]
            if not lower:
                return plan
            rest = [part for part in parts(predicate) if part not in lower]
            below = filtered(project.input, [part.substitute(passed_on) for part in lower])
            return filtered(replace(project, input=below), rest)
        case _:
            return plan
