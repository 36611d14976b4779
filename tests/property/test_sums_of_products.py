"""To count and add up combinations without making them changes no answer, whatever the rest of the query is."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from property.examples import examples
from property.test_extremes_before_exchange import PIECES, SECOND, STREAMS, _bag

TWO = "a [RANGE {w} SECONDS] AS a JOIN b [{v}] AS b ON a.k = b.k"
THREE = TWO + " JOIN a [RANGE 2 SECONDS] AS c ON b.k = c.k"
SHAPES = [
    f"SELECT a.k, count(*) AS n, sum(b.v) AS t, count(a.g) AS known FROM {TWO} GROUP BY a.k",
    f"SELECT a.k, sum(a.g) AS t, count(b.v) AS n, sum(c.g) AS u FROM {THREE} GROUP BY a.k HAVING count(*) > 1",
    f"SELECT DISTINCT c.k FROM {THREE}",
    f"SELECT max(n) AS most, count(*) AS groups FROM (SELECT b.k, count(*) AS n FROM {TWO} WHERE b.v >= 0 GROUP BY b.k)",
    f"SELECT ISTREAM(k, count(*) AS n) FROM (SELECT a.k AS k, b.v FROM {TWO} WHERE a.g = 1) GROUP BY k",
    "SELECT a.k, a.g, sum(b.v) AS t FROM a [RANGE {w} SECONDS] AS a JOIN b [{v}] AS b ON a.k = b.k AND a.g = b.v GROUP BY a.g, a.k",
]
QUERY = st.builds(
    lambda shape, w, v: shape.format(w=w, v=v),
    st.sampled_from(SHAPES), st.integers(0, 4), st.sampled_from(["RANGE 3 SECONDS", "ROWS 2", "UNBOUNDED", "PARTITION BY k ROWS 1"]),
)  # fmt: skip


@settings(max_examples=examples(30))
@given(query=QUERY, pieces=PIECES, buckets=st.sampled_from([1, 2, 3]), reopened=st.booleans())
def test_with_pairs_or_without(query: str, pieces: list[tuple[list[Any], list[Any]]], buckets: int, reopened: bool) -> None:
    found = []
    for off in ((), ("sums_of_products",)):
        with tempfile.TemporaryDirectory() as path:
            db = open_inline(path, buckets=buckets, runner=InlineRunner(rows_a_step=4), rules_off=off)
            db.execute(STREAMS)
            db.execute(f"CREATE QUERY q AS {query}")
            assert ("Sums of products" in str(db.execute(f"EXPLAIN {query}").to_pydict())) == (not off)
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
    assert found[0] == found[1]
