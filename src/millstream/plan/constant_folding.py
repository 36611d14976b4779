"""The parts of an expression that read no column, computed once; what they decide then falls away.

    size > 60 * 60 AND 1 < 2            "size" > 3600
    CASE WHEN 1 > 2 THEN a ELSE b END   b

The values come from DuckDB itself, through the same translation that workers use, so a folded expression gives what it
would have given: the same type, the same NULL where something fails.  A part is left alone if its value cannot be
written down exactly (arrays, maps, structs), or if it calls Python.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache

import duckdb
from sqlglot import exp

from millstream.plan.duckdb_connection import DuckDb
from millstream.plan.duckdb_sql import in_template, lowered, operands, render, text
from millstream.plan.expression import Expr
from millstream.plan.python_function import call_at, calls_python

_DUCKDB = DuckDb()
_ALONE = threading.Lock()
_NUMBERS = re.compile(r"TINYINT|SMALLINT|INTEGER|BIGINT|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)")
_OTHERS = {"BOOLEAN", "VARCHAR", "BLOB", "DATE", "TIMESTAMP"}


def folded(expr: Expr) -> Expr:
    """`expr` itself if there is nothing to compute beforehand."""
    if not expr.deterministic:
        return expr
    tree = _folded(expr.tree.copy())
    # what has fallen away may leave more that is constant: NOT (x OR TRUE)
    return expr if tree == expr.tree else folded(Expr(tree, expr.type))


def truth(tree: exp.Expr) -> bool | None:
    """Whether it is the constant TRUE (True), or FALSE or NULL, which a condition takes for the same (False); None: neither."""
    match tree:
        case exp.Boolean():
            return bool(tree.this)
        case exp.Null():
            return False
        case _:
            return None


def _folded(node: exp.Expr) -> exp.Expr:
    """`node`, or what stands for it; changes the tree in place."""
    if not _is_leaf(node) and _is_constant(node):
        value = _literal(render(node))
        if value is not None:
            return value
    match node:
        case exp.Case():
            return _folded_case(node)
        case exp.And() | exp.Or():
            return _folded_connective(node)
        case exp.Paren():
            inner = _folded(node.this)
            if _is_leaf(inner):
                return inner
            node.set("this", inner)
        case _:
            for operand in operands(node):
                new = _folded(operand)
                if new is not operand:
                    operand.replace(new)
    return node


def _is_leaf(node: exp.Expr) -> bool:
    return not isinstance(node, exp.Case) and not operands(node)


def _is_constant(node: exp.Expr) -> bool:
    match node:
        case exp.Column() | exp.Identifier():  # an identifier is the variable of a lambda
            return False
        case exp.Case():
            return all(map(_is_constant, _parts_of_case(node)))
        case _:
            return call_at(node) is None and all(map(_is_constant, operands(node)))


def _parts_of_case(node: exp.Case) -> list[exp.Expr]:
    parts = [part for branch in node.args["ifs"] for part in (branch.this, branch.args["true"])]
    return [*parts, node.args["default"]] if node.args.get("default") is not None else parts


def _folded_connective(node: exp.And | exp.Or) -> exp.Expr:
    """x AND TRUE is x, x AND FALSE is FALSE; x OR FALSE is x, x OR TRUE is TRUE.  NULL stays: it decides nothing."""
    left, right = _folded(node.this), _folded(node.expression)
    neutral = isinstance(node, exp.And)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, exp.Boolean) and bool(one.this) == neutral:
            return other
        if isinstance(one, exp.Boolean) and not calls_python(other):  # else its failure would go unnoticed
            return one
    node.set("this", left)
    node.set("expression", right)
    return node


def _folded_case(node: exp.Case) -> exp.Expr:
    """Branches that are never taken go; one that always is ends the CASE."""
    default = node.args.get("default")
    kept = []
    for branch in node.args["ifs"]:
        condition = _folded(branch.this)
        match truth(condition):
            case True:
                default = branch.args["true"]
                break
            case None:
                kept.append(exp.If(this=condition, true=_folded(branch.args["true"])))
    if default is None and not kept:
        return node  # NULL, but of a type that only its branches tell
    default = None if default is None else _folded(default)
    if kept:
        return exp.Case(ifs=kept, default=default)
    assert default is not None
    return default


# --- values -----------------------------------------------------------------------------------


def _literal(sql: str) -> exp.Expr | None:
    """The value of a constant as a leaf of a bound tree; None if it cannot be written down."""
    found = _value(sql)
    if found is None:
        return None
    type_, value = found
    if value is None:
        return lowered(exp.Null(), f"CAST(NULL AS {type_})")
    template = in_template(f"CAST({text(value)} AS {type_})")
    if type_ == "BOOLEAN":
        return lowered(exp.Boolean(this=value == "true"), "TRUE" if value == "true" else "FALSE")
    if type_ == "VARCHAR":
        return lowered(exp.Literal.string(value), template)
    if _NUMBERS.fullmatch(type_) and re.fullmatch(r"[-+.e\d]+", value):
        return lowered(exp.Literal.number(value), template)
    shown = "STRING" if type_ == "BLOB" else type_
    return lowered(exp.Cast(this=exp.Literal.string(value), to=exp.DataType.build(shown, dialect="duckdb")), template)


@lru_cache(maxsize=1024)
def _value(sql: str) -> tuple[str, str | None] | None:
    """DuckDB's type of the value, and its text; None unless the text gives the very same value back."""
    try:
        with _ALONE:
            _DUCKDB.define_macros([sql])
            type_, value = _row(f"SELECT typeof(v), CAST(v AS VARCHAR) FROM (SELECT {sql} AS v)")
            if type_ not in _OTHERS and not _NUMBERS.fullmatch(type_):
                return None
            if value is not None and _row(f"SELECT CAST(CAST({text(value)} AS {type_}) AS VARCHAR)") != (value,):
                return None
            return type_, value
    except duckdb.Error:  # the workers know what to do about a translation that lets failures through
        return None


def _row(sql: str) -> tuple[str, ...]:
    row: tuple[str, ...] | None = _DUCKDB.connection.execute(sql).fetchone()
    assert row is not None
    return row
