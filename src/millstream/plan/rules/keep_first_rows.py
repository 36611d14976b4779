from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.plan.comparison import TURNED
from millstream.plan.expression import Expr
from millstream.plan.logical import Filter, Over, Plan, Project, TopK
from millstream.plan.rules.conditions import parts


def keep_first_rows(plan: Plan) -> Plan:
    """Rows whose number is small are the first rows of an order: the numbers of the others are never worked out.

        Filter n <= k AND p          Filter p
        └─ Project                   └─ Project
           └─ Over n = row_number()  =>  └─ TopK k, numbered as n
              └─ x                       └─ x

    With or without the projection.  Fires only if:
      (1) row_number is the only call of the Over.
      (2) a part of the condition bounds the number from above by a constant.
    """
    match plan:
        case Filter(Over() as over, predicate):
            found = _bounds(predicate, over, over.schema.names[-1])
            return plan if found is None else found.filtered(found.top(over))
        case Filter(Project(Over() as over, columns) as project, predicate):
            shown = [named.name for named in columns if named.expr.is_column and over.schema.names[-1] in named.expr.columns]
            found = _bounds(predicate, over, *shown)
            return plan if found is None else found.filtered(Project(found.top(over), project.columns))
        case _:
            return plan


@dataclass(frozen=True)
class _Bounds:
    """First and last number that can pass, and the parts of the condition that say more than that."""

    first: int
    last: int
    rest: tuple[Expr, ...]

    def top(self, over: Over) -> TopK:
        limit = max(0, self.last - self.first + 1)
        return TopK(over.input, over.partition_by, over.order_by, limit, self.first - 1, over.calls[0].name)

    def filtered(self, plan: Plan) -> Plan:
        for part in self.rest:
            plan = Filter(plan, part)
        return plan


def _bounds(predicate: Expr, over: Over, *names: str) -> _Bounds | None:
    if [call.function for call in over.calls] != ["row_number"]:
        return None  # (1)
    first, last, rest = 1, None, []
    for part in parts(predicate):
        match _comparison(part.tree, names):
            case (exp.LTE | exp.LT) as kind, number:
                highest = number if kind is exp.LTE else number - 1
                last = highest if last is None else min(last, highest)
            case (exp.GTE | exp.GT) as kind, number:
                first = max(first, number if kind is exp.GTE else number + 1)
            case exp.EQ, number:
                first, last = max(first, number), number if last is None else min(last, number)
            case _:
                rest.append(Expr(part.tree.copy(), part.type))
    return _Bounds(first, last, tuple(rest)) if last is not None else None  # (2)


def _comparison(tree: exp.Expr, names: tuple[str, ...]) -> tuple[type[exp.Expr], int] | None:
    """How a part compares one of these columns with a whole number: the column first."""
    kind = type(tree)
    if kind not in TURNED:
        return None
    left, right = tree.args["this"].unnest(), tree.args["expression"].unnest()
    if isinstance(left, exp.Literal):
        left, right, kind = right, left, TURNED[kind]
    if isinstance(left, exp.Column) and left.name in names and isinstance(right, exp.Literal) and right.is_int:
        return kind, int(right.name)
    return None
