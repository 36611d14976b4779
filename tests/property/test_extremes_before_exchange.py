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


ASIDE = """
CREATE STREAM a (ts TIMESTAMP, k INT, g INT, v INT) TIMESTAMP BY ts {a};
CREATE STREAM b (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts {b};
CREATE RELATION r (k INT, v INT);
CREATE RELATION s (k INT, v INT);
CREATE QUERY n AS SELECT k, count(*) AS v FROM a [RANGE 2 SECONDS] GROUP BY k;
"""
TAKING_BACK = [
    "SELECT a.g, max(b.v) AS m FROM a [RANGE 2 SECONDS] AS a LEFT JOIN b [RANGE 3 SECONDS] AS b ON a.k = b.k GROUP BY a.g",
    "SELECT a.g, min(r.v) AS m FROM a [RANGE 2 SECONDS] AS a LEFT JOIN r ON a.k = r.k GROUP BY a.g",
    "SELECT r.v, min(a.v) AS m FROM a [RANGE 2 SECONDS] AS a RIGHT JOIN r ON a.k = r.k GROUP BY r.v",
    "SELECT max(a.v) AS m, min(r.v) AS l FROM a [RANGE 2 SECONDS] AS a FULL JOIN r ON a.k = r.k",
    "SELECT a.g, max(a.v) AS m FROM a [RANGE 2 SECONDS] AS a ANTI JOIN r ON a.k = r.k GROUP BY a.g",
    "SELECT max(a.v) AS m FROM a [RANGE 2 SECONDS] AS a WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 3 SECONDS] AS b WHERE b.k = a.k)",
    "SELECT a.g, max(a.v) AS m FROM a [RANGE 2 SECONDS] AS a WHERE a.k NOT IN (SELECT k FROM r) GROUP BY a.g",
    "SELECT k, max(v) AS m FROM (SELECT k, v FROM r UNION ALL SELECT k, v FROM s) GROUP BY k",
    "SELECT max(v) AS m FROM (SELECT k + 1 AS k, v FROM n UNION ALL SELECT k, v FROM r)",
    "SELECT k, max(v) AS m FROM (SELECT k, v FROM r EXCEPT ALL SELECT k, v FROM s) GROUP BY k",
    "SELECT max(v) AS m FROM (SELECT k, v FROM r EXCEPT SELECT k, v FROM s)",
]
SMALL = st.integers(0, 3)
DONE = st.one_of(
    st.tuples(st.just("INSERT INTO {} VALUES ({}, {})"), st.sampled_from("rs"), SMALL, SMALL),
    st.tuples(st.just("DELETE FROM {} WHERE k = {} OR v = {}"), st.sampled_from("rs"), SMALL, SMALL),
    st.tuples(st.just("UPDATE {} SET v = {} WHERE k = {}"), st.sampled_from("rs"), SMALL, SMALL),
)
A_FEW = st.lists(st.tuples(STEP, SMALL, SMALL, SMALL), max_size=5)
SECONDS = st.lists(st.tuples(A_FEW, A_FEW, st.lists(DONE, max_size=4)), min_size=1, max_size=4)


@settings(max_examples=examples(60))
@given(
    query=st.sampled_from(TAKING_BACK), seconds=SECONDS, buckets=st.sampled_from([2, 3, 5]),
    split=st.sampled_from([("", ""), ("PARTITION BY k", ""), ("PARTITION BY k", "PARTITION BY k")]),
)  # fmt: skip
def test_rows_that_are_taken_back_elsewhere(query: str, seconds: list[Any], buckets: int, split: tuple[str, str]) -> None:
    """A row that an outer join, NOT EXISTS, EXCEPT or a relation takes back was perhaps in another bucket: none of them alone knows."""
    found = []
    for count, off in ((1, ("extremes_before_exchange",)), (buckets, ("extremes_before_exchange",)), (buckets, ())):
        with tempfile.TemporaryDirectory() as path:
            db = open_inline(path, buckets=count, runner=InlineRunner(rows_a_step=4), rules_off=off)
            db.execute(ASIDE.format(a=split[0], b=split[1]))
            db.execute(f"CREATE QUERY q AS {query}")
            now = SECOND
            for a_rows, b_rows, statements in seconds:
                db.insert("a", [(now + step * SECOND // 5, *row) for step, *row in a_rows])
                db.insert("b", [(now + step * SECOND // 5, k, v) for step, k, _, v in b_rows])
                for text, *names in statements:
                    db.execute(text.format(*names))
                now += SECOND
                db.advance(now - 1)
                db.flush()
            db.advance(now + 10 * SECOND)
            db.flush()
            found.append((_bag(db.query("q").changes().to_pylist()), _bag(db.query("q").result().to_pylist())))
            db.close()
    assert found[0] == found[1] == found[2]
