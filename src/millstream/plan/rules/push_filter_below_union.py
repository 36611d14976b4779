from __future__ import annotations

from dataclasses import replace

from millstream.plan.logical import Filter, Negate, Plan, Union, scans


def push_filter_below_union(plan: Plan) -> Plan:
    """Filter each input, so that the filter can go on down to where rows would be kept.

        Filter p                     Union                     Filter p                 Negate
        └─ Union            =>       ├─ Filter p               └─ Negate       =>       └─ Filter p
           ├─ x                      │  └─ x                      └─ x                     └─ x
           └─ y                      └─ Filter p
                                        └─ y

    Fires below a union only if its inputs read nothing in common.  What they share, as the sides of an outer join do, runs once;
    a filter that gets further down in one of them than in another would make two of it.
    """
    match plan:
        case Filter(Union(inputs), predicate):
            read = [{scan.source for scan in scans(each)} for each in inputs]
            if sum(map(len, read)) > len(set().union(*read)):
                return plan
            return Union(tuple(Filter(each, predicate) for each in inputs))
        case Filter(Negate() as negate, predicate):
            return replace(negate, input=Filter(negate.input, predicate))
        case _:
            return plan
