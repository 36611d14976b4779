"""Aggregates of random SQL: expressions over a group, of each kind.

What Spark SQL and DuckDB call differently is written in two ways.  Nothing here depends on the order of rows, but what min_by and
max_by choose among ties: their first argument is a function of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from property.sql_windows import Column

if TYPE_CHECKING:
    from property.sql_queries import Writer

Aggregate = Callable[["Writer", Sequence[Column]], str]


def _call(function: str, kind: str) -> Aggregate:
    return lambda w, scope: f"{function}({w.value(kind, scope)})"


def _count(w: Writer, scope: Sequence[Column]) -> str:
    columns = [column.name for column in scope]
    return f"count({w.one_of(columns)})" if columns and w.maybe() else "count(*)"


def _over(text: str, *parts: Aggregate) -> Aggregate:
    return lambda w, scope: text.format(*(part(w, scope) for part in parts))


def _extremes(kind: str) -> list[Aggregate]:
    return [_call("min", kind), _call("max", kind)]


def _filtered(aggregate: Aggregate) -> Aggregate:
    return lambda w, scope: f"{aggregate(w, scope)} FILTER (WHERE {w.condition(scope)})" if w.once_in(4) else aggregate(w, scope)


def _distinct(function: str, kind: str) -> Aggregate:
    return _filtered(lambda w, scope: f"{function}(DISTINCT {w.value(kind, scope)})")


def _by(kind: str, of: str) -> Aggregate:
    """`of` is an expression of {0}, by which the row is chosen."""

    def written(w: Writer, scope: Sequence[Column]) -> str:
        by = w.value(kind, scope, 0)
        least = w.maybe()
        function = w.either("min_by", "arg_min_null") if least else w.either("max_by", "arg_max_null")
        return f"{function}({of.format(by)}, {by})"

    return _filtered(written)


def _collected(kind: str) -> Aggregate:
    def written(w: Writer, scope: Sequence[Column]) -> str:
        value = w.value(kind, scope)
        words, distinct = w.one_of([("collect_list", ""), ("collect_set", "DISTINCT ")])
        where = f" FILTER (WHERE {w.condition(scope)})" if w.once_in(4) else ""
        listed = f"list({distinct}{value}){where}"
        return w.either(f"array_join(sort_array({words}({value}){where}), ' ')", f"coalesce(array_to_string(list_sort({listed}), ' '), '')")

    return written


AGGREGATES: dict[str, Sequence[Aggregate]] = {
    "int": [
        _filtered(_count), _filtered(_call("sum", "int")), *_extremes("int"), _over("coalesce({0}, 0) + {1}", _call("sum", "int"), _count),
        _over("{0} % 3", _call("sum", "int")), _distinct("count", "int"), _distinct("count", "text"), _distinct("sum", "int"),
        _filtered(_call("bit_and", "int")), _filtered(_call("bit_or", "int")), _filtered(_call("bit_xor", "int")),
        _by("int", "nullif({0}, 1)"), _by("text", "length({0})"),
    ],
    "text": [
        *_extremes("text"), _over("coalesce({0}, 'c')", _call("max", "text")), _by("text", "upper({0})"),
        _collected("int"), _collected("text"),
    ],
    "decimal": [*_extremes("decimal"), _filtered(_call("sum", "decimal")), _distinct("sum", "decimal")],
    "double": [*_extremes("double"), _filtered(_call("sum", "double")), _distinct("sum", "double"), _by("double", "{0} + 1")],
    "time": _extremes("time"),
    "bool": [
        _over("{0} > 1", _count), _over("{0} >= 2", _call("sum", "int")), _over("{0} <> 'a'", _call("min", "text")),
        _filtered(_call("bool_and", "bool")), _filtered(_call("bool_or", "bool")),
    ],
    "mean": [
        _filtered(_call("avg", "int")), _call("avg", "double"), _call("max", "mean"), _distinct("avg", "int"),
        _filtered(_call("median", "int")), _filtered(_call("var_pop", "int")), _filtered(_call("variance", "int")),
        _call("stddev", "double"), _distinct("stddev_pop", "int"),
    ],
}  # fmt: skip
