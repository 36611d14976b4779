"""Function calls and type names as the parser leaves them, in one form: the name that was written, and the arguments.

sqlglot gives many functions a class of their own and rearranges their arguments.  Binding goes by Spark's names,
so what the parser has rearranged is written out in Spark's dialect again and read with every function left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.core.schema import type_from_name
from millstream.plan.duckdb_sql import MONTHS

_SPECIAL_FORMS = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM")


class SparkCalls(Spark):
    """Spark's dialect, with functions read as they are written."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = [*Spark.Tokenizer.STRING_ESCAPES, "'"]  # 'it''s'

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
        FUNCTION_PARSERS = {name: rule for name, rule in SparkParser.FUNCTION_PARSERS.items() if name in _SPECIAL_FORMS}


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
        case exp.Transform():
            return "transform", [node.this, node.expression]
        case exp.Func():
            return _reread(node)
    raise NotSupported(f'"{node.sql(dialect="spark")}" is not supported here')


def _present(node: exp.Expr, *names: str) -> list[exp.Expr]:
    return [node.args[name] for name in names if node.args.get(name) is not None]


def _trim(node: exp.Trim) -> tuple[str, list[exp.Expr]]:
    side = str(node.args.get("position") or "BOTH").upper()
    return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), _present(node, "expression", "this")


def _reread(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    again: exp.Expr = exp.maybe_parse(node.sql(dialect="spark"), dialect=SparkCalls)
    if isinstance(again, exp.Anonymous):
        return again.name, again.expressions
    raise NotSupported(f'"{node.sql(dialect="spark")}" is not supported here')


def declared_type(node: exp.DataType) -> pa.DataType:
    """The type in a CAST."""
    name = node.sql(dialect="spark")
    if "YEAR" in name.upper() and name.upper().startswith("INTERVAL"):
        return MONTHS
    try:
        return type_from_name(name)
    except ValueError as error:
        raise TypeMismatch(str(error)) from None
