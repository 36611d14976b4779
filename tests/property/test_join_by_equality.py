"""Rows that meet one value by equality, and windows that move by whole steps, answer as the definition does: every pair, every row."""

from __future__ import annotations

import tempfile
from collections import Counter
from math import nan
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from property.examples import examples

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, x DOUBLE) TIMESTAMP BY ts SLACK 1 SECOND {}"
SECOND = 1_000_000
RULES = ("join_by_equality", "aggregate_by_panes")
SHAPES = [
    "SELECT RSTREAM(k, v, x) FROM s [{w}] WHERE v = (SELECT max(v) FROM s [{w}])",
    "SELECT RSTREAM(k, v) FROM s [{w}]",
    "SELECT RSTREAM(k, count(*) AS n, sum(v) AS t) FROM s [{w}] GROUP BY k",
    "SELECT k, v FROM s [{w}] WHERE (SELECT min(v) FROM s [{w}]) = v",
    "SELECT k, x FROM s [{w}] WHERE x = (SELECT max(x) FROM s [{w}]) AND v = (SELECT max(v) FROM s [{w}])",
    "SELECT count(*) AS n FROM s [{w}] WHERE v = (SELECT max(v) FROM s [RANGE 3 SECONDS])",
]
WINDOWS = ["RANGE 2 SECONDS SLIDE 2 SECONDS", "RANGE 4 SECONDS SLIDE 2 SECONDS", "RANGE 3 SECONDS SLIDE 2 SECONDS", "RANGE 2 SECONDS"]
QUERY = st.builds(lambda shape, window: shape.format(w=window), st.sampled_from(SHAPES), st.sampled_from(WINDOWS))
ROW = st.tuples(
    st.integers(0, 4), st.sampled_from(["p", "q", None]), st.sampled_from([-1, 0, 2, 2, None]),
    st.sampled_from([0.5, -0.0, 0.0, nan, None]),
)  # fmt: skip
PIECES = st.lists(st.tuples(st.lists(ROW, min_size=1, max_size=8), st.booleans()), min_size=1, max_size=5)


@settings(max_examples=examples(40))
@given(query=QUERY, pieces=PIECES, buckets=st.sampled_from([1, 2, 3]), split=st.sampled_from(["", "PARTITION BY k"]))
def test_by_equality_and_by_steps_or_not(query: str, pieces: list[tuple[list[Any], bool]], buckets: int, split: str) -> None:
    found = []
    for off in ((), RULES):
        with tempfile.TemporaryDirectory() as path:
            db = open_inline(path, buckets=buckets, runner=InlineRunner(rows_a_step=4), rules_off=off)
            db.execute(STREAM.format(split))
            db.execute(f"CREATE QUERY q AS {query}")
            now = 0
            for rows, reopened in pieces:
                db.insert("s", [(now + step * SECOND // 2, *row) for step, *row in rows])
                now += max(row[0] for row in rows) * SECOND // 2
                db.flush()
                if reopened:
                    db.close()
                    db = open_inline(path, buckets=buckets, runner=InlineRunner(rows_a_step=4), rules_off=off)
            db.advance(now + 6 * SECOND)
            db.flush()
            found.append(Counter(tuple(map(repr, row.values())) for row in db.query("q").changes().to_pylist()))
            db.close()
    assert found[0] == found[1]
