"""Which parts of plans are the same, whatever the queries around them are."""

from __future__ import annotations

import pytest

from millstream.language import statements as ast
from millstream.language.catalog import Catalog
from millstream.language.parser import parse_one
from millstream.plan.explain import describe
from millstream.plan.physical import PhysicalPlan
from millstream.plan.shared_subplans import CommonSubplans, found_in
from millstream.runtime.compile import compile_query

AGGREGATE = "Aggregate by (k): avg(v) AS _agg0, holds one row per group"
WINDOW = "Window [RANGE 1 MINUTE], holds its rows"
JOIN = "Join on k = k_2, holds the rows of both sides"


def plan(sql: str) -> PhysicalPlan:
    catalog = Catalog.empty()
    for name in ("s", "t"):
        statement = parse_one(f"CREATE STREAM {name} (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        assert isinstance(statement, ast.CreateStream)
        catalog = catalog.with_stream(statement)
    select = parse_one(sql)
    assert isinstance(select, ast.Select)
    return compile_query(select.select, catalog, sql, expiry=select.expiry).physical


def common(one: str, other: str) -> list[str]:
    return [describe(part) for parts in found_in(plan(one), {"other": plan(other)}) for part in parts]


HAVING = "SELECT k, avg(v) FROM s [RANGE 1 MINUTE] GROUP BY k HAVING avg(v) > {}"
JOINED = "SELECT {} FROM s [RANGE 1 MINUTE] a, t [RANGE 1 MINUTE] b WHERE a.k = b.k {}"


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (HAVING.format(3), HAVING.format(5), [AGGREGATE]),
        (HAVING.format(3), "SELECT k AS other, avg(v) AS mean FROM s [RANGE 1 MINUTE] x GROUP BY k", [AGGREGATE]),
        (HAVING.format(3), "SELECT k, sum(v) FROM s [RANGE 1 MINUTE] GROUP BY k", [WINDOW]),
        (HAVING.format(3), "SELECT k, avg(v) FROM s [RANGE 2 MINUTES] GROUP BY k", []),
        (HAVING.format(3), "SELECT k, avg(v) FROM s [RANGE 1 MINUTE] WHERE v > 0 GROUP BY k", []),
        (HAVING.format(3), "SELECT k, avg(v) FROM t [RANGE 1 MINUTE] GROUP BY k", []),
        ("SELECT k FROM s WHERE v > 1", "SELECT k FROM s WHERE v > 1", []),  # rows that go their way alone
        (HAVING.format(3) + " WITH EXPIRY input_triggered", HAVING.format(3) + " WITH EXPIRY input_triggered", []),
    ],
)
def test_what_two_queries_have_in_common(one: str, other: str, shared: list[str]) -> None:
    assert common(one, other) == shared
    assert common(other, one) == shared


def test_a_join_below_other_aggregates_is_the_same() -> None:
    one = JOINED.format("a.k, sum(a.v + b.v)", "GROUP BY a.k")
    other = JOINED.format("a.k, max(a.v * b.v)", "GROUP BY a.k")
    assert common(one, other) == [JOIN]


def test_what_is_received_is_the_same_only_if_it_is_sent_by_the_same() -> None:
    """Both second fragments receive from fragment 0, and do the same with it."""
    groups = "SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM s [RANGE {} SECONDS] GROUP BY k) GROUP BY n"
    assert len(plan(groups.format(5)).fragments) == 2
    assert common(groups.format(5), groups.format(6)) == []
    assert len(common(groups.format(5), groups.format(5))) == 2


def test_fragments_are_together_through_others() -> None:
    plans = [
        ("a", plan(HAVING.format(3))),
        ("b", plan("SELECT k, sum(v) FROM s [RANGE 1 MINUTE] GROUP BY k")),
        ("c", plan("SELECT k, sum(v) FROM s [RANGE 1 MINUTE] GROUP BY k HAVING sum(v) > 2")),
        ("d", plan("SELECT k, sum(v) FROM t [RANGE 1 MINUTE] GROUP BY k")),
    ]
    together = CommonSubplans(on=True).together([plans])
    assert together.keys() == {("a", 0), ("b", 0), ("c", 0)}
    assert len(set(together.values())) == 1
    assert CommonSubplans(on=False).together([plans]) == {}


def test_those_that_are_not_alike_are_apart() -> None:
    plans = [(name, plan(HAVING.format(3))) for name in "abcd"]
    together = CommonSubplans(on=True).together([plans[:2], plans[2:]])
    assert together[("a", 0)] == together[("b", 0)] != together[("c", 0)] == together[("d", 0)]
    assert CommonSubplans(on=True).together([plans[:1], plans[1:2]]) == {}
