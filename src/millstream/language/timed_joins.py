"""Joins that go by time or nearness: as-of joins, and zipper joins out of windows.

a ASOF JOIN b MATCH_CONDITION (a.x >= b.y) ON a.k = b.k      AsOfJoin(a, b, k = k_2, x >= y)
a ZIPPER JOIN b WITHIN w ON ...                              Union of

    pairs        a [RANGE w] joined with b [RANGE w]: while both are there, they are no more than w apart
    lone rows    a row x at x.ts + w + 1 only, when no partner can come any more: all that x could have met
                 then lies between 1 microsecond and 2 w + 1 ago

        a [BEGIN NOW - (w + 1) END NOW - (w + 1)]  anti join  b [BEGIN NOW - (2 w + 1) END NOW - 1], beside NULLs
        and the same for b
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import MatchInvalid, MillstreamError, NotSupported
from millstream.core.instant import Micros, format_duration
from millstream.language.coercion import named
from millstream.language.join_binder import anti_join, inner_join, only, padded, reads, split_equalities, with_computed
from millstream.language.scalar_predicates import check_ordered, comparable
from millstream.language.scope import Scope
from millstream.language.spans import span_of
from millstream.language.typed import bind_condition, bind_over
from millstream.language.unsupported import not_supported
from millstream.language.windows_below import with_window
from millstream.plan.expression import Expr
from millstream.plan.logical import AsOfJoin, Comparison, Filter, JoinKey, Match, Plan, Union
from millstream.plan.window import TimeWindow

_COMPARISONS: dict[type[exp.Expr], tuple[Comparison, Comparison]] = {
    exp.GTE: (">=", "<="), exp.GT: (">", "<"), exp.LTE: ("<=", ">="), exp.LT: ("<", ">"),
}  # fmt: skip
"""As it is written, and with its sides swapped."""


def asof_join(left: Plan, right: Plan, conditions: Sequence[exp.Expr], match: exp.Expr, scope: Scope, *, keeps_left: bool) -> Plan:
    """`conditions` and `match` are over the plans' columns."""
    fields = right.schema.fields
    equalities, rest = split_equalities(left, right, conditions, scope)
    for condition in rest:
        left, right = _filtered(left, right, condition, scope, keeps_left=keeps_left)
    ours, comparison, theirs = _match(match, left, right, scope)
    left, left_names = with_computed(left, [*(equality.left for equality in equalities), ours], "left", right.schema.names)
    right, right_names = with_computed(right, [*(equality.right for equality in equalities), theirs], "right", left.schema.names)
    keys = [JoinKey(*key) for key in zip(left_names[:-1], right_names[:-1], [equality.null_safe for equality in equalities], strict=True)]
    # rows that tie have these columns equal; only 0.0 and -0.0 are equal and yet not the same
    equal = {name for name in right_names if not pa.types.is_floating(right.schema[name].type)}
    ties = tuple(field.name for field in fields if field.name not in equal)
    return AsOfJoin(left, right, tuple(keys), Match(left_names[-1], comparison, right_names[-1]), ties, keeps_left)


def zipper_join(left: Plan, right: Plan, conditions: Sequence[exp.Expr], within_us: Micros, scope: Scope) -> Plan:
    """Both are streams, without a window of their own."""
    columns = (*left.schema, *right.schema)
    window, lone, partners = TimeWindow.range_(within_us), _ago(within_us + 1, within_us + 1), _ago(2 * within_us + 1, 1)
    together = inner_join(with_window(left, window), with_window(right, window), conditions, scope, "ON")
    parts = [only(together, [field.name for field in columns])]
    for one, other in ((left, right), (right, left)):
        parts.append(padded(anti_join(with_window(one, lone), with_window(other, partners), conditions, scope), columns))
    return Union(tuple(parts))


def _filtered(left: Plan, right: Plan, condition: exp.Expr, scope: Scope, *, keeps_left: bool) -> tuple[Plan, Plan]:
    """A condition about one side decides which of its rows take part."""
    names = {node.name for node in condition.find_all(exp.Column)}
    if names <= set(right.schema.names):
        return left, Filter(right, bind_condition(condition, scope, scope.sql, "ON"))
    if names <= set(left.schema.names) and not keeps_left:
        return Filter(left, bind_condition(condition, scope, scope.sql, "ON")), right
    hint = "ON of an as-of join takes equalities of both sides, and conditions on the right one."
    raise not_supported("this condition of an as-of join", condition, scope.sql, hint)


def _match(match: exp.Expr, left: Plan, right: Plan, scope: Scope) -> tuple[Expr, Comparison, Expr]:
    """The left side's value, how it compares, and the right side's, in the type in which they compare."""
    one, other = match.this, match.expression
    comparison, swapped = _COMPARISONS[type(match)]
    if reads(one, right) and reads(other, left):
        one, comparison, other = other, swapped, one
    if not reads(one, left) or not reads(other, right):
        raise MatchInvalid(
            "MATCH_CONDITION compares a value of the left side with one of the right side",
            hint="Write MATCH_CONDITION (a.ts >= b.ts).", span=span_of(match), sql=scope.sql,
        )  # fmt: skip
    try:
        ours, theirs = comparable(bind_over(one, scope, scope.sql), bind_over(other, scope, scope.sql))
        check_ordered(ours.type)
        if pa.types.is_string(ours.type) or pa.types.is_binary(ours.type):
            raise NotSupported(f"MATCH_CONDITION over {named(ours.type)} is not supported", hint="Match by time or by a number.")
    except MillstreamError as error:
        error.span = error.span or span_of(match)
        raise error.in_sql(scope.sql) from None
    return ours, comparison, theirs


def _ago(longest_us: Micros, shortest_us: Micros) -> TimeWindow:
    text = f"BEGIN NOW - {format_duration(longest_us)} END NOW - {format_duration(shortest_us)}"
    return TimeWindow(text, delay_us=shortest_us, length_us=longest_us + 1)
