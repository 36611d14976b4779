"""Python functions of a database in the text of a query: which names they may have, and which calls mean them.

A call in the syntax tree is marked with its function before the tree is bound, so binding needs no other catalog than the
tree itself.  The tree then also knows the other functions, for the hint about a name that nobody has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from millstream.core.errors import AlreadyExists, MillstreamError, NotSupported, ParseError, TypeMismatch
from millstream.language.coercion import holds
from millstream.language.functions import Call, Function
from millstream.language.functions_known import AGGREGATES, KNOWN, VOLATILE
from millstream.language.functions_lambda import HIGHER_ORDER
from millstream.language.functions_table import BY_NAME
from millstream.language.parser import parse_one
from millstream.language.statements import Select
from millstream.plan.duckdb_sql import MONTHS
from millstream.plan.expression import Expr
from millstream.plan.python_function import PythonCall, PythonFunction, with_call

_FUNCTION, _NAMES = "python_function", "python_functions"

Functions = Mapping[str, PythonFunction]
"""By lower-case name."""


def check_function_name(name: str) -> None:
    """A word that the parser reads as a function, and that Spark SQL has none for."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ParseError(f'"{name}" cannot be the name of a function', hint="Use letters, digits and underscores.")
    lower = name.lower()
    if any(lower in known for known in (BY_NAME, HIGHER_ORDER, KNOWN, VOLATILE, AGGREGATES)):
        raise AlreadyExists(f'there is a function "{lower}" in SQL already', hint="Choose another name.")
    try:
        statement = parse_one(f"SELECT {name}(a) FROM t")
    except MillstreamError:
        statement = None
    call = statement.select.expressions[0] if isinstance(statement, Select) else None
    if not isinstance(call, exp.Anonymous) or call.name.lower() != lower:
        raise ParseError(f'"{name}" is a word of SQL and cannot be the name of a function', hint="Choose another name.")


def with_functions(tree: exp.Expr, functions: Functions) -> exp.Expr:
    """`tree` with its calls of these functions marked; the tree itself if there are none to call."""
    if not functions:
        return tree
    tree = tree.copy()
    for node in tree.find_all(exp.Anonymous):
        node.meta[_NAMES] = tuple(function.name for function in functions.values())
        if node.name.lower() in functions:
            node.meta[_FUNCTION] = functions[node.name.lower()]
    return tree


def functions_in(tree: exp.Expr, functions: Functions) -> dict[str, PythonFunction]:
    """Those of the functions that `tree` calls, by lower-case name."""
    names = {node.name.lower() for node in tree.find_all(exp.Anonymous)}
    return {name: function for name, function in functions.items() if name in names}


def function_at(node: exp.Expr) -> Function | None:
    """What a marked call means."""
    function = node.meta.get(_FUNCTION)
    if function is None:
        return None
    assert isinstance(function, PythonFunction)
    return Function((function.name,), function.least, function.most, lambda call: _bound(function, call))


def other_functions(node: exp.Expr) -> Sequence[str]:
    """The names of the database's functions."""
    return tuple(node.meta.get(_NAMES, ()))


def _bound(function: PythonFunction, call: Call) -> Expr:
    if not function.deterministic:
        raise NotSupported(
            f"{function.name} is not supported: it was declared to give another value each time",
            hint="An answer may depend on the data alone.",
        )
    if any(holds(type_, MONTHS) for type_ in call.types):
        raise TypeMismatch(f"{function.name} cannot take a length of time in months", hint="Add it to a date or a timestamp.")
    # a template like that of any other function: the planner takes the call out before DuckDB could see it
    tree = call.gives(function.type, f"{function.name}({', '.join(f'{{{i}}}' for i in range(len(call.args)))})").tree
    assert isinstance(tree, exp.Anonymous)
    return Expr(with_call(tree, PythonCall(function, call.types)), function.type)
