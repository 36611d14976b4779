"""Functions that take a function: `transform(a, x -> x + 1)`.

A lambda is bound when the types of its variables are known, that is after the arrays and maps it runs over.
Its variables are no columns: they stand in the tree as identifiers that know their SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.language.coercion import BOOLEAN, INT, common_type, is_array, is_map, named
from millstream.language.functions import Call
from millstream.language.scalar_casts import cast
from millstream.language.scalar_predicates import boolean
from millstream.plan.duckdb_sql import duckdb_type, lowered, variable
from millstream.plan.expression import Expr


@dataclass(frozen=True)
class Variable:
    """What a lambda's variable stands for: its type, and the SQL of its value over the DuckDB parameter `{name}`."""

    type: pa.DataType
    sql: str = "{name}"


BindBody = Callable[[exp.Lambda, Sequence[Variable], Sequence[str]], Expr]
"""Binds a lambda's body; the names are the DuckDB parameters that the variables read."""


class HigherOrder:
    """One call: the bound arguments that are no lambdas, and a way to bind those that are."""

    def __init__(self, name: str, args: Sequence[Expr | exp.Lambda], bind_body: BindBody, depth: int) -> None:
        self.name = name
        self.args = list(args)
        self._bind_body = bind_body
        self._depth = depth

    def value(self, position: int) -> Expr:
        arg = self.args[position] if position < len(self.args) else None
        if not isinstance(arg, Expr):
            raise TypeMismatch(f"{self.name}: argument {position + 1} must be a value")
        return arg

    def array(self, position: int = 0) -> Expr:
        arg = self.value(position)
        if not is_array(arg.type):
            raise TypeMismatch(f"{self.name} takes an array as argument {position + 1}, found {named(arg.type)}")
        return arg

    def map(self, position: int = 0) -> Expr:
        arg = self.value(position)
        if not is_map(arg.type):
            raise TypeMismatch(f"{self.name} takes a map as argument {position + 1}, found {named(arg.type)}")
        return arg

    def function(self, position: int, variables: Sequence[Variable], parameters: int | None = None) -> Expr:
        """The lambda at `position` over these variables (the last ones may be missing), as a DuckDB lambda of `parameters` parameters."""
        node = self.args[position] if position < len(self.args) else None
        if not isinstance(node, exp.Lambda):
            raise TypeMismatch(f"{self.name}: argument {position + 1} must be a function such as x -> x + 1")
        count = len(node.expressions)
        if count > len(variables):
            raise TypeMismatch(f"{self.name}: the function has {count} variables, at most {len(variables)} are given to it")
        names = [f"lambda_{self._depth}_{i}" for i in range(parameters or count)]
        body = self._bind_body(node, variables[:count], names)
        tree = exp.Lambda(this=body.tree, expressions=[variable(name) for name in names])
        listed = ", ".join(f"{{{i + 1}}}" for i in range(len(names)))
        return Expr(lowered(tree, f"lambda {listed}: {{0}}"), body.type)

    def gives(self, args: Sequence[Expr], type_: pa.DataType, template: str) -> Expr:
        return Call(self.name, tuple(args)).gives(type_, template)


_INDEX = Variable(INT, "CAST({name} - 1 AS INTEGER)")


def _transform(call: HigherOrder) -> Expr:
    array = call.array()
    function = call.function(1, [Variable(array.type.value_type), _INDEX])
    return call.gives([array, function], pa.list_(function.type), "list_transform({0}, {1})")


def _condition(call: HigherOrder, function: Expr) -> Expr:
    body = Expr(function.tree.this, function.type)
    if boolean(body, f"the function of {call.name}").type != function.type:
        raise NotSupported(f"{call.name}: the function must give BOOLEAN")
    return function


def _filter(call: HigherOrder) -> Expr:
    array = call.array()
    function = _condition(call, call.function(1, [Variable(array.type.value_type), _INDEX]))
    return call.gives([array, function], array.type, "list_filter({0}, {1})")


def _quantified(call: HigherOrder) -> Expr:
    """exists and forall, with SQL's third truth value."""
    array = call.array()
    function = _condition(call, call.function(1, [Variable(array.type.value_type)]))
    results = "list_transform({0}, {1})"
    decided, otherwise = ("TRUE", "FALSE") if call.name == "exists" else ("FALSE", "TRUE")
    return call.gives(
        [array, function],
        BOOLEAN,
        f"CASE WHEN {{0}} IS NULL THEN NULL WHEN list_contains({results}, {decided}) THEN {decided}"
        f" WHEN list_count({results}) < len({results}) THEN NULL ELSE {otherwise} END",
    )


def _aggregate(call: HigherOrder) -> Expr:
    """aggregate(array, start, (acc, x) -> ..., acc -> ...)."""
    array, start = call.array(), call.value(1)
    merged = call.function(2, [Variable(start.type), Variable(array.type.value_type)])
    if merged.type != start.type:
        type_ = common_type(start.type, merged.type)
        if type_ is None or type_ == start.type:
            raise TypeMismatch(f"{call.name}: the function gives {named(merged.type)}, the start is {named(start.type)}")
        start = cast(start, type_)
        merged = call.function(2, [Variable(type_), Variable(array.type.value_type)])
        if merged.type != type_:
            raise TypeMismatch(f"{call.name}: the function gives {named(merged.type)}, the start is {named(type_)}")
    reduced = "list_reduce({0}, {2}, {1})"
    if len(call.args) < 4:
        return call.gives([array, start, merged], start.type, reduced)
    finish = call.function(3, [Variable(start.type)])
    body = f"CASE WHEN {{0}} IS NOT NULL THEN list_transform([{reduced}], {{3}})[1] END"
    return call.gives([array, start, merged, finish], finish.type, body)


def _zip_with(call: HigherOrder) -> Expr:
    left, right = call.array(0), call.array(1)
    variables = [Variable(left.type.value_type, "{name}[1]"), Variable(right.type.value_type, "{name}[2]")]
    function = call.function(2, variables, parameters=1)
    body = "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE list_transform(list_zip({0}, {1}), {2}) END"
    return call.gives([left, right, function], pa.list_(function.type), body)


def _entry(source: Expr) -> list[Variable]:
    return [Variable(source.type.key_type, "{name}.key"), Variable(source.type.item_type, "{name}.value")]


def _map_filter(call: HigherOrder) -> Expr:
    source = call.map()
    function = _condition(call, call.function(1, _entry(source), parameters=1))
    return call.gives([source, function], source.type, "map_from_entries(list_filter(map_entries({0}), {1}))")


def _map_transform(call: HigherOrder) -> Expr:
    """transform_keys and transform_values: the function gives one half of each entry, the other half stays."""
    source = call.map()
    function = call.function(1, _entry(source), parameters=1)
    key, value = source.type.key_type, source.type.item_type
    if call.name == "transform_keys":
        type_ = pa.map_(function.type, value)
        halves = "list_transform(map_entries({0}), {1}), map_values({0})"
    else:
        type_ = pa.map_(key, function.type)
        halves = "map_keys({0}), list_transform(map_entries({0}), {1})"
    return call.gives([source, function], type_, f"CAST(TRY(map({halves})) AS {duckdb_type(type_)})")


HIGHER_ORDER: dict[str, Callable[[HigherOrder], Expr]] = {
    "transform": _transform,
    "filter": _filter,
    "exists": _quantified,
    "forall": _quantified,
    "aggregate": _aggregate,
    "reduce": _aggregate,
    "zip_with": _zip_with,
    "map_filter": _map_filter,
    "transform_keys": _map_transform,
    "transform_values": _map_transform,
}
