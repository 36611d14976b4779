"""OVER: calls over the rows around a row become columns of an `Over` below the select list.

    SELECT x - lag(x) OVER (PARTITION BY k ORDER BY ts) ...

    Project  all columns, and what the calls read beyond them
    Over     by k in order of ts: _over0 = lag(x)
    above    x - _over0

Aggregates are those of GROUP BY (aggregate_syntax.py), except where the order of rows would show.
One `Over` for each different PARTITION BY and ORDER BY.  Rows come with all columns of FROM, or of the groups: these break ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ArityMismatch, MillstreamError, NotGrouped, TypeMismatch, WindowInvalid
from millstream.core.schema import type_name
from millstream.language.aggregate_binder import result_type
from millstream.language.aggregate_syntax import FUNCTIONS, read_aggregate
from millstream.language.aggregate_types import aggregate_argument_cast, aggregate_type
from millstream.language.canonical import canonical
from millstream.language.nodes import OverFunction
from millstream.language.over_frames import bind_frame
from millstream.language.scalar_casts import cast
from millstream.language.scope import at_place, plan_column
from millstream.language.spans import span_of
from millstream.language.typed import Typed, bind_condition, bind_over
from millstream.language.unsupported import not_supported
from millstream.plan.expression import Expr, Named, column
from millstream.plan.logical import Over, Plan, Project
from millstream.plan.ordering import LOOKING, NUMBERING, WHOLE, Frame, OverCall, SortKey

_NAMES = {"mean": "avg", "first": "first_value", "last": "last_value", "any_value": "first_value"}
_AGGREGATES = frozenset(name for name, (function, *_) in FUNCTIONS.items() if function not in ("first", "last", "collect_list"))
_RUNNING = Frame("rows", None, 0)
_NEED_ORDER = NUMBERING | {"lag", "lead", "nth_value"}
_TYPES = {"percent_rank": pa.float64(), "cume_dist": pa.float64()}  # other numbers are INT
_ARGUMENTS = {
    "lag": (1, 3),
    "lead": (1, 3),
    "nth_value": (2, 2),
    "ntile": (0, 1),
}
_Window = tuple[tuple[str, ...], tuple[SortKey, ...]]


class OverBinder:
    """Trees given to it are over the columns of `below`."""

    def __init__(self, below: Plan, columns: Typed, sql: str) -> None:
        self._below, self._columns, self._sql = below, columns, sql
        self._inputs: dict[str, Named] = {}  # columns that are computed below, by what they compute
        self._windows: dict[_Window, dict[str, OverCall]] = {}  # calls by what they compute
        self._types: dict[str, pa.DataType] = {}

    @property
    def has_calls(self) -> bool:
        return bool(self._windows)

    def above(self, tree: exp.Expr) -> exp.Expr:
        """`tree` over the columns of the Over."""

        def swap(node: exp.Expr) -> exp.Expr:
            return self._replaced(node) if isinstance(node, OverFunction) else node

        return tree.copy().transform(swap, copy=False)

    def type_of(self, column: exp.Column) -> tuple[str, pa.DataType]:
        """For `bind_scalar`, over the columns of the Over."""
        type_ = self._types.get(column.name)
        return (column.name, type_) if type_ is not None else self._columns.type_of(column)

    def plan(self) -> Plan:
        plan = self._below
        if self._inputs:
            kept = tuple(Named(field.name, column(field.name, field.type)) for field in plan.schema)
            plan = Project(plan, (*kept, *self._inputs.values()))
        for (partition_by, order_by), calls in self._windows.items():
            plan = Over(plan, partition_by, order_by, tuple(calls.values()))
        return plan

    # --- calls -----------------------------------------------------------------------------

    def value_type(self, tree: exp.Expr) -> pa.DataType:
        return bind_over(tree, self._columns, self._sql).type

    def check_call(self, node: OverFunction) -> str:
        """Refuses what is no call of a known function; its name, of those that it has."""
        for part in node.iter_expressions():
            inner = part.find(OverFunction)
            if inner is not None:
                hint = "Compute the inner one in a subquery."
                raise NotGrouped("OVER cannot stand inside OVER", hint=hint, span=span_of(inner), sql=self._sql)
        written = str(node.this).lower()
        function = _NAMES.get(written, written)
        self._check_arguments(node, function)
        return function

    def _replaced(self, node: OverFunction) -> exp.Expr:
        function = self.check_call(node)
        window = self._window(node)
        frame, parameter = self._frame(node, function, window)
        result = plan_column(self._call(node, function, window, frame, parameter), node)
        if function in ("lag", "lead") and len(node.expressions) == 3:
            found = plan_column(self._call(node, f"is_{function}", window, frame, parameter), node)
            _, type_ = self.type_of(result)  # the default becomes what the value is, as in Spark
            default = at_place(exp.cast(node.expressions[2].copy(), type_name(type_), dialect="spark"), node.expressions[2])
            return at_place(exp.If(this=found, true=result, false=default), node)
        return result

    def _check_arguments(self, node: OverFunction, function: str) -> None:
        if function not in NUMBERING | LOOKING | _AGGREGATES or function.startswith("is_"):
            raise not_supported(f"{node.this.lower()} with OVER", node, self._sql)
        if function in _AGGREGATES:
            return
        if node.args.get("condition") is not None:
            raise TypeMismatch(f"FILTER is for aggregates, and {function} is none", span=span_of(node), sql=self._sql)
        least, most = _ARGUMENTS.get(function, (0, 0) if function in NUMBERING else (1, 1))
        if not least <= len(node.expressions) <= most:
            raise ArityMismatch(f"{function} does not take {len(node.expressions)} arguments", span=span_of(node), sql=self._sql)

    def _window(self, node: OverFunction) -> _Window:
        partition_by = tuple(dict.fromkeys(self._key(key, "PARTITION BY") for key in node.args.get("partition_by") or []))
        order: dict[str, SortKey] = {}
        for key, (descending, nulls_first) in zip(node.args.get("order") or [], node.args.get("directions") or (), strict=True):
            name = self._key(key, "ORDER BY")
            order.setdefault(name, SortKey(name, descending, nulls_first))  # a key that comes again decides nothing
        return partition_by, tuple(order.values())

    def _key(self, tree: exp.Expr, clause: str) -> str:
        value = bind_over(tree, self._columns, self._sql)
        if pa.types.is_map(value.type):
            raise TypeMismatch(f"{clause} cannot compare a MAP", span=span_of(tree), sql=self._sql)
        return self._input(value, canonical(tree))

    def _frame(self, node: OverFunction, function: str, window: _Window) -> tuple[Frame, int]:
        """What the call sees, and its parameter."""
        _, order_by = window
        spec = node.args.get("spec")
        if function in _NEED_ORDER and not order_by:
            raise WindowInvalid(f"{function} needs ORDER BY in its window", hint="OVER (ORDER BY ...)", span=span_of(node), sql=self._sql)
        if function in NUMBERING or function in ("lag", "lead"):
            if spec is not None:
                raise WindowInvalid(f"{function} takes no frame", span=span_of(node), sql=self._sql)
            return self._own_frame(node, function)
        frame = bind_frame(spec, [self._type(key.column) for key in order_by], node, self._sql)
        return frame, self.whole(node.expressions[1], function, least=1) if function == "nth_value" else 0

    def _own_frame(self, node: OverFunction, function: str) -> tuple[Frame, int]:
        match function:
            case "lag" | "lead":
                distance = self.whole(node.expressions[1], function) if len(node.expressions) > 1 else 1
                at = -distance if function == "lag" else distance
                return Frame("rows", at, at), distance
            case "ntile":
                return WHOLE, self.whole(node.expressions[0], function, least=1) if node.expressions else 1
            case "percent_rank" | "cume_dist":
                return WHOLE, 0
        return _RUNNING, 0

    def whole(self, tree: exp.Expr, function: str, *, least: int | None = None) -> int:
        negative = isinstance(tree, exp.Neg)
        digits = tree.this if negative else tree
        if isinstance(digits, exp.Literal) and digits.is_int and len(digits.name) < 10:
            number = -int(digits.name) if negative else int(digits.name)
            if least is None or number >= least:
                return number
        wanted = "a whole number" if least is None else "a positive whole number"
        raise TypeMismatch(f"{function} wants {wanted} here, written out", span=span_of(tree), sql=self._sql)

    def _call(self, node: OverFunction, function: str, window: _Window, frame: Frame, parameter: int) -> str:
        """The column of a call; equal ones share it."""
        if function in _AGGREGATES:
            call = self._aggregate(node, frame)
        else:
            call = OverCall("", function, *self._argument(node, function), frame, parameter)
        calls = self._windows.setdefault(window, {})
        text = f"{call} {call.type} {frame}"
        if text not in calls:
            name = self._fresh("_over", len(self._types))
            self._types[name] = call.type
            calls[text] = replace(call, name=name)
        return calls[text].name

    def _argument(self, node: OverFunction, function: str) -> tuple[str | None, pa.DataType]:
        """The column that a call reads, and the type of its result."""
        if function.startswith("is_"):
            return None, pa.bool_()
        if function in NUMBERING:
            return None, _TYPES.get(function, pa.int32())
        value = bind_over(node.expressions[0], self._columns, self._sql)
        return self._input(value, canonical(node.expressions[0])), value.type

    def _aggregate(self, node: OverFunction, frame: Frame) -> OverCall:
        """A call that is yet to get its name."""
        call: exp.Expr = at_place(
            exp.Anonymous(this=node.this, expressions=[tree.copy() for tree in node.expressions] or [exp.Star()]), node
        )
        condition = node.args.get("condition")
        if condition is not None:
            call = at_place(exp.Filter(this=call, expression=exp.Where(this=condition.copy())), node)
        written = read_aggregate(call)
        if not written.arguments:
            return OverCall("", written.function, None, aggregate_type(written.function, None), frame)
        if written.condition is not None:
            bind_condition(written.condition, self._columns, self._sql, "FILTER")
        values = [bind_over(argument, self._columns, self._sql) for argument in written.arguments]
        type_ = _placed(lambda: result_type(written, values), node)
        wanted, text = aggregate_argument_cast(written.typed_as, values[0].type), canonical(written.arguments[0])
        if wanted is not None:
            values[0], text = cast(values[0], wanted), f"{text}::{wanted}"
        texts = [text, *map(canonical, written.arguments[1:])]
        argument, *more = (self._input(value, text) for value, text in zip(values, texts, strict=True))
        return OverCall("", written.function, argument, type_, frame, 0, tuple(more), written.distinct, written.parameters)

    # --- columns below ---------------------------------------------------------------------

    def _input(self, value: Expr, text: str) -> str:
        if value.is_column:
            return str(value.tree.name)
        if text not in self._inputs:
            self._inputs[text] = Named(self._fresh("_read", len(self._inputs)), value)
        return self._inputs[text].name

    def _fresh(self, word: str, number: int) -> str:
        while f"{word}{number}" in self._below.schema:
            number += 1_000
        return f"{word}{number}"

    def _type(self, name: str) -> pa.DataType:
        computed = {named.name: named.expr.type for named in self._inputs.values()}
        return computed[name] if name in computed else self._below.schema[name].type


def _placed(bind: Callable[[], pa.DataType], node: exp.Expr) -> pa.DataType:
    try:
        return bind()
    except MillstreamError as error:
        error.span = error.span or span_of(node)
        raise
