from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from millstream.plan.expression import Expr
from millstream.plan.logical import Aggregate, Filter, Plan
from millstream.plan.rules.conditions import filtered, parts


def push_filter_below_aggregate(plan: Plan) -> Plan:
    """Whole groups that nobody wants are not aggregated.

        Filter p AND q               Filter q
        └─ Aggregate by k   =>       └─ Aggregate by k
           └─ x                         └─ Filter p
                                           └─ x

    p reads keys only, so it is as true of a group as of each of its rows.

    Fires only if:
      (1) there are keys: without any there is a group even where no row passes.
      (2) p is deterministic: it will run for each row and not for the group.
      (3) p reads no floating-point key: 0.0 and -0.0 are one group, but p may tell them apart.
    """
    match plan:
        case Filter(Aggregate() as aggregate, predicate) if aggregate.keys:  # (1)
            below = [part for part in parts(predicate) if _of_keys(part, aggregate)]
            above = [part for part in parts(predicate) if not _of_keys(part, aggregate)]
            return filtered(replace(aggregate, input=filtered(aggregate.input, below)), above) if below else plan
        case _:
            return plan


def _of_keys(part: Expr, aggregate: Aggregate) -> bool:
    if not part.deterministic:
        return False  # (2)
    return part.columns <= set(aggregate.keys) and not any(_floats(aggregate.schema[name].type) for name in part.columns)  # (3)


def _floats(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_floats(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_floating(type_))
