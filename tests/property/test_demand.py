"""What nobody demands can be left out: every query answers the same without the rows that no live query wants."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import open_inline
from millstream.api import Database
from millstream.core.schema import Schema
from millstream.runtime.demand import Demand
from millstream.runtime.rows import table_of
from property.examples import examples

SCHEMA = Schema.of(ts="TIMESTAMP", k="STRING", v="INT")
DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
QUERIES = (
    "SELECT k, v FROM s WHERE v > 2",
    "SELECT k, sum(v) AS n FROM s [RANGE 4 MICROSECONDS] WHERE k = 'a' OR k IS NULL GROUP BY k",
    "SELECT count(*) AS n FROM s [RANGE 3 MICROSECONDS] WHERE NOT (k LIKE '\"v\"%' OR v < 1)",
    "SELECT w FROM (SELECT v + 1 AS w, k AS v FROM s [NOW]) WHERE w < 3 AND v <> 'b''s'",
    "SELECT a.v, b.k FROM s [RANGE 2 MICROSECONDS] AS a, s [RANGE 3 MICROSECONDS] AS b WHERE a.v = b.v AND a.k = 'a' AND b.v > 0",
    "SELECT v FROM s [ROWS 2] WHERE v > 3",
    "SELECT k FROM s [PARTITION BY k ROWS 1] WHERE k = 'a'",
    "SELECT upper(k) AS u, v / 2 AS h FROM s WHERE v / (v - 1) > 1 AND length(k) = 1",
)
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "b's", '"v"', None]), st.one_of(st.none(), st.integers(0, 4))), max_size=15)


@settings(max_examples=examples(8))
@given(st.sets(st.sampled_from(QUERIES), min_size=1, max_size=3), ROWS)
def test_rows_that_no_query_wants_make_no_difference(queries: set[str], given_rows: list[tuple[Any, ...]]) -> None:
    rows = table_of([(i, *row) for i, row in enumerate(given_rows)], SCHEMA, "s")
    with tempfile.TemporaryDirectory() as directory, open_inline(Path(directory, "all")) as full, open_inline(
        Path(directory, "wanted")
    ) as sparing:  # fmt: skip
        for db in (full, sparing):
            db.execute(DDL)
            for i, sql in enumerate(sorted(queries)):
                db.execute(f"CREATE QUERY q{i} AS {sql}")
        demand = sparing._statements.proxies.demand_on("s")
        wanted = demand.wanted(rows)
        full.insert("s", rows)
        sparing.insert("s", rows.filter(pa.array(wanted)))
        for i in range(len(queries)):
            assert changes(full, f"q{i}") == changes(sparing, f"q{i}"), (demand.predicate, sorted(queries)[i])
        assert demand.queries == len(queries)
        if any("[ROWS" in sql for sql in queries):
            assert (demand.predicate, wanted.all()) == (None, True)


def changes(db: Database, name: str) -> list[str]:
    db.advance("s", 100)
    db.flush()
    return sorted(map(str, db.query(name).changes().to_pylist()))


def test_without_queries_nothing_is_wanted() -> None:
    rows = table_of([(0, "a", 1), (1, "b", 2)], SCHEMA, "s")
    assert not Demand(0, 0.0, "FALSE", ("ts",)).wanted(rows).any()
    assert Demand(1, None, None, ("ts",)).wanted(rows).all()
    assert np.array_equal(Demand(1, None, '"v" > 1', ("ts",)).wanted(rows.to_batches()[0]), [False, True])
