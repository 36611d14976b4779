from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millstream.plan.comparison import comparing
from millstream.plan.expression import Expr
from millstream.plan.logical import Filter, Join, JoinKey, Plan
from millstream.plan.rules.conditions import filtered, parts


def join_by_equality(plan: Plan) -> Plan:
    """Rows that must be equal in a column meet by it, instead of every row with every row.

        Filter l.x = r.y AND p         Filter p
        └─ Join on k            =>     └─ Join on k, x = y
           ├─ l                           ├─ l
           └─ r                           └─ r

    The binder makes keys of the equalities of ON and WHERE itself; others turn up when queries inside queries have become joins:
    `price = (SELECT max(price) ...)`.

    Fires only if the part compares a column of the left with one of the right, and both have the type in which they are compared:
    then equal values are equal keys, and NULL is equal to nothing in both.
    """
    match plan:
        case Filter(Join() as join, predicate):
            split = [(part, _key(join, part)) for part in parts(predicate)]
            keys = tuple(key for _, key in split if key is not None and key not in join.keys)
            rest = [part for part, key in split if key is None]
            if len(rest) == len(split):
                return plan
            return filtered(replace(join, keys=(*join.keys, *dict.fromkeys(keys))), rest)
        case _:
            return plan


def _key(join: Join, part: Expr) -> JoinKey | None:
    compared = comparing(part)
    if compared is None or compared.kind is not exp.EQ or not compared.left.is_column or not compared.right.is_column:
        return None
    if not compared.left.columns <= set(join.left.schema.names):
        compared = compared.turned
    (left,), (right,) = compared.left.columns, compared.right.columns
    if left not in join.left.schema or right not in join.right.schema:
        return None
    if not join.left.schema[left].type == join.right.schema[right].type == compared.left.type:
        return None
    return JoinKey(left, right)
