"""A bound expression as the SQL text that DuckDB evaluates in the workers.

The binder knows the types, so it is the binder that decides what DuckDB has to do: it leaves a template
on each node of the tree (`lowered`), with `{0}`, `{1}` ... for the node's operands from left to right.
Here the templates are filled in, from the leaves up; columns, connectives and CASE need none.

    a + 1        Add[TRY({0} + {1})](a, 1[1])        TRY("a" + 1)

How a type is kept while DuckDB works on it (`duckdb_type`): timestamps are naive and in UTC, day-time
intervals are microseconds in a BIGINT, year-month intervals are months in an INTEGER.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import InternalError, NotSupported
from millstream.core.schema import INTERVAL, TIMESTAMP, TIMESTAMP_NTZ
from millstream.plan.expression import Expr

MONTHS = pa.month_day_nano_interval()
"""A year-month interval.  It lives inside expressions only: no column of ours has this type."""

_TEMPLATE = "duckdb"
_WITHOUT_TEMPLATE = (exp.Column, exp.Paren, exp.Not, exp.And, exp.Or, exp.Case)

_LONGEST = 1_000_000
"""Characters.  Some templates need an operand more than once, so nesting them makes the text grow fast."""

_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP", TIMESTAMP_NTZ: "TIMESTAMP", INTERVAL: "BIGINT", MONTHS: "INTEGER", pa.null(): "INTEGER",
}  # fmt: skip

Node = TypeVar("Node", bound=exp.Expr)


def lowered(node: Node, template: str) -> Node:
    """`node`, knowing what DuckDB has to do for it.  Literal braces are doubled in a template."""
    node.meta[_TEMPLATE] = template
    return node


def to_duckdb(expr: Expr) -> str:
    return render(expr.tree)


def duckdb_type(type_: pa.DataType) -> str:
    """The type in which DuckDB holds values of `type_`."""
    if type_ in _TYPES:
        return _TYPES[type_]
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return f"{duckdb_type(type_.value_type)}[]"
    if pa.types.is_map(type_):
        return f"MAP({duckdb_type(type_.key_type)}, {duckdb_type(type_.item_type)})"
    if pa.types.is_struct(type_):
        return "STRUCT(" + ", ".join(f"{quoted(field.name)} {duckdb_type(field.type)}" for field in type_) + ")"
    raise InternalError(f"DuckDB has no type for {type_}")


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string as a literal."""
    return "'" + value.replace("'", "''") + "'"


def in_template(sql: str) -> str:
    """SQL that is no template, made safe to stand inside one."""
    return sql.replace("{", "{{").replace("}", "}}")


def operands(node: exp.Expr) -> list[exp.Expr]:
    """The bound expressions that `node` computes with, from left to right; a type or a name is none."""
    return [child for child in node.iter_expressions() if _TEMPLATE in child.meta or isinstance(child, _WITHOUT_TEMPLATE)]


def variable(name: str) -> exp.Identifier:
    """A lambda's variable: not a column, so the expression's inputs do not include it."""
    return lowered(exp.to_identifier(name, quoted=True), in_template(quoted(name)))


def render(node: exp.Expr) -> str:
    template = node.meta.get(_TEMPLATE)
    if template is not None:
        sql = str(template).format(*map(render, operands(node)))
        if len(sql) > _LONGEST:
            raise NotSupported("the expression is too large", hint="Compute a part of it in a query of its own.")
        return sql
    match node:
        case exp.Column():
            return quoted(node.name)
        case exp.Paren():
            return render(node.this)
        case exp.Not():
            return f"(NOT {render(node.this)})"
        case exp.And() | exp.Or():
            word = " AND " if isinstance(node, exp.And) else " OR "
            return "(" + word.join(map(render, node.flatten(unnest=False))) + ")"
        case exp.Boolean():
            return "TRUE" if node.this else "FALSE"
        case exp.Case():
            return _render_case(node)
    raise InternalError(f"not a bound expression: {node.sql(dialect='spark')}")


def _render_case(node: exp.Case) -> str:
    branches = " ".join(f"WHEN {render(branch.this)} THEN {render(branch.args['true'])}" for branch in node.args["ifs"])
    default = node.args.get("default")
    return f"CASE {branches}{f' ELSE {render(default)}' if default is not None else ''} END"
