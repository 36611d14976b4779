from __future__ import annotations

from sqlglot import exp

from millstream.plan.expression import Expr
from millstream.plan.logical import Filter, Plan, Project, Union
from millstream.plan.rules.conditions import parts

_NULL_IF_ANY_IS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Cast, exp.Paren,
)  # fmt: skip


def drop_padded_rows(plan: Plan) -> Plan:
    """A condition that NULLs fail makes an inner join of an outer one: the rows without a partner need not be found.

        Filter x > y                              Filter x > y
        └─ Union                           =>     └─ Join
           ├─ Join (x, y)
           └─ Project x, NULL AS y

    With or without a projection below the filter.  Fires only if a part of the condition is NULL wherever one of its columns is, and
    that column is NULL in all rows of an input.
    """
    match plan:
        case Filter(Union() as union, predicate):
            below = _without_padded(union, predicate)
            return plan if below is union else Filter(below, predicate)
        case Filter(Project(Union() as union, columns), predicate):
            below = _without_padded(union, predicate.substitute({named.name: named.expr for named in columns}))
            return plan if below is union else Filter(Project(below, columns), predicate)
        case _:
            return plan


def _without_padded(union: Union, predicate: Expr) -> Plan:
    decisive = {name for part in parts(predicate) for name in _rejected(part)}
    kept = tuple(each for each in union.inputs if not decisive & _nulls(each))
    if not kept or len(kept) == len(union.inputs):
        return union
    return kept[0] if len(kept) == 1 else Union(kept)


def _rejected(part: Expr) -> set[str]:
    """The columns that, where they are NULL, make the part NULL."""
    return {node.name for node in part.tree.find_all(exp.Column) if _decides(node, part.tree)}


def _decides(node: exp.Expr, root: exp.Expr) -> bool:
    while node is not root:
        if node.parent is None or not isinstance(node.parent, _NULL_IF_ANY_IS):
            return False
        node = node.parent
    return isinstance(root, _NULL_IF_ANY_IS)


def _nulls(plan: Plan) -> set[str]:
    """The columns that are NULL in every row."""
    return {named.name for named in plan.columns if _is_null(named.expr.tree)} if isinstance(plan, Project) else set()


def _is_null(tree: exp.Expr) -> bool:
    while isinstance(tree, exp.Cast | exp.Paren):
        tree = tree.this
    return isinstance(tree, exp.Null)
