"""Rows that a join made equal in two columns are split by both: nothing travels for the second, and no answer changes."""

from __future__ import annotations

import tempfile
from collections import Counter
from math import nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from property.examples import examples

STREAMS = """
CREATE STREAM a (ts TIMESTAMP, k {}, v INT) TIMESTAMP BY ts SLACK 1 SECOND PARTITION BY k;
CREATE STREAM b (ts TIMESTAMP, k {}, w INT) TIMESTAMP BY ts SLACK 1 SECOND PARTITION BY k;
CREATE STREAM c (ts TIMESTAMP, k {}, x INT) TIMESTAMP BY ts SLACK 1 SECOND PARTITION BY k;
"""
SECOND = 1_000_000
THREE = "a [RANGE 2 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k {eq} b.k JOIN c [RANGE 2 SECONDS] ON b.k {eq} c.k"
IN_ONE_STAGE = [
    "SELECT a.k, sum(c.x) AS total, count(*) AS n FROM {} GROUP BY a.k",
    "SELECT b.k, sum(c.x) AS total FROM {} GROUP BY b.k",
    "SELECT c.k AS one, a.k AS other, max(v) AS hi FROM {} GROUP BY c.k, a.k",
    "SELECT c.k AS k3, v, w, x FROM {}",
    "SELECT p.k, d.n FROM (SELECT b.k AS k, v FROM a [RANGE 2 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k {eq} b.k) AS p"
    " JOIN (SELECT k, count(*) AS n FROM c [RANGE 2 SECONDS] GROUP BY k) AS d ON p.k {eq} d.k",
    "SELECT k2, row_number() OVER (PARTITION BY k2 ORDER BY v, w, x) AS place FROM (SELECT b.k AS k2, v, w, x FROM {})",
]
ELSEWHERE = [
    "SELECT v, count(*) AS n FROM {} GROUP BY v",
    "SELECT b.w, sum(n) AS n FROM b [RANGE 2 SECONDS] JOIN (SELECT v, count(*) AS n FROM {} GROUP BY v) AS d ON b.w = d.v GROUP BY b.w",
]
TYPES: dict[tuple[str, str, str], list[Any]] = {
    ("INT", "INT", "INT"): [1, 2, 3, None],
    ("INT", "BIGINT", "SMALLINT"): [1, 2, 3, None],
    ("INT", "DOUBLE", "BIGINT"): [1, 2, 3, None],
    ("DOUBLE", "DOUBLE", "DOUBLE"): [0.0, -0.0, 1.5, nan, None],
    ("STRING", "STRING", "STRING"): ["", "p", "q", None],
    ("DECIMAL(9,2)", "DECIMAL(12,4)", "INT"): [1, 2, 3, None],
}


def _query(shape: str, eq: str) -> str:
    return shape.replace("{}", THREE).replace("{eq}", eq)


QUERY = st.builds(_query, st.sampled_from(IN_ONE_STAGE + ELSEWHERE), st.sampled_from(["=", "=", "<=>"]))


@st.composite
def _rows(draw: st.DrawFn) -> tuple[tuple[str, str, str], list[list[list[tuple[int, Any, int | None]]]]]:
    types = draw(st.sampled_from(sorted(TYPES)))
    row = st.tuples(st.integers(0, 4), st.sampled_from(TYPES[types]), st.sampled_from([1, 1, 2, None]))
    pieces = st.lists(st.tuples(*[st.lists(row, min_size=1, max_size=6)] * 3).map(list), min_size=1, max_size=4)
    return types, draw(pieces)


@settings(max_examples=examples(40))
@given(query=QUERY, given_rows=_rows(), buckets=st.sampled_from([2, 3, 5]), reopened=st.booleans())
def test_many_buckets_as_one(query: str, given_rows: Any, buckets: int, reopened: bool) -> None:
    types, pieces = given_rows
    found = []
    for count in (1, buckets):
        with tempfile.TemporaryDirectory() as path:
            db = open_inline(path, buckets=count, runner=InlineRunner(rows_a_step=4))
            db.execute(STREAMS.format(*types))
            db.execute(f"CREATE QUERY q AS {query}")
            now = 0
            for piece in pieces:
                for stream, rows in zip("abc", piece, strict=True):
                    db.insert(stream, [(now + step * SECOND // 2, *row) for step, *row in rows])
                now += SECOND
                db.flush()
            if reopened:
                db._location.close()
                db = open_inline(path, buckets=count)
            db.advance(now + 10 * SECOND)
            db.flush()
            changes = db.query("q").changes().to_pylist()
            found.append((Counter(tuple(map(repr, row.values())) for row in changes), db.query("q").frontier))
            db.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", IN_ONE_STAGE)
def test_nothing_travels(shape: str, tmp_path: Any) -> None:
    db = open_inline(tmp_path, buckets=3)
    db.execute(STREAMS.format("INT", "INT", "INT"))
    db.execute(f"CREATE QUERY q AS {_query(shape, '=')}")
    assert len(db._engine.queries["q"].plan.fragments) == 1
    db.close()
