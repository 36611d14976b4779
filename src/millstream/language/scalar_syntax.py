"""Function calls and type names as the parser leaves them, in one form: a name, and the arguments in Spark's order.

Our dialect reads functions as they are written (`exp.Anonymous`); what has a syntax of its own, such as
`EXTRACT(year FROM ts)` or `a || b`, has a node of its own, and becomes a call here.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.core.schema import type_from_name
from millstream.plan.duckdb_sql import MONTHS


def call_of(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """The function's name and its arguments in the order in which Spark takes them."""
    match node:
        case exp.Anonymous():
            return node.name, node.expressions
        case exp.DPipe():
            return "concat", [node.this, node.expression]
        case exp.BitwiseLeftShift():
            return "shiftleft", [node.this, node.expression]
        case exp.BitwiseRightShift():
            return "shiftright", [node.this, node.expression]
        case exp.Extract():
            return "extract", [exp.Literal.string(node.this.name), node.expression]
        case exp.Substring():
            return "substring", _present(node, "this", "start", "length")
        case exp.StrPosition():
            return "locate", _present(node, "substr", "this", "position")
        case exp.Overlay():
            return "overlay", _present(node, "this", "expression", "from_", "for_")
        case exp.Trim():
            return _trim(node)
    if isinstance(node, exp.Tuple):
        raise NotSupported("several values in parentheses are not supported here", hint="Compare each by itself: a = 1 AND b = 2.")
    raise NotSupported(f'"{node.sql(dialect="spark")}" is not supported here')


_STRENGTH: dict[type[exp.Expr], int] = {
    exp.BitwiseLeftShift: 4, exp.BitwiseRightShift: 4, exp.BitwiseAnd: 3, exp.BitwiseXor: 2, exp.BitwiseOr: 1,
}  # fmt: skip


def by_strength(node: exp.Expr) -> exp.Expr:
    """A chain of bit operators, which sqlglot reads from left to right, as Spark reads it: shifts, then &, then ^, then |."""
    operators: list[type[exp.Expr]] = []
    operands: list[exp.Expr] = []
    while type(node) in _STRENGTH:
        operators.append(type(node))
        operands.append(node.expression)
        node = node.this
    operators.reverse()
    operands = [operand.copy() for operand in (node, *reversed(operands))]
    for strength in sorted(set(_STRENGTH.values()), reverse=True):
        position = 0
        while position < len(operators):
            if _STRENGTH[operators[position]] == strength:
                kind = operators.pop(position)
                operands[position : position + 2] = [kind(this=operands[position], expression=operands[position + 1])]
            else:
                position += 1
    return operands[0]


def _present(node: exp.Expr, *names: str) -> list[exp.Expr]:
    return [node.args[name] for name in names if node.args.get(name) is not None]


def _trim(node: exp.Trim) -> tuple[str, list[exp.Expr]]:
    side = str(node.args.get("position") or "BOTH").upper()
    return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), _present(node, "expression", "this")


def declared_type(node: exp.DataType) -> pa.DataType:
    """The type in a CAST."""
    name = node.sql(dialect="spark")
    if "YEAR" in name.upper() and name.upper().startswith("INTERVAL"):
        return MONTHS
    try:
        return type_from_name(name)
    except ValueError as error:
        raise TypeMismatch(str(error)) from None
