from __future__ import annotations

from millstream.plan.expression import Named
from millstream.plan.logical import Plan, Project


def merge_projects(plan: Plan) -> Plan:
    """Two projections in a row are one.

        Project e(f)                 Project e∘f
        └─ Project f        =>       └─ x
           └─ x

    Fires only if every column of the inner one that is more than a bare reference is read at most
    once above: no expression is computed twice.
    """
    match plan:
        case Project(Project(inner, lower), upper):
            computed = {named.name for named in lower if not named.expr.is_column}
            reads = [name for named in upper for name in named.expr.columns if name in computed]
            if len(reads) != len(set(reads)):
                return plan
            meaning = {named.name: named.expr for named in lower}
            return Project(inner, tuple(Named(named.name, named.expr.substitute(meaning)) for named in upper))
        case _:
            return plan
