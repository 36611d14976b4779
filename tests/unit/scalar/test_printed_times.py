"""date_format over many rows gives what it gives over each of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import TIMESTAMP, TIMESTAMP_NTZ
from millstream.operators import evaluator as module
from millstream.operators.evaluator import Evaluator
from millstream.operators.printed_times import printed_time, runs_of
from millstream.plan.duckdb_sql import to_duckdb
from unit.scalar.evaluation import bound

EVALUATOR = Evaluator()
SECOND_US, MINUTE_US, DAY_US = 10**6, 60 * 10**6, 86_400 * 10**6
PATTERNS = [
    "yyyy-MM-dd", "HH:mm", "yyyy-MM-dd HH:mm:ss", "yy/M/d D E MMM", "EEEE, MMMM d", "h a", "H:m", "s", "''''yyyy",
    "''100% {x}'' dd", "HH:mm:ss.SSS", "yyyy Q",
]  # fmt: skip
FORMS = ["%Y-%m-%d", "%-H:%M", "%S", "%% %%H", "%f", "it''s %j"]
EDGES = [0, 1, -1, DAY_US, -DAY_US, 951_782_400 * 10**6, -62_135_596_800 * 10**6, 253_402_300_799 * 10**6]


def evaluated(rows: pa.RecordBatch, sqls: list[str], *, few_rows: int) -> pa.RecordBatch:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW_ROWS", few_rows)
        return EVALUATOR.project(rows, [(f"c{i}", sql, pa.string()) for i, sql in enumerate(sqls)])


@st.composite
def moments(draw: st.DrawFn) -> list[int | None]:
    """Stretches of moments that are near one another, across the bounds of days, minutes and seconds; a NULL now and then."""
    found: list[int | None] = []
    for _ in range(draw(st.integers(1, 3))):
        step = draw(st.sampled_from([0, 1, 1000, SECOND_US // 4, SECOND_US, MINUTE_US // 3, DAY_US // 5]))
        start = draw(st.sampled_from(EDGES)) - step * draw(st.integers(0, 30))
        found += [start + step * i for i in range(draw(st.integers(1, 60)))]
    return [None, *found] if draw(st.sampled_from([False, False, False, True])) else found


@settings(max_examples=150, deadline=None)
@given(
    moments(), st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3), st.lists(st.sampled_from(FORMS), max_size=1),
    st.sampled_from([TIMESTAMP, TIMESTAMP_NTZ]),
)  # fmt: skip
def test_many_rows_equal_each_alone(moments: list[int | None], patterns: list[str], forms: list[str], type_: pa.DataType) -> None:
    rows = pa.record_batch({"ts": pa.array(moments, pa.int64()).cast(type_), "v": pa.array(range(len(moments)))})
    sqls = [f"strftime(\"ts\", '{form}')" for form in forms]
    sqls += [to_duckdb(bound(f"date_format(ts, '{pattern}')", {"ts": type_})) for pattern in patterns]
    assert evaluated(rows, sqls, few_rows=0).to_pydict() == evaluated(rows, sqls, few_rows=10**9).to_pydict()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("strftime(\"ts\", '%Y-%m-%d')", ("ts", DAY_US)),
        ('strftime("q""x", \'%H\')', ('q"x', MINUTE_US)),
        ("strftime(\"ts\", '%d %S')", ("ts", SECOND_US)),
        ("strftime(\"ts\", '%%S')", ("ts", DAY_US)),
        ("strftime(\"ts\", '%f')", None),
        ("strftime(\"ts\", '%Y') || strftime(\"ts\", '%m')", None),
        ("strftime(CAST(\"d\" AS TIMESTAMP), '%Y')", None),
        ('"ts"', None),
    ],
)
def test_what_prints_a_moment(sql: str, expected: tuple[str, int] | None) -> None:
    assert printed_time(sql) == expected


def test_runs_begin_where_the_unit_does() -> None:
    words = np.repeat([-MINUTE_US, -1, 0, MINUTE_US - 1, MINUTE_US, 0], 20)
    runs = runs_of(pa.array(words).cast(TIMESTAMP), MINUTE_US)
    assert runs is not None
    assert runs[0].tolist() == [0, 40, 80, 100]
    assert runs[1].tolist() == np.repeat([0, 1, 2, 3], [40, 40, 20, 20]).tolist()


def test_where_there_are_no_runs() -> None:
    apart, far, null = np.arange(100) * DAY_US, np.full(100, 2**63 - 1), pa.array([None] + [0] * 99, pa.int64())
    assert all(runs_of(pa.array(words).cast(TIMESTAMP), DAY_US) is None for words in (apart, far, -far, null))
    assert runs_of(pa.array(np.zeros(100, np.int64)), DAY_US) is None


def test_runs_are_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    whole = Evaluator._evaluate

    def counted(self: Evaluator, rows: pa.RecordBatch, expressions: tuple[str, ...]) -> list[pa.Array]:
        asked.append(rows.num_rows)
        return whole(self, rows, expressions)

    monkeypatch.setattr(Evaluator, "_evaluate", counted)
    rows = pa.record_batch({"ts": pa.array(np.arange(100) * MINUTE_US // 10).cast(TIMESTAMP), "v": pa.array(range(100))})
    sqls = ["strftime(\"ts\", '%H:%M')", 'CAST("v" + 1 AS VARCHAR)', "strftime(\"ts\", '%Y')"]
    texts = evaluated(rows, sqls, few_rows=99).to_pydict()
    assert asked == [10, 100]
    assert (texts["c0"][39], texts["c1"][39], texts["c2"][39]) == ("00:03", "40", "1970")
