"""UNION, INTERSECT and EXCEPT, with and without ALL, as plans of joins, groups and unions.

    a UNION ALL b       Union(a, b)
    a UNION b           its rows, each once
    a INTERSECT b       the rows of a, each once, that b has too: a join of both, each row once
    a EXCEPT b          the rows of a, each once, less those of the intersection
    ... ALL             how often each side has a row; the lesser number, or the difference, of copies of it

Where operators learn the time from what arrives, it matters which copy of a row is meant, and there are nodes of their own, `copy_by_copy`:
INTERSECT ALL and EXCEPT ALL, and the forms without ALL are the same of the rows of both sides, each once.

Rows are equal as in GROUP BY: NULL equals NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ArityMismatch, TypeMismatch
from millstream.language.bound_select import BoundSelect
from millstream.language.coercion import named, widened
from millstream.language.join_binder import only
from millstream.language.scalar_casts import cast
from millstream.language.scope import Visible
from millstream.language.spans import span_of
from millstream.language.typed import bind_over
from millstream.plan.expression import Expr, Named, column
from millstream.plan.logical import Aggregate, AggregateCall, Filter, Join, JoinKey, Negate, Plan, Project, Repeat, SetOperation, Union

_COPIES, _MINE, _THEIRS = "_copies", "_mine", "_theirs"


def combined(tree: exp.SetOperation, left: BoundSelect, right: BoundSelect, sql: str, *, copy_by_copy: bool = False) -> BoundSelect:
    """Columns have the names of the left and types that hold the values of both."""
    columns = _columns(tree, left, right, sql)
    one, other = (_as_columns(side, columns) for side in (left, right))
    every = not tree.args.get("distinct")
    if not every or not isinstance(tree, exp.Union):
        _refuse_maps(tree, columns, sql)
    match tree:
        case exp.Union():
            plan: Plan = Union((one, other))
            plan = plan if every else distinct(plan, copy_by_copy=copy_by_copy)
        case exp.Intersect() | exp.Except() if copy_by_copy:
            sides = (one, other) if every else (distinct(one, copy_by_copy=True), distinct(other, copy_by_copy=True))
            plan = SetOperation("intersect" if isinstance(tree, exp.Intersect) else "except", sides)
        case exp.Intersect():
            plan = _least(one, other) if every else _in_both(one, other)
        case exp.Except():
            plan = _difference(one, other) if every else Union((distinct(one), Negate(_in_both(one, other))))
        case _:
            raise AssertionError(f"{type(tree).__name__} is no set operation")
    grows_only = left.grows_only and right.grows_only and not isinstance(tree, exp.Except)
    mixes_rows = left.mixes_rows or right.mixes_rows or not every or not isinstance(tree, exp.Union)
    return BoundSelect(plan, columns, left.has_window or right.has_window, grows_only, mixes_rows)


def _columns(tree: exp.SetOperation, left: BoundSelect, right: BoundSelect, sql: str) -> tuple[Visible, ...]:
    word = type(tree).__name__.upper()
    if len(left.columns) != len(right.columns):
        raise ArityMismatch(
            f"the sides of {word} have {len(left.columns)} and {len(right.columns)} columns",
            hint="Both sides have the same number of columns.", span=span_of(tree.expression) or span_of(tree), sql=sql,
        )  # fmt: skip
    columns = []
    for i, (one, other) in enumerate(zip(left.columns, right.columns, strict=True)):
        type_ = widened([one.type, other.type])
        if type_ is None:
            raise TypeMismatch(
                f"column {i + 1} of {word} is {named(one.type)} on the left and {named(other.type)} on the right",
                hint="Cast one of them.", span=span_of(tree.expression) or span_of(tree), sql=sql,
            )  # fmt: skip
        columns.append(Visible(one.name, one.column, type_))
    return tuple(columns)


def _as_columns(side: BoundSelect, columns: Sequence[Visible]) -> Plan:
    return Project(
        side.plan,
        tuple(
            Named(visible.column, cast(column(own.column, own.type), visible.type))
            for own, visible in zip(side.columns, columns, strict=True)
        ),
    )


def _refuse_maps(tree: exp.SetOperation, columns: Sequence[Visible], sql: str) -> None:
    for visible in columns:
        if pa.types.is_map(visible.type):
            word = type(tree).__name__.upper()
            raise TypeMismatch(f'{word} cannot compare the MAP "{visible.name}"', span=span_of(tree.expression) or span_of(tree), sql=sql)


def distinct(plan: Plan, *, copy_by_copy: bool = False) -> Plan:
    if copy_by_copy:
        return SetOperation("distinct", (plan,))
    return Aggregate(plan, plan.schema.names, ())


def _in_both(left: Plan, right: Plan) -> Plan:
    return only(_matched(distinct(left), distinct(right)), left.schema.names)


def _least(left: Plan, right: Plan) -> Plan:
    both = _matched(_counted(left, _MINE), _counted(right, _THEIRS))
    least = _value(exp.Anonymous(this="least", expressions=[_reference(_MINE), _reference(_other(_THEIRS))]), both)
    copies = Project(both, (*_kept(left), Named(_COPIES, least)))
    return Repeat(copies, _COPIES)


def _difference(left: Plan, right: Plan) -> Plan:
    one = exp.Literal.number(1)
    more, less = (
        Project(side, (*_kept(side), Named(_MINE, cast(_value(number, side), pa.int64()))))
        for side, number in ((left, one), (right, exp.Neg(this=one.copy())))
    )
    balance = Aggregate(Union((more, less)), left.schema.names, (AggregateCall(_COPIES, "sum", _MINE, pa.int64()),))
    more_here = _value(exp.GT(this=_reference(_COPIES), expression=exp.Literal.number(0)), balance)
    return Repeat(Filter(balance, more_here), _COPIES)


def _counted(plan: Plan, name: str) -> Plan:
    return Aggregate(plan, plan.schema.names, (AggregateCall(name, "count", None, pa.int64()),))


def _matched(left: Plan, right: Plan) -> Join:
    """Equal rows of both sides beside one another; the columns of the right under other names."""
    renamed = Project(right, tuple(Named(_other(field.name), column(field.name, field.type)) for field in right.schema))
    shared = [name for name in left.schema.names if name in right.schema]
    return Join(left, renamed, tuple(JoinKey(name, _other(name), null_safe=True) for name in shared))


def _other(name: str) -> str:
    return f"_other_{name}"


def _kept(plan: Plan) -> tuple[Named, ...]:
    return tuple(Named(field.name, column(field.name, field.type)) for field in plan.schema)


class _Typed:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def type_of(self, column: exp.Column) -> tuple[str, pa.DataType]:
        return column.name, self._plan.schema[column.name].type


def _value(tree: exp.Expr, plan: Plan) -> Expr:
    """An expression of ours over the plan's columns."""
    return bind_over(tree, _Typed(plan), "")


def _reference(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))
