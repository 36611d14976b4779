from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from millstream.plan.expression import Expr
from millstream.plan.logical import Filter, Join, Plan


def push_filter_below_join(plan: Plan) -> Plan:
    """Filter each side before the join, so rows that cannot be part of a pair are not kept for one.

        Filter p AND q AND r         Filter r
        └─ Join             =>       └─ Join
           ├─ x                         ├─ Filter p
           └─ y                         │  └─ x
                                        └─ Filter q
                                           └─ y

    p reads columns of x only, q of y only.  The parts of a condition that are joined by AND move one by one: a pair passes
    if every part is true of it, and a part that reads one side is as true of the row as of all its pairs.

    Fires only if a part is deterministic: it will run once for the row, and not again for each of its pairs.
    """
    match plan:
        case Filter(Join() as join, predicate):
            left, right, rest = [], [], []
            for part in parts_of(predicate):
                if part.deterministic and part.columns and part.columns <= set(join.left.schema.names):
                    left.append(part)
                elif part.deterministic and part.columns and part.columns <= set(join.right.schema.names):
                    right.append(part)
                else:
                    rest.append(part)
            if not left and not right:
                return plan
            return _filtered(replace(join, left=_filtered(join.left, left), right=_filtered(join.right, right)), rest)
        case _:
            return plan


def parts_of(predicate: Expr) -> Iterator[Expr]:
    """The conditions that are joined by AND."""
    tree = predicate.tree
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        yield from parts_of(Expr(tree.this, pa.bool_()))
        yield from parts_of(Expr(tree.expression, pa.bool_()))
    else:
        yield Expr(tree, pa.bool_())


def _filtered(plan: Plan, parts: Sequence[Expr]) -> Plan:
    for part in parts:
        plan = Filter(plan, Expr(part.tree.copy(), part.type))
    return plan
