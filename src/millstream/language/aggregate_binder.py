"""GROUP BY and aggregates: expressions over the rows of a group become expressions over the row of the group.

    SELECT sym, sum(size) / count(*) + 1 ... GROUP BY sym

    Project    sym, size                     the keys and the aggregates' arguments
    Aggregate  by sym: _agg0 = sum(size), _agg1 = count(*)
    above      sym, _agg0 / _agg1 + 1        each key and each aggregate replaced by its column

`Grouping` collects keys and aggregates while expressions are rewritten; `plan` then builds the nodes.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ArityMismatch, MillstreamError, NotGrouped
from millstream.language.canonical import canonical
from millstream.language.column_names import shown
from millstream.language.scalar import aggregate_argument_cast, aggregate_type
from millstream.language.scalar_casts import cast
from millstream.language.scope import Scope, is_value, plan_column
from millstream.language.spans import span_of
from millstream.language.typed import bind_over
from millstream.language.unsupported import not_supported
from millstream.plan.expression import Expr, Named
from millstream.plan.logical import Aggregate, AggregateCall, Plan, Project

FUNCTIONS = {"count": "count", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max"}
_OTHERS = frozenset(
    [
        "any", "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "bit_and", "bit_or", "bit_xor", "bool_and",
        "bool_or", "collect_list", "collect_set", "corr", "count_if", "count_min_sketch", "covar_pop", "covar_samp", "every", "first",
        "first_value",
        "grouping", "grouping_id", "histogram_numeric", "kurtosis", "last", "last_value", "listagg", "max_by", "median", "min_by", "mode",
        "percentile", "percentile_approx", "percentile_cont", "percentile_disc", "skewness", "some", "std", "stddev", "stddev_pop",
        "stddev_samp", "string_agg", "try_avg", "try_sum", "var_pop", "var_samp", "variance",
    ]
)  # fmt: skip


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and (node.name.lower() in FUNCTIONS or node.name.lower() in _OTHERS)


def find_aggregate(tree: exp.Expr) -> exp.Expr | None:
    return next((node for node in tree.walk() if is_aggregate(node)), None)


def refuse_aggregate(tree: exp.Expr, clause: str, sql: str, place: exp.Expr | None = None) -> None:
    """`place` for trees that stand somewhere else in the text."""
    node = find_aggregate(tree)
    if node is not None:
        hint = "Filter groups with HAVING." if clause == "WHERE" else None
        raise NotGrouped(f"an aggregate cannot stand in {clause}: {shown(node)}", hint=hint, span=span_of(place or node), sql=sql)


class Grouping:
    """Trees given to it have the plan's columns already (`Scope.bare`)."""

    def __init__(self, scope: Scope, keys: list[exp.Expr]) -> None:
        self._scope = scope
        self._inputs: dict[str, Named] = {}  # columns below the aggregate, by what they compute
        self._keys: dict[str, str] = {}  # column of each key, by what it computes
        self._calls: dict[str, AggregateCall] = {}
        self._types: dict[str, pa.DataType] = {}  # of the columns above the aggregate
        for key in keys:
            self._add_key(key)

    def _add_key(self, key: exp.Expr) -> None:
        text = canonical(key)
        if text not in self._keys:
            named = self._input(self._key_value(key), text, f"_key{len(self._keys)}")
            self._keys[text] = named.name
            self._types[named.name] = named.expr.type

    def _key_value(self, key: exp.Expr) -> Expr:
        value = bind_over(key, self._scope, self._scope.sql)
        if pa.types.is_map(value.type):
            raise not_supported("a MAP in GROUP BY", key, self._scope.sql)
        return value

    def has_key(self, tree: exp.Expr) -> bool:
        return canonical(tree) in self._keys

    def above(self, tree: exp.Expr) -> exp.Expr:
        """`tree` over the columns of the aggregate."""
        return self._rewritten(tree.copy())

    def _rewritten(self, tree: exp.Expr) -> exp.Expr:
        name = self._keys.get(canonical(tree))
        if name is None and is_aggregate(tree):
            name = self._call(tree)
        if name is not None:
            return plan_column(name, tree)
        if isinstance(tree, exp.Column):
            if is_value(tree):
                return tree  # joined above the aggregate
            raise self._not_grouped(tree)
        for child in list(tree.iter_expressions()):
            new = self._rewritten(child)
            if new is not child:
                child.replace(new)
        return tree

    def _not_grouped(self, column: exp.Column) -> NotGrouped:
        name = next((visible.name for visible in self._scope.columns if visible.column == column.name), column.name)
        return NotGrouped(
            f'column "{name}" is neither in GROUP BY nor inside an aggregate',
            hint=f"Add it to GROUP BY, or use an aggregate such as max({name}).",
            span=span_of(column),
            sql=self._scope.sql,
        )

    def type_of(self, column: exp.Column) -> tuple[str, pa.DataType]:
        """For `bind_scalar`, over the columns of the aggregate."""
        return column.name, self._types[column.name]

    def plan(self, below: Plan) -> Aggregate:
        """The aggregate with all that `above` has asked for."""
        # counting rows needs no column
        rows = Project(below, tuple(self._inputs.values())) if self._inputs else below
        return Aggregate(rows, tuple(dict.fromkeys(self._keys.values())), tuple(self._calls.values()))

    @property
    def has_keys(self) -> bool:
        return bool(self._keys)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    # --- aggregates ------------------------------------------------------------------------

    def _call(self, node: exp.Expr) -> str:
        """The column of an aggregate; equal ones share it."""
        function, argument = self._checked(node)
        text = f"{function}({canonical(argument) if argument is not None else '*'})"
        if text not in self._calls:
            name = f"_agg{len(self._calls)}"
            self._calls[text] = self._bound_call(function, argument, node, name)
            self._types[name] = self._calls[text].type
        return self._calls[text].name

    def _checked(self, node: exp.Expr) -> tuple[str, exp.Expr | None]:
        """The function, and its argument unless it only counts rows."""
        sql, written, arguments = self._scope.sql, node.name.lower(), node.expressions
        function = FUNCTIONS.get(written)
        if function is None:
            raise not_supported(f"the aggregate {written}", node, sql, "count, sum, avg, min and max are.")
        for argument in arguments:
            inner = find_aggregate(argument)
            if inner is not None:
                hint = "Compute the inner one in a query of its own."
                raise NotGrouped(f"an aggregate cannot stand inside {written}(...)", hint=hint, span=span_of(inner), sql=sql)
        if function == "count" and len(arguments) > 1:
            raise not_supported("count over several columns", node, sql)
        if len(arguments) != 1:
            raise ArityMismatch(f"{written} takes one argument, not {len(arguments)}", span=span_of(node), sql=sql)
        counts_rows = function == "count" and isinstance(arguments[0], exp.Star | exp.Literal | exp.Boolean)
        return function, None if counts_rows else arguments[0]

    def _bound_call(self, function: str, argument: exp.Expr | None, node: exp.Expr, name: str) -> AggregateCall:
        if argument is None:
            return AggregateCall(name, function, None, aggregate_type(function, None))
        value = bind_over(argument, self._scope, self._scope.sql)
        try:
            type_ = aggregate_type(function, value.type)
        except MillstreamError as error:
            error.span = error.span or span_of(node)
            raise
        wanted, text = aggregate_argument_cast(function, value.type), canonical(argument)
        if wanted is not None:
            value, text = cast(value, wanted), f"{text}::{wanted}"
        return AggregateCall(name, function, self._input(value, text, f"_arg{len(self._inputs)}").name, type_)

    def _input(self, value: Expr, text: str, fresh: str) -> Named:
        """The column below the aggregate that computes `value`; a bare column keeps its name."""
        name = value.tree.name if value.is_column else fresh
        text = canonical(value.tree) if value.is_column else text  # a cast to its own type is the column itself
        if text not in self._inputs:
            self._inputs[text] = Named(name, value)
        return self._inputs[text]
