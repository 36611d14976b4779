"""Random expressions: they bind or say why not, never break a batch, and give exactly the type they declare.

What a row gives must not depend on the rows and columns beside it: that is how a part that fails in one row
would leak into others.  Well-typed expressions are grown from the corpus that is compared with Spark: a column
in one of its lines is replaced by another line of the same type, and so on.
"""

from __future__ import annotations

import re
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from millstream.core.errors import MillstreamError
from millstream.language.functions_table import BY_NAME
from millstream.operators.evaluator import Column, Evaluator
from millstream.plan.duckdb_sql import to_duckdb
from spark.scalar_rows import SCHEMA, rows
from unit.scalar.evaluation import bound, corpus

_EVALUATOR = Evaluator()
_ROWS = rows()
_WORD = re.compile(r"\b(" + "|".join(SCHEMA.names) + r")\b")


@cache
def lines_by_type() -> dict[pa.DataType, list[str]]:
    found: dict[pa.DataType, list[str]] = {}
    for text, _ in corpus():
        found.setdefault(bound(text, SCHEMA).type, []).append(text)
    return found


@st.composite
def well_typed(draw: st.DrawFn) -> str:
    """A line of the corpus with some of its columns replaced by other lines."""
    text = draw(st.sampled_from([text for text, _ in corpus()]))
    for _ in range(draw(st.integers(0, 3))):
        columns = [match for match in _WORD.finditer(text) if SCHEMA[match[1]].type in lines_by_type()]
        if not columns:
            break
        place = draw(st.sampled_from(columns))
        graft = draw(st.sampled_from(lines_by_type()[SCHEMA[place[1]].type]))
        text = f"{text[: place.start()]}({graft}){text[place.end() :]}"
    return text


@st.composite
def careless(draw: st.DrawFn) -> str:
    """Any function or operator over anything."""
    parts = draw(st.lists(st.sampled_from([text for text, _ in corpus()]), min_size=1, max_size=3))
    if draw(st.booleans()):
        return f"{draw(st.sampled_from(sorted(BY_NAME)))}({', '.join(parts)})"
    operator = draw(st.sampled_from(["+", "-", "*", "/", "%", "div", "=", "<", "<=>", "and", "||", "&", "like", "rlike", "in"]))
    return f"({parts[0]}) {operator} ({parts[-1]})"


def _column(name: str, text: str) -> Column | None:
    try:
        expr = bound(text, SCHEMA)
    except MillstreamError as error:
        event(error.code)
        return None
    event("bound")
    return name, to_duckdb(expr), expr.type


@pytest.fixture(autouse=True)
def _without_a_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluator would save us from a translation that lets failures through; here they must show."""

    def fail(self: Evaluator, rows: object, expressions: object, error: Exception) -> None:
        raise AssertionError(f"a failure slipped through in {expressions}") from error

    monkeypatch.setattr(Evaluator, "_evaluate_anyway", fail)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(well_typed(), well_typed(), careless()), min_size=1, max_size=4))
def test_rows_and_columns_do_not_disturb_each_other(texts: list[str]) -> None:
    columns = [column for i, text in enumerate(texts) if (column := _column(f"c{i}", text)) is not None]
    if not columns:
        return
    together = _EVALUATOR.project(_ROWS, columns)
    assert together.schema.types == [type_ for _, _, type_ in columns]
    assert together.num_rows == _ROWS.num_rows
    for column, array in zip(columns, together.columns, strict=True):
        for i in range(0, _ROWS.num_rows, 3):
            alone = _EVALUATOR.project(_ROWS.slice(i, 1), [column]).column(0)
            assert str(alone) == str(array.slice(i, 1))
