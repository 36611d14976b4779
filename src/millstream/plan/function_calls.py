"""Calls of Python functions, taken out of the expressions that DuckDB evaluates.

    size > 1 AND vip(upper(sym))        call  _call0 := vip(upper("sym")), where size > 1 is not false
                                        then  "size" > 1 AND "_call0"

A call becomes a column that is computed before the expression, innermost calls first.  CASE, AND and OR call a function
only for the rows that get there: a condition before it protects it from values that it cannot take.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from millstream.plan.duckdb_sql import operands, render, to_duckdb
from millstream.plan.expression import Expr
from millstream.plan.physical import ComputedColumn, FunctionCall
from millstream.plan.python_function import PythonCall, call_at, calls_python

_Conditions = tuple[str, ...]
"""SQL; a row gets to a place if all of them are true."""


def without_calls(exprs: Sequence[Expr], columns: Collection[str]) -> tuple[list[str], tuple[FunctionCall, ...]]:
    """The expressions as DuckDB evaluates them, and the calls whose results they read.  `columns` are those of the input."""
    calls = _Calls(columns)
    return [calls.taken_out(expr) for expr in exprs], tuple(calls.found)


class _Calls:
    def __init__(self, columns: Collection[str]) -> None:
        self._prefix = "_call"
        while any(name.lower().startswith(self._prefix) for name in columns):
            self._prefix += "_"
        self.found: list[FunctionCall] = []

    def taken_out(self, expr: Expr) -> str:
        if not calls_python(expr.tree):
            return to_duckdb(expr)
        return render(self._walk(expr.tree.copy(), ()))

    def _walk(self, node: exp.Expr, reached: _Conditions) -> exp.Expr:
        """`node`, or what stands for it, without calls; changes the tree in place."""
        if not calls_python(node):
            return node
        call = call_at(node)
        if call is not None:
            return self._column(node, call, reached)
        match node:
            case exp.Case():
                self._case(node, reached)
            case exp.And() | exp.Or():
                left = self._walk(node.this, reached)
                node.set("this", left)
                goes_on = f"coalesce({render(left)}, TRUE)" if isinstance(node, exp.And) else f"NOT {_holds(left)}"
                node.set("expression", self._walk(node.expression, (*reached, goes_on)))
            case _:
                for operand in operands(node):
                    new = self._walk(operand, reached)
                    if new is not operand:
                        operand.replace(new)
        return node

    def _case(self, node: exp.Case, reached: _Conditions) -> None:
        for branch in node.args["ifs"]:
            condition = self._walk(branch.this, reached)
            branch.set("this", condition)
            branch.set("true", self._walk(branch.args["true"], (*reached, _holds(condition))))
            reached = (*reached, f"NOT {_holds(condition)}")
        if node.args.get("default") is not None:
            node.set("default", self._walk(node.args["default"], reached))

    def _column(self, node: exp.Expr, call: PythonCall, reached: _Conditions) -> exp.Column:
        arguments = tuple(
            ComputedColumn(f"a{i}", render(self._walk(argument, reached)), type_)
            for i, (argument, type_) in enumerate(zip(node.expressions, call.argument_types, strict=True))
        )
        when = " AND ".join(f"({condition})" for condition in reached) or None
        same = [found.name for found in self.found if (found.function, found.arguments, found.when) == (call.function, arguments, when)]
        if not same:
            self.found.append(FunctionCall(f"{self._prefix}{len(self.found)}", call.function, arguments, when))
        return exp.column(exp.to_identifier(same[0] if same else self.found[-1].name, quoted=True))


def _holds(condition: exp.Expr) -> str:
    return f"coalesce({render(condition)}, FALSE)"
