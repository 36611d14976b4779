"""To look for least and greatest values in each bucket first, before changes travel, or without making pairs, changes no answer."""

from __future__ import annotations

import tempfile
from collections import Counter
from math import nan
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.plan.physical import AggregateExec, PairExtremesExec
from property.examples import examples

STREAMS = """
CREATE STREAM a (ts TIMESTAMP, k STRING, g INT, x DOUBLE) TIMESTAMP BY ts SLACK 1 SECOND PARTITION BY k;
CREATE STREAM b (ts TIMESTAMP, k STRING, v INT, t STRING) TIMESTAMP BY ts SLACK 1 SECOND;
"""
SECOND = 1_000_000
PAIRS = "a [RANGE {w} SECONDS] AS a JOIN b [{v}] AS b ON a.k = b.k"
SHAPES = [
    "SELECT a.g, max(b.v) AS hi FROM {} GROUP BY a.g",
    "SELECT a.g, min(b.v) AS lo, max(a.x) AS hi, max(b.t) AS last FROM {} GROUP BY a.g",
    "SELECT b.v, b.t, min(a.ts) AS first, max(b.v) AS same FROM {} GROUP BY b.t, b.v",
    "SELECT max(b.v) AS hi, min(a.ts) AS first FROM {}",
    "SELECT a.g, b.t, min(a.x) AS lo FROM {} GROUP BY a.g, b.t HAVING min(a.x) > 0 OR min(a.x) IS NULL",
    "SELECT max(n) AS most FROM (SELECT a.k, count(*) AS n FROM {} GROUP BY a.k)",
    "SELECT max(n) AS most, count(*) AS groups, count(m) AS known FROM (SELECT a.k, count(*) AS n, max(b.v) AS m FROM {} GROUP BY a.k)",
    "SELECT count(*) AS groups FROM (SELECT a.k, a.g, max(b.v) AS m FROM {} GROUP BY a.k, a.g) WHERE m > 0",
    "SELECT ISTREAM(g, max(v) AS hi) FROM {} GROUP BY g",
    "SELECT g, max(DISTINCT v) AS hi FROM {} GROUP BY g ORDER BY hi DESC LIMIT 1",
]
QUERY = st.builds(
    lambda shape, w, v: shape.format(PAIRS.format(w=w, v=v)),
    st.sampled_from(SHAPES), st.integers(0, 4),
    st.sampled_from(["RANGE 3 SECONDS", "ROWS 2", "UNBOUNDED", "RANGE 4 SECONDS SLIDE 2 SECONDS"]),
)  # fmt: skip
KEY = st.sampled_from(["p", "q", "r", "s", None])
STEP = st.integers(0, 4)
A_ROW = st.tuples(STEP, KEY, st.sampled_from([1, 1, 2, None]), st.sampled_from([0.5, -0.0, 0.0, 7.0, nan, None]))
B_ROW = st.tuples(STEP, KEY, st.integers(-2, 2) | st.none(), st.sampled_from(["", "y", "z", None]))
PIECES = st.lists(st.tuples(st.lists(A_ROW, min_size=2, max_size=8), st.lists(B_ROW, min_size=2, max_size=8)), min_size=1, max_size=4)


def _bag(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(map(repr, row.values())) for row in rows)


def _has_parts(db: Database) -> bool:
    *sent, _ = db._engine.queries["q"].plan.fragments
    return any(isinstance(fragment.root, AggregateExec | PairExtremesExec) for fragment in sent)


@settings(max_examples=examples(30))
@given(query=QUERY, pieces=PIECES, buckets=st.sampled_from([1, 2, 3, 3]), reopened=st.booleans())
def test_in_each_bucket_first_or_not(query: str, pieces: list[tuple[list[Any], list[Any]]], buckets: int, reopened: bool) -> None:
    found = []
    for off in ((), ("extremes_before_exchange",), ("extremes_of_pairs",)):
        with tempfile.TemporaryDirectory() as path:
            db = open_inline(path, buckets=buckets, runner=InlineRunner(rows_a_step=4), rules_off=off)
            db.execute(STREAMS)
            db.execute(f"CREATE QUERY q AS {query}")
            assert _has_parts(db) == ("extremes_before_exchange" not in off)
            now = 0
            for piece in pieces:
                for stream, rows in zip("ab", piece, strict=True):
                    db.insert(stream, [(now + step * SECOND // 2, *row) for step, *row in rows])
                now += SECOND
                db.flush()
            if reopened:
                db._location.close()
                db = open_inline(path, buckets=buckets, rules_off=off)
            halfway = _bag(db.query("q").result().to_pylist())
            db.advance(now + 10 * SECOND)
            db.flush()
            found.append(
                (_bag(db.query("q").changes().to_pylist()), db.query("q").frontier, halfway, _bag(db.query("q").result().to_pylist()))
            )
            db.close()
    assert found[0] == found[1] == found[2]
