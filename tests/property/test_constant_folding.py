"""A folded expression gives what the expression gives: type, value, and NULL where something fails.

Expressions are grown from the corpus that is compared with Spark; columns in them become constants at random, and conditions
that are constant decide about others.
"""

from __future__ import annotations

import re

import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st

from millstream.core.errors import MillstreamError
from millstream.language.python_functions import with_functions
from millstream.operators.evaluator import Evaluator
from millstream.plan.constant_folding import folded
from millstream.plan.duckdb_sql import to_duckdb
from millstream.plan.expression import Expr
from millstream.plan.function_calls import without_calls
from property.test_python_functions import FUNCTIONS
from property.test_scalar_expressions import careless, well_typed
from spark.scalar_rows import SCHEMA, rows
from unit.scalar.evaluation import bound, bound_tree, parsed

_EVALUATOR = Evaluator()
_ROWS = rows()
_CONSTANTS = {
    "bo": ["true", "false", "cast(null as boolean)"], "i8": ["127Y", "-1Y"], "i16": ["-32768S"], "i32": ["0", "2147483647", "-7"],
    "i64": ["9223372036854775807L"], "f32": ["cast(0.1 as float)"], "f64": ["-0.0D", "1e308D", "cast('nan' as double)"],
    "st": ["'it''s {0}'", "''", "'ß'"], "sn": ["'12'", "'x'"], "da": ["date'2024-02-29'"], "ts": ["timestamp'1969-12-31 23:59:59.999999Z'"],
    "d1": ["1.25BD", "cast(null as decimal(10,2))"], "d2": ["cast('12345678901234567890.123456789012345678' as decimal(38,18))"],
    "bi": ["X'00FF'"],
}  # fmt: skip
_WORD = re.compile(r"\b(" + "|".join(_CONSTANTS) + r")\b")


@st.composite
def with_constants(draw: st.DrawFn) -> str:
    text = draw(st.one_of(well_typed(), well_typed(), careless()))
    everywhere = draw(st.booleans())

    def constant(match: re.Match[str]) -> str:
        if everywhere or draw(st.booleans()):
            return f"({draw(st.sampled_from(_CONSTANTS[match[1]]))})"
        return match[0]

    return _WORD.sub(constant, text)


@st.composite
def decided(draw: st.DrawFn) -> str:
    """Conditions and connectives, of which some are constant."""
    condition = st.sampled_from(["true", "false", "bo", "bo2", "1 < 2", "'a' = 'b'", "cast(null as boolean)", "i32 > 0", "1 / 0 > 1"])
    conditions = st.recursive(
        condition,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map(lambda part: f"({''.join(part)})"),
            inner.map(lambda one: f"(NOT {one})"),
            st.tuples(inner, inner, inner).map(lambda part: f"CASE WHEN {part[0]} THEN {part[1]} WHEN {part[2]} THEN bo END"),
        ),
        max_leaves=6,
    )
    if draw(st.booleans()):
        return draw(conditions)
    value = draw(with_constants())
    branches = draw(st.lists(conditions, min_size=1, max_size=3))
    default = f" ELSE {value}" if draw(st.booleans()) else ""
    return f"CASE {' '.join(f'WHEN {when} THEN {value}' for when in branches)}{default} END"


def _bound(text: str) -> Expr | None:
    try:
        expr = bound(text, SCHEMA)
        to_duckdb(expr)
    except MillstreamError as error:
        event(error.code)
        return None
    return expr


def _values(expr: Expr) -> tuple[pa.DataType, str]:
    array = _EVALUATOR.project(_ROWS, [("v", to_duckdb(expr), expr.type)]).column(0)
    return array.type, array.to_string(window=100, container_window=100)


@settings(max_examples=200, deadline=None)
@given(st.one_of(with_constants(), decided()))
def test_folding_changes_no_value(text: str) -> None:
    expr = _bound(text)
    if expr is None:
        return
    new = folded(expr)
    event("the same" if new is expr else "folded")
    assert new.type == expr.type
    assert new.columns <= expr.columns
    assert folded(new) is new
    assert _values(new) == _values(expr)


def test_calls_of_python_are_not_constant() -> None:
    def calls(text: str) -> list[str]:
        expr = folded(bound_tree(with_functions(parsed(text), FUNCTIONS), SCHEMA))
        return [call.function.name for call in without_calls([expr], SCHEMA.names)[1]]

    assert calls("strict(1 + 1)") == ["strict"]
    assert calls("strict(1) > 0 AND 1 > 2") == ["strict"]
    assert calls("CASE WHEN 1 > 2 THEN strict(i32) ELSE 1 END") == []
