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

from millstream.core.errors import ArityMismatch, MillstreamError, NotGrouped, TypeMismatch
from millstream.language.aggregate_syntax import WrittenAggregate, find_aggregate, is_aggregate, is_grouping, read_aggregate
from millstream.language.aggregate_types import aggregate_argument_cast, aggregate_type, refuse_nested
from millstream.language.canonical import canonical
from millstream.language.coercion import BOOLEAN, VOID, is_atomic, is_orderable, named
from millstream.language.column_names import shown
from millstream.language.grouping_sets import GROUPING, GROUPING_ID, groups_of, union_of_sets
from millstream.language.listagg import is_listagg, listagg
from millstream.language.nodes import OverFunction
from millstream.language.scalar_casts import cast
from millstream.language.scope import Scope, is_value, plan_column
from millstream.language.spans import span_of
from millstream.language.typed import bind_condition, bind_over
from millstream.language.unsupported import not_supported
from millstream.plan.expression import Expr, Named
from millstream.plan.logical import AggregateCall, Plan, Project


def refuse_aggregate(tree: exp.Expr, clause: str, sql: str, place: exp.Expr | None = None) -> None:
    """`place` for trees that stand somewhere else in the text."""
    node = find_aggregate(tree)
    if node is not None:
        hint = "Filter groups with HAVING." if clause == "WHERE" else None
        raise NotGrouped(f"an aggregate cannot stand in {clause}: {shown(node)}", hint=hint, span=span_of(place or node), sql=sql)


class Grouping:
    """Trees given to it have the plan's columns already (`Scope.bare`)."""

    def __init__(self, scope: Scope, keys: list[exp.Expr], sets: list[list[exp.Expr]] | None = None) -> None:
        self._scope = scope
        self._inputs: dict[str, Named] = {}  # columns below the aggregate, by what they compute
        self._keys: dict[str, str] = {}  # column of each key, by what it computes
        self._calls: dict[str, AggregateCall] = {}
        self._types: dict[str, pa.DataType] = {}  # of the columns above the aggregate
        self._flags: dict[str, tuple[tuple[str, ...], pa.DataType]] = {}  # grouping(..): the keys that each tells of
        for key in keys:
            self._add_key(key)
        self._sets = None if sets is None else [[self._keys[canonical(key)] for key in chosen] for chosen in sets]

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
        if name is None and is_grouping(tree):
            name = self._flag(tree)
        elif name is None and is_listagg(tree):
            return self._rewritten(listagg(tree))
        elif name is None and is_aggregate(tree):
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

    def plan(self, below: Plan) -> Plan:
        """The aggregate with all that `above` has asked for."""
        # counting rows needs no column
        rows = Project(below, tuple(self._inputs.values())) if self._inputs else below
        keys, calls = tuple(dict.fromkeys(self._keys.values())), self.calls
        if self._sets is None:
            return groups_of(rows, keys, calls)
        return union_of_sets(rows, keys, self._sets, calls, self._flags, self._scope)

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        return tuple(self._calls.values())

    @property
    def is_distinct(self) -> bool:
        """The keys alone: more rows can only add to the answer."""
        return bool(self._keys) and not self._calls and self._sets is None

    def _flag(self, node: exp.Expr) -> str:
        """The column of grouping(key) or grouping_id(key, ..); without keys it tells of all."""
        written, sql = node.name.lower(), self._scope.sql
        if self._sets is None:
            hint = "Group by ROLLUP, CUBE or GROUPING SETS."
            raise NotGrouped(f"{written} tells grouping sets apart, and there are none", hint=hint, span=span_of(node), sql=sql)
        if written == "grouping" and len(node.expressions) != 1:
            raise ArityMismatch(f"grouping takes one key, not {len(node.expressions)}", span=span_of(node), sql=sql)
        for key in node.expressions:
            if not self.has_key(key):
                raise NotGrouped(f"{written} takes keys of GROUP BY", span=span_of(key), sql=sql)
        told = [self._keys[canonical(key)] for key in node.expressions] or list(dict.fromkeys(self._keys.values()))
        name = f"_{written}_{'_'.join(told)}"
        self._flags[name] = tuple(told), GROUPING if written == "grouping" else GROUPING_ID
        self._types[name] = self._flags[name][1]
        return name

    # --- aggregates ------------------------------------------------------------------------

    def _call(self, node: exp.Expr) -> str:
        """The column of an aggregate; equal ones share it."""
        written = read_aggregate(node)
        for argument in written.arguments:
            over = argument.find(OverFunction)
            if over is not None:
                raise not_supported(f"OVER inside {written.name}(...)", over, self._scope.sql, "Compute it in a subquery.")
            inner = find_aggregate(argument)
            if inner is not None:
                hint = "Compute the inner one in a query of its own."
                raise NotGrouped(
                    f"an aggregate cannot stand inside {written.name}(...)", hint=hint, span=span_of(inner), sql=self._scope.sql
                )
        arguments = ", ".join(map(canonical, written.arguments))
        text = f"{written.function}({arguments}) {written.distinct} {written.parameters} {written.gives_array} {written.wants_boolean}"
        if text not in self._calls:
            name = f"_agg{len(self._calls)}"
            self._calls[text] = self._bound_call(written, node, name)
            self._types[name] = self._calls[text].type
        return self._calls[text].name

    def _bound_call(self, written: WrittenAggregate, node: exp.Expr, name: str) -> AggregateCall:
        function = written.function
        if not written.arguments:
            return AggregateCall(name, function, None, aggregate_type(function, None))
        if written.condition is not None:
            bind_condition(written.condition, self._scope, self._scope.sql, "FILTER")  # told by its own name, not as CASE
        values = [bind_over(argument, self._scope, self._scope.sql) for argument in written.arguments]
        try:
            type_ = result_type(written, values)
        except MillstreamError as error:
            error.span = error.span or span_of(node)
            raise
        wanted, text = aggregate_argument_cast(written.typed_as, values[0].type), canonical(written.arguments[0])
        if wanted is not None:
            values[0], text = cast(values[0], wanted), f"{text}::{wanted}"
        texts = [text, *map(canonical, written.arguments[1:])]
        argument, *more = [self._input(value, text, f"_arg{len(self._inputs)}").name for value, text in zip(values, texts, strict=True)]
        return AggregateCall(name, function, argument, type_, tuple(more), written.distinct, written.parameters)

    def _input(self, value: Expr, text: str, fresh: str) -> Named:
        """The column below the aggregate that computes `value`; a bare column keeps its name."""
        name = value.tree.name if value.is_column else fresh
        text = canonical(value.tree) if value.is_column else text  # a cast to its own type is the column itself
        if text not in self._inputs:
            self._inputs[text] = Named(name, value)
        return self._inputs[text]


def result_type(written: WrittenAggregate, values: list[Expr]) -> pa.DataType:
    first, *more = (value.type for value in values)
    if written.wants_boolean and written.function != "count" and first not in (BOOLEAN, VOID):
        raise TypeMismatch(f"{written.name} takes a BOOLEAN, not {named(first)}")
    if written.function in ("min_by", "max_by") and not is_atomic(more[0]):
        raise TypeMismatch(f"{written.name} cannot order by {named(more[0])}")
    if written.function == "collect_ordered" and any(not is_orderable(type_) for type_ in more):
        raise TypeMismatch(f"{written.name} cannot order by {named(next(type_ for type_ in more if not is_orderable(type_)))}")
    refuse_nested(written.name, written.function, first)
    type_ = aggregate_type(written.typed_as, first)
    return pa.list_(type_) if written.gives_array else type_
