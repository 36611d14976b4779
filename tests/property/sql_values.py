"""Expressions of random SQL: literals, values and conditions over the columns of a row, of each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from property.sql_windows import Column

if TYPE_CHECKING:
    from property.sql_queries import Writer

Scope = Sequence[Column]  # `name` is how an expression names the column
Value = Callable[["Writer", Scope, int], str]


def _pattern(text: str, *kinds: str) -> Value:
    """{0}, {1}, ... are values of the kinds."""
    return lambda w, scope, depth: text.format(*(w.value(kind, scope, depth) for kind in kinds))


def comparison(w: Writer, scope: Scope, depth: int) -> str:
    kind = w.one_of(sorted({column.kind for column in scope if column.kind not in ("bool", "mean")}) or ["int"])
    one = w.value(kind, scope, depth)
    others = [column for column in scope if column.name != one]
    return f"{one} {w.one_of(['=', '<>', '<', '<=', '>', '>=', '{same}'])} {w.value(kind, others, 0)}"


def _null_test(w: Writer, scope: Scope, depth: int) -> str:
    kind = w.one_of(sorted({column.kind for column in scope if column.kind != "bool"}) or ["int"])
    return f"{w.value(kind, scope, depth)} IS {w.one_of(['', 'NOT '])}NULL"


def _connective(w: Writer, scope: Scope, depth: int) -> str:
    return f"({comparison(w, scope, depth)} {w.one_of(['AND', 'OR', 'OR'])} {w.one_of([_null_test, comparison])(w, scope, depth)})"


def _negation(w: Writer, scope: Scope, depth: int) -> str:
    return f"NOT ({comparison(w, scope, depth)})"


def choice(kind: str) -> Value:
    """Of two values, or of one and NULL where no column has this kind: something that differs from row to row."""

    def written(w: Writer, scope: Scope, depth: int) -> str:
        has_columns = any(column.kind == kind for column in scope)
        otherwise = f" ELSE {w.value(kind, scope, depth)}" if has_columns else ""
        return f"CASE WHEN {comparison(w, scope, depth)} THEN {w.value(kind, scope, depth)}{otherwise} END"

    return written


LITERALS: dict[str, Callable[[Writer], str]] = {
    "int": lambda w: str(w.number(0, 3)),
    "text": lambda w: w.one_of(["'a'", "'b'", "'c'"]),
    "decimal": lambda w: w.one_of(["1.50", "0.25"]),
    "double": lambda w: w.one_of(["CAST(0.5 AS DOUBLE)", "CAST(-1 AS DOUBLE)"]),
    "mean": lambda w: "CAST(0.25 AS DOUBLE)",
    "time": lambda w: f"{{timestamp}} '1970-01-01T00:00:00.{w.number(0, 12):06}Z'",
    "bool": lambda w: w.one_of(["TRUE", "TRUE", "TRUE", "FALSE"]),
}

VALUES: dict[str, Sequence[Value]] = {
    "int": [
        _pattern("{0} + 1", "int"), _pattern("{0} * 2", "int"), _pattern("({0} - {1})", "int", "int"), _pattern("{0} % 2", "int"),
        _pattern("-({0})", "int"), _pattern("abs({0})", "int"), _pattern("coalesce({0}, {1})", "int", "int"),
        _pattern("nullif({0}, 1)", "int"), _pattern("length({0})", "text"), choice("int"),
    ],
    "text": [
        _pattern("upper({0})", "text"), _pattern("({0} || 'b')", "text"), _pattern("coalesce({0}, {1})", "text", "text"),
        _pattern("substring({0}, 1, 1)", "text"), choice("text"),
    ],
    "decimal": [_pattern("({0} + 0.25)", "decimal"), _pattern("coalesce({0}, 1.50)", "decimal"), choice("decimal")],
    "double": [
        _pattern("({0} + {1})", "double", "int"), _pattern("coalesce({0}, {1})", "double", "double"),
        _pattern("CAST({0} AS DOUBLE)", "int"), choice("double"),
    ],
    "time": [choice("time")],
    "mean": [_pattern("({0} + 1)", "mean"), _pattern("CAST({0} AS DOUBLE)", "int")],
    "bool": [
        comparison, comparison, _null_test, _connective, _connective, _negation, _pattern("{0} IN (1, 3)", "int"),
        _pattern("{0} NOT IN ('a', 'c')", "text"), _pattern("{0} BETWEEN 1 AND 2", "int"), _pattern("{0} LIKE 'a%'", "text"),
    ],
}  # fmt: skip
