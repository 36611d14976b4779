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
    raise NotSupported(f'"{node.sql(dialect="spark")}" is not supported here')


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
