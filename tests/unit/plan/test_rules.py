"""Rewrite rules, each alone: what it makes of a query's plan, and where it keeps its hands off."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from sqlglot import exp

from millstream.language.binder import bind_query
from millstream.language.catalog import Catalog
from millstream.language.parser import parse_one
from millstream.plan.explain import _logical
from millstream.plan.expression import Expr, Named, column
from millstream.plan.logical import Aggregate, AggregateCall, Project
from millstream.plan.rewrite import RULES, rewrite
from millstream.plan.rules.prune_columns import prune_columns
from millstream.plan.rules.share_distinct_values import share_distinct_values

DDL = [
    "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, f DOUBLE) TIMESTAMP BY ts",
    "CREATE STREAM u (ts TIMESTAMP, k STRING, v INT, f DOUBLE) TIMESTAMP BY ts",
]


def catalog() -> Catalog:
    found = Catalog.empty()
    for sql in DDL:
        found = found.with_stream(parse_one(sql))  # type: ignore[arg-type]
    return found


def lines(sql: str, rule: str | None) -> list[str]:
    """The logical plan after this rule alone, one line a node."""
    plan = bind_query(parse_one(sql).select, catalog(), sql).plan  # type: ignore[union-attr]
    return _logical(rewrite(plan, off=frozenset(RULES) - {rule}), 0)


@pytest.mark.parametrize(
    ("where", "filters"),
    [
        ("v > 60 * 60 AND 1 < 2", ["Filter `v` > 3600"]),
        ("1 = 1", []),
        ("true OR v > 1", []),
        ("v > 1 AND 'a' = 'b'", ["Filter FALSE"]),
        ("cast(null AS boolean)", ["Filter NULL"]),
        ("CASE WHEN 1 > 2 THEN v > 1 ELSE v > 2 END", ["Filter `v` > 2"]),
        ("v > 1", ["Filter `v` > 1"]),
    ],
)
def test_fold_constants_in_a_condition(where: str, filters: list[str]) -> None:
    plan = lines(f"SELECT k FROM s [RANGE 1 HOUR] WHERE {where}", "fold_constants")
    assert [line.strip() for line in plan if "Filter" in line] == filters


def test_fold_constants_in_columns() -> None:
    assert lines("SELECT 1 + 1 AS a, v + (2 * 3) AS b, upper('x') || k AS c FROM s [NOW]", "fold_constants")[0] == (
        "Project 2 AS a, `v` + 6 AS b, CONCAT('X', `k`) AS c"
    )


def test_push_filter_below_union() -> None:
    plan = lines("SELECT k FROM (SELECT k, v FROM s [NOW] UNION ALL SELECT k, v FROM u [NOW]) WHERE v > 1", "push_filter_below_union")
    at = plan.index("  Union")
    assert plan[at + 1].strip() == "Filter `v` > 1"
    assert sum("Filter" in line for line in plan) == 2


def test_push_filter_below_union_leaves_what_is_shared() -> None:
    sql = "SELECT * FROM (SELECT k, v FROM s [NOW] UNION ALL SELECT k, v FROM s [NOW]) WHERE v > 1"
    assert lines(sql, "push_filter_below_union") == lines(sql, None)


def test_push_filter_below_aggregate() -> None:
    sql = "SELECT k, count(*) AS n FROM s [NOW] GROUP BY k HAVING k > 'a' AND count(*) > 1 AND k IS NOT NULL"
    plan = [line.strip() for line in lines(sql, "push_filter_below_aggregate")]
    assert plan[1] == "Filter `_agg0` > CAST(1 AS BIGINT)"
    assert plan[2].startswith("Aggregate by k")
    assert plan[3:5] == ["Filter NOT `k` IS NULL", "Filter `k` > 'a'"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM s [NOW] HAVING 1 > 2",
        "SELECT f, count(*) AS n FROM s [NOW] GROUP BY f HAVING cast(f AS string) = '-0.0'",
        "SELECT k, count(*) AS n FROM s [NOW] GROUP BY k HAVING count(*) > 1",
    ],
)
def test_push_filter_below_aggregate_stays_above(sql: str) -> None:
    assert lines(sql, "push_filter_below_aggregate") == lines(sql, None)


def without_indent(sql: str, *rules: str) -> list[str]:
    plan = bind_query(parse_one(sql).select, catalog(), sql).plan  # type: ignore[union-attr]
    return [line.strip() for line in _logical(rewrite(plan, off=frozenset(RULES) - set(rules)), 0)]


def test_push_filter_below_project() -> None:
    sql = "SELECT * FROM (SELECT k, v + 1 AS w FROM s [NOW]) WHERE k > 'a' AND w > 1"
    plan = without_indent(sql, "push_filter_below_project")
    assert plan[1:4] == ["Filter `w` > 1", "Project k, `v` + 1 AS w", "Filter `k` > 'a'"]


@pytest.mark.parametrize(
    ("where", "inner"),
    [
        ("s.v + u.v > 1", True),
        ("-u.v = cast(s.v AS INT)", True),
        ("s.v > 1 AND u.v < 3", True),
        ("coalesce(u.v, 1) > 0", False),
        ("u.v IS NULL", False),
        ("u.v > 1 OR s.v > 1", False),
        ("NOT u.v <=> 1", False),
        ("s.v > 1", False),
    ],
)
def test_drop_padded_rows(where: str, inner: bool) -> None:
    plan = without_indent(f"SELECT s.v FROM s [NOW] LEFT JOIN u [NOW] ON s.k = u.k WHERE {where}", "drop_padded_rows", "merge_filters")
    assert ("Union" in plan) is not inner


ONE_ROW = [
    "SELECT k FROM s [NOW] WHERE v > (SELECT max(v) FROM u [NOW])",
    "SELECT k FROM s [NOW] WHERE (SELECT 2 * max(v) FROM u [NOW]) <= v + 1 AND k > 'a'",
    "SELECT s.k FROM s [NOW], (SELECT v FROM u [NOW] ORDER BY v LIMIT 1) AS o WHERE s.v < o.v",
    "SELECT k FROM s [NOW] WHERE v > (SELECT max(v) FROM u [NOW] HAVING count(*) > 1)",
    "SELECT k FROM s [NOW] WHERE v > (SELECT max(v) FROM u [NOW] WHERE u.k = s.k)",
    "SELECT k FROM s [NOW] WHERE v > (SELECT min(v) FROM u [NOW]) AND v < (SELECT max(v) FROM u [NOW])",
    "SELECT k FROM s [NOW] WHERE v BETWEEN (SELECT min(v) FROM u [NOW]) AND (SELECT max(v) FROM u [NOW])",
    "SELECT k FROM s [NOW] WHERE NOT v <= (SELECT max(v) FROM u [NOW])",
    "SELECT k FROM s [NOW] WHERE v > (SELECT max(v) FROM u [NOW]) AND f < (SELECT max(v) FROM u [NOW])",
    "SELECT count(*) AS n FROM s [NOW] WHERE v > (SELECT max(v) FROM u [NOW])",
]
MORE_ROWS = [
    "SELECT k, m FROM s [NOW], (SELECT max(v) AS m FROM u [NOW]) WHERE v > m",
    "SELECT k FROM s [NOW] WHERE v > (SELECT count(*) FROM u [NOW] WHERE u.k = s.k)",
    "SELECT s.k FROM s [NOW], u [NOW] WHERE s.v > u.v",
    "SELECT s.k FROM s [NOW], (SELECT k, max(v) AS m FROM u [NOW] GROUP BY k) AS o WHERE s.v > o.m",
    "SELECT s.k FROM s [NOW], (SELECT v FROM u [NOW] ORDER BY v LIMIT 2) AS o WHERE s.v < o.v",
    "SELECT k FROM s [NOW] WHERE k > (SELECT max(k) FROM u [NOW])",
    "SELECT k FROM s [NOW] WHERE v = (SELECT max(v) FROM u [NOW])",
]


@pytest.mark.parametrize("sql", ONE_ROW)
def test_follow_threshold(sql: str) -> None:
    plan = bind_query(parse_one(sql).select, catalog(), sql).plan  # type: ignore[union-attr]
    lines = [line.strip() for line in _logical(rewrite(plan), 0)]
    assert any(line.startswith("Threshold") for line in lines)
    assert not any(line.startswith("Join") for line in lines)


@pytest.mark.parametrize("sql", MORE_ROWS)
def test_follow_threshold_only_beside_one_row_that_is_not_shown(sql: str) -> None:
    plan = bind_query(parse_one(sql).select, catalog(), sql).plan  # type: ignore[union-attr]
    assert not any("Threshold" in line for line in _logical(rewrite(plan), 0))


BY_EQUALITY = [
    "v = (SELECT max(v) FROM u [NOW])",
    "(SELECT max(v) FROM u [NOW]) = v AND k > 'a'",
    "f = (SELECT max(f) FROM u [NOW])",
]
BY_EVERY_PAIR = [
    "v > (SELECT max(v) FROM u [NOW])",
    "v + 1 = (SELECT max(v) FROM u [NOW])",  # no column
    "v = (SELECT max(f) FROM u [NOW])",  # compared as DOUBLE, and v is none
    "v <=> (SELECT max(v) FROM u [NOW])",
    "v = (SELECT max(v) FROM u [NOW]) OR k > 'a'",
    "NOT v = (SELECT max(v) FROM u [NOW])",
]


@pytest.mark.parametrize("where", BY_EQUALITY)
def test_join_by_equality(where: str) -> None:
    found = without_indent(f"SELECT k FROM s [NOW] WHERE {where}", "push_filter_below_project", "join_by_equality")
    assert any(line.startswith("Join on") for line in found)
    assert not any(line.startswith("Filter") and "=" in line for line in found)


@pytest.mark.parametrize("where", BY_EVERY_PAIR)
def test_join_by_equality_stays_above(where: str) -> None:
    sql = f"SELECT k FROM s [NOW] WHERE {where}"
    assert without_indent(sql, "push_filter_below_project", "join_by_equality") == without_indent(sql, "push_filter_below_project")


SHARED = [
    ("count(DISTINCT v) FILTER (WHERE f > 1)", "count(DISTINCT v) FILTER (WHERE _if0)"),
    ("count(DISTINCT CASE WHEN f > 1 THEN v END)", "count(DISTINCT v) FILTER (WHERE _if0)"),
    ("count(DISTINCT CASE f WHEN 1 THEN v END)", "count(DISTINCT v) FILTER (WHERE _if0)"),
    ("sum(DISTINCT v) FILTER (WHERE f > 1)", "sum(DISTINCT v) FILTER (WHERE _if0)"),
    ("count(DISTINCT v) FILTER (WHERE f > 1), sum(DISTINCT v) FILTER (WHERE f > 1)", "sum(DISTINCT v) FILTER (WHERE _if0)"),
    ("count(DISTINCT v) FILTER (WHERE f > 1), count(DISTINCT v) FILTER (WHERE f > 2)", "count(DISTINCT v) FILTER (WHERE _if1)"),
]
NOT_SHARED = [
    "count(DISTINCT f) FILTER (WHERE f > 1)",  # (1)
    "count(v) FILTER (WHERE f > 1)",  # every row counts
    "count(DISTINCT v, k) FILTER (WHERE f > 1)",
    "count(DISTINCT CASE WHEN f > 1 THEN v ELSE 0 END)",  # (2)
    "count(DISTINCT CASE WHEN f > 1 THEN v WHEN f > 0 THEN 1 END)",
    "count(DISTINCT CASE WHEN f > 1 THEN cast(v AS BIGINT) END)",
    "count(DISTINCT v + 1) FILTER (WHERE f > 1)",
]


@pytest.mark.parametrize(("calls", "expected"), SHARED)
def test_share_distinct_values(calls: str, expected: str) -> None:
    plan = lines(f"SELECT k, count(DISTINCT v), {calls} FROM s [RANGE 1 HOUR] GROUP BY k", "share_distinct_values")
    assert any(line.strip().startswith("Aggregate") and expected in line for line in plan), plan


@pytest.mark.parametrize("call", NOT_SHARED)
def test_share_distinct_values_keeps_off(call: str) -> None:
    sql = f"SELECT k, count(DISTINCT v), {call} FROM s [RANGE 1 HOUR] GROUP BY k"
    assert lines(sql, "share_distinct_values") == lines(sql, None)


def test_share_distinct_values_keeps_off_what_changes_from_look_to_look() -> None:
    """No query may ask for it today; (3)."""
    rows = bind_query(parse_one("SELECT v, f FROM s").select, catalog(), "").plan.input  # type: ignore[union-attr]
    chance, v = Expr(exp.LT(this=exp.Rand(), expression=exp.Literal.number("0.5")), pa.bool_()), column("v", pa.int32())
    some = Expr(exp.Case(ifs=[exp.If(this=chance.tree, true=v.tree.copy())]), pa.int32())
    calls = [AggregateCall(name, "count", name, pa.int64(), distinct=True) for name in ("v", "some")]
    plan = Aggregate(Project(rows, (Named("v", v), Named("some", some))), (), tuple(calls))
    assert share_distinct_values(plan) is plan


@pytest.mark.parametrize("window", ["[UNBOUNDED]", "[RANGE 1 HOUR]"])
def test_share_distinct_values_only_with_what_is_read(window: str) -> None:
    """An expression was evaluated, and a value kept, where nobody had asked for it."""
    both = f"SELECT count(DISTINCT v) AS a, count(DISTINCT v) FILTER (WHERE f > 1) AS b FROM s {window}"
    sql = f"SELECT b FROM ({both}) AS t"
    plan = _logical(rewrite(bind_query(parse_one(sql).select, catalog(), sql).plan), 0)  # type: ignore[union-attr]
    assert not any("_if0" in line for line in plan), plan


def test_what_holds_shared_values_is_not_pruned() -> None:
    sql = "SELECT k, count(DISTINCT v) AS a, count(DISTINCT v) FILTER (WHERE f > 1) AS b FROM s [RANGE 1 HOUR] GROUP BY k"
    plan = rewrite(bind_query(parse_one(sql).select, catalog(), sql).plan)  # type: ignore[union-attr]
    only_b = prune_columns(Project(plan, (Named("b", column("b", pa.int64())),)))
    assert any("count(DISTINCT v) AS" in line for line in _logical(only_b, 0))


def test_a_call_without_condition_is_known_as_before() -> None:
    plain = AggregateCall("n", "count", "v", pa.int64(), distinct=True)
    assert repr(plain) == (
        "AggregateCall(name='n', function='count', argument='v', type=DataType(int64), more=(), distinct=True, parameters=())"
    )
    assert repr(replace(plain, where="c")) != repr(plain)
