from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from millstream.plan.expression import Expr
from millstream.plan.logical import Filter, Plan


def merge_filters(plan: Plan) -> Plan:
    """Two filters in a row are one.

    Filter p                     Filter q AND p
    └─ Filter q         =>       └─ x
       └─ x
    """
    match plan:
        case Filter(Filter(inner, first), second):
            both = exp.and_(exp.paren(first.tree.copy()), exp.paren(second.tree.copy()), copy=False)
            return Filter(inner, Expr(both, pa.bool_()))
        case _:
            return plan
