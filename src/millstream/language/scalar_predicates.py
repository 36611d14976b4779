"""Comparisons and other predicates: which types can be compared, and as what.

NaN equals NaN and is greater than any other number, in DuckDB as in Spark, so comparisons need no help there.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.language.coercion import (
    BOOLEAN,
    STRING,
    VOID,
    common_type,
    is_atomic,
    is_decimal,
    is_integral,
    is_map,
    is_nested,
    is_numeric,
    is_orderable,
    named,
    widened,
    wider_decimal,
)
from millstream.language.scalar_arithmetic import as_decimal
from millstream.language.scalar_casts import cast
from millstream.plan.comparison import compared_as
from millstream.plan.duckdb_sql import in_template, lowered, text
from millstream.plan.expression import Expr

_WORDS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip
COMPARISONS = tuple(_WORDS)


def comparison(kind: type[exp.Expr], left: Expr, right: Expr) -> Expr:
    left, right = comparable(left, right)
    if kind in (exp.LT, exp.LTE, exp.GT, exp.GTE):
        check_ordered(left.type)
    tree = compared_as(kind(this=left.tree, expression=right.tree), left.type)
    return Expr(lowered(tree, f"({{0}} {_WORDS[kind]} {{1}})"), BOOLEAN)


def check_ordered(type_: pa.DataType) -> None:
    """Refuses what has no order, and what is ordered otherwise by DuckDB: to Spark a NULL inside an array comes first."""
    if not is_orderable(type_):
        raise TypeMismatch(f"{named(type_)} has no order")
    if is_nested(type_):
        raise NotSupported(f"the order of {named(type_)} is not supported", hint="Compare the parts you mean.")


def comparable(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Both sides in the type in which they are compared."""
    type_ = comparison_type(left, right)
    return cast(left, type_), cast(right, type_)


def comparison_type(left: Expr, right: Expr) -> pa.DataType:
    if {is_decimal(left.type), is_decimal(right.type)} == {True, False} and all(
        is_decimal(side.type) or is_integral(side.type) for side in (left, right)
    ):
        return wider_decimal(as_decimal(left, right).type, as_decimal(right, left).type)
    both_nested = not is_atomic(left.type) and not is_atomic(right.type)
    type_ = common_type(left.type, right.type, from_text=not both_nested)
    if type_ is None or is_map(type_):
        raise TypeMismatch(f"cannot compare {named(left.type)} with {named(right.type)}")
    return type_


def membership(operand: Expr, items: list[Expr]) -> Expr:
    """operand IN (items)."""
    type_ = widened([operand.type, *(item.type for item in items)])
    if type_ is None or is_map(type_):
        wrong = next((item for item in items if common_type(operand.type, item.type) is None), items[0])
        raise TypeMismatch(f"cannot compare {named(operand.type)} with {named(wrong.type)}")
    tree = exp.In(this=cast(operand, type_).tree, expressions=[cast(item, type_).tree for item in items])
    listed = ", ".join(f"{{{i + 1}}}" for i in range(len(items)))
    return Expr(lowered(tree, f"({{0}} IN ({listed}))"), BOOLEAN)


def between(operand: Expr, low: Expr, high: Expr) -> Expr:
    """operand BETWEEN low AND high, each side compared in its own common type."""
    above = comparison(exp.GTE, operand, low)
    below = comparison(exp.LTE, Expr(operand.tree.copy(), operand.type), high)
    return Expr(exp.And(this=above.tree, expression=below.tree), BOOLEAN)


def boolean(operand: Expr, where: str, *, from_text: bool = False) -> Expr:
    """The operand as a condition.  Spark reads strings as truth values for NOT, AND and OR only (`from_text`)."""
    if operand.type == BOOLEAN:
        return operand
    if operand.type == VOID or (from_text and operand.type == STRING):
        return cast(operand, BOOLEAN)
    hint = "Compare it with something, as in x <> 0." if is_numeric(operand.type) else "Compare it, or ask whether it IS NOT NULL."
    raise TypeMismatch(f"{where} must be BOOLEAN, found {named(operand.type)}", hint=hint)


def is_null(operand: Expr) -> Expr:
    return Expr(lowered(exp.Is(this=operand.tree, expression=exp.Null()), "({0} IS NULL)"), BOOLEAN)


def is_truth(operand: Expr, *, truth: bool) -> Expr:
    operand = boolean(operand, "IS TRUE", from_text=True)
    word = "TRUE" if truth else "FALSE"
    return Expr(lowered(exp.Is(this=operand.tree, expression=exp.Boolean(this=truth)), f"({{0}} IS NOT DISTINCT FROM {word})"), BOOLEAN)


# --- text patterns ----------------------------------------------------------------------------


def as_text(operand: Expr, what: str) -> Expr:
    if not is_atomic(operand.type) and operand.type != VOID:
        raise TypeMismatch(f"{what} takes STRING, found {named(operand.type)}")
    return cast(operand, STRING)


def like(operand: Expr, pattern: Expr, escape: str, *, ignoring_case: bool) -> Expr:
    operand, pattern = as_text(operand, "LIKE"), as_text(pattern, "LIKE")
    if len(escape) != 1:
        raise TypeMismatch("the escape of LIKE must be one character")
    kind = exp.ILike if ignoring_case else exp.Like
    tree: exp.Expr = kind(this=operand.tree, expression=pattern.tree)
    if escape != "\\":
        tree = exp.Escape(this=tree, expression=exp.Literal.string(escape))
        lowered(tree.this, "{0}")
    word = "ILIKE" if ignoring_case else "LIKE"
    sql = f"TRY({{0}} {word} {{1}} ESCAPE {in_template(text(escape))})"
    if escape == "\\":
        return Expr(lowered(tree, sql), BOOLEAN)
    lowered(tree.this, sql)
    return Expr(lowered(tree, "{0}"), BOOLEAN)
