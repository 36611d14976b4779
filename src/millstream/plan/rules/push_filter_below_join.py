from __future__ import annotations

from dataclasses import replace

from millstream.plan.logical import Filter, Join, Plan, Threshold
from millstream.plan.rules.conditions import filtered, parts


def push_filter_below_join(plan: Plan) -> Plan:
    """Filter each side before the join, so rows that cannot be part of a pair are not kept for one.

        Filter p AND q AND r         Filter r
        └─ Join             =>       └─ Join
           ├─ x                         ├─ Filter p
           └─ y                         │  └─ x
                                        └─ Filter q
                                           └─ y

    p reads columns of x only, q of y only.  The parts of a condition that are joined by AND move one by one: a pair passes
    if every part is true of it, and a part that reads one side is as true of the row as of all its pairs.  The same above a
    threshold, whose rows are those of its left.

    Fires only if a part is deterministic: it will run once for the row, and not again for each of its pairs.
    """
    match plan:
        case Filter(Join() as join, predicate):
            left, right, rest = [], [], []
            for part in parts(predicate):
                if part.deterministic and part.columns and part.columns <= set(join.left.schema.names):
                    left.append(part)
                elif part.deterministic and part.columns and part.columns <= set(join.right.schema.names):
                    right.append(part)
                else:
                    rest.append(part)
            if not left and not right:
                return plan
            return filtered(replace(join, left=filtered(join.left, left), right=filtered(join.right, right)), rest)
        case Filter(Threshold() as threshold, predicate):
            left = [part for part in parts(predicate) if part.deterministic and part.columns]
            rest = [part for part in parts(predicate) if part not in left]
            return filtered(replace(threshold, left=filtered(threshold.left, left)), rest) if left else plan
        case _:
            return plan
