from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from millstream.plan.comparison import Comparing, comparing
from millstream.plan.expression import Expr, Named, column
from millstream.plan.logical import Aggregate, Comparison, Filter, Join, Match, Plan, Project, Threshold, TopK
from millstream.plan.python_function import calls_python
from millstream.plan.rules.conditions import filtered, parts

_COMPARISONS: dict[type[exp.Expr], Comparison] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}


def follow_threshold(plan: Plan) -> Plan:
    """Rows that are only compared with the one row beside them are kept in order: when that one changes, the others are not looked at.

        Project a                                 Project a
        └─ Filter x > y AND p                     └─ Filter p
           └─ Join                         =>        └─ Threshold x > y
              ├─ l (a, x)                               ├─ l
              └─ r (y), one row for each key            └─ r

    With or without a projection below the filter.  Fires only if:
      (1) the right side has at most one row for each key: it is an aggregate by these, or the first row of each.
      (2) parts of the condition compare something of the left with something of the right by <, <=, > or >=, and nothing else
          reads the right.  Several of them become one threshold behind the other.
      (3) what is compared has a fixed width, and no Python function works it out: it would be called for more rows.
    """
    match plan:
        case Project(Filter(Join() as join, predicate), columns):
            return _found(join, predicate, columns) or plan
        case Project(Filter(Project(Join() as join, lower), predicate), columns):
            meaning = {named.name: named.expr for named in lower}
            merged = [Named(named.name, named.expr.substitute(meaning)) for named in columns]
            return _found(join, predicate.substitute(meaning), merged) or plan
        case _:
            return plan


def _found(join: Join, predicate: Expr, columns: Sequence[Named]) -> Plan | None:
    if not _has_one_row(join.right, {key.right for key in join.keys}):
        return None  # (1)
    theirs = set(join.right.schema.names)
    beside = [part for part in parts(predicate) if part.columns & theirs]
    compared = [sides for part in beside if (sides := _sides(join, part)) is not None]
    if not beside or len(compared) < len(beside) or any(named.expr.columns & theirs for named in columns):
        return None  # (2)
    if any(not _has_fixed_width(side.type) or calls_python(side.tree) for sides in compared for side in (sides.left, sides.right)):
        return None  # (3)
    rest = [part for part in parts(predicate) if not part.columns & theirs]
    kept = [*(named.expr for named in columns), *rest]
    plan = join.left
    for i, sides in enumerate(compared):
        exprs = [*kept, *(later.left for later in compared[i + 1 :])]
        read = {name for expr in exprs for name in expr.columns} | {key.left for key in join.keys}
        left, ours = _with(plan, sorted(read), sides.left, "_compared")
        right, bound = _with(join.right, [key.right for key in join.keys], sides.right, "_threshold")
        plan = Threshold(left, right, join.keys, Match(ours, _COMPARISONS[sides.kind], bound))
    return Project(filtered(plan, rest), tuple(columns))


def _has_one_row(plan: Plan, keys: set[str]) -> bool:
    """Or none, for each value of these columns."""
    match plan:
        case Aggregate():
            return set(plan.keys) <= keys
        case TopK():
            return plan.limit <= 1 and set(plan.partition_by) <= keys
        case Filter():
            return _has_one_row(plan.input, keys)
        case Project():
            return _has_one_row(plan.input, {next(iter(n.expr.columns)) for n in plan.columns if n.name in keys and n.expr.is_column})
        case Threshold():
            return _has_one_row(plan.left, keys)
        case _:
            return False


def _sides(join: Join, part: Expr) -> Comparing | None:
    """What the part compares, that of the left first."""
    compared = comparing(part)
    if compared is None or compared.kind not in _COMPARISONS:
        return None
    if not compared.left.columns <= set(join.left.schema.names):
        compared = compared.turned
    ours, theirs = compared.left.columns, compared.right.columns
    return compared if ours and ours <= set(join.left.schema.names) and theirs <= set(join.right.schema.names) else None


def _has_fixed_width(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_) or pa.types.is_decimal(type_))


def _with(plan: Plan, names: Sequence[str], value: Expr, new: str) -> tuple[Plan, str]:
    """These columns of the plan and the value, and what it is called: `new` if it is computed."""
    kept = [Named(name, column(name, plan.schema[name].type)) for name in names]
    if value.is_column:
        (name,) = value.columns
        return Project(plan, tuple(kept if name in names else [*kept, Named(name, value)])), name
    while new in plan.schema:
        new += "_"
    return Project(plan, (*kept, Named(new, value))), new
