"""When the extremes of pairs are found without making the pairs, one test for each condition of the rule."""

from __future__ import annotations

import pytest

from millstream.language.catalog import Catalog
from millstream.language.parser import parse_one
from millstream.plan.expiry import Expiry
from millstream.runtime.compile import compile_query

PAIRS = "a [RANGE 5 SECONDS] JOIN b [RANGE 6 SECONDS] ON a.k = b.k"


def explained(sql: str, *off: str, expiry: Expiry | None = None) -> str:
    catalog = Catalog.empty()
    for name in "ab":
        columns = "ts TIMESTAMP, k INT, g INT, s STRING, v INT, d DECIMAL(10, 2), " + ", ".join(f"v{i} INT" for i in range(64))
        ddl = f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts PARTITION BY k"
        catalog = catalog.with_stream(parse_one(ddl))  # type: ignore[arg-type]
    select = parse_one(sql).select  # type: ignore[union-attr]
    return compile_query(select, catalog, sql, rules_off=frozenset(off), expiry=expiry).explain()


def fires(sql: str, *off: str, expiry: Expiry | None = None) -> bool:
    return "Extremes of pairs" in explained(sql, *off, expiry=expiry)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT a.g, max(b.v) AS hi FROM {PAIRS} GROUP BY a.g",
        f"SELECT b.g, max(b.v) AS hi, min(a.ts) AS lo, max(DISTINCT a.g) AS d FROM {PAIRS} GROUP BY b.g",
        f"SELECT a.k, min(b.v) AS lo FROM {PAIRS} WHERE a.v > 1 AND b.g = 2 GROUP BY a.k",
        "SELECT a.g, max(b.v) AS hi FROM a [RANGE 4 SECONDS SLIDE 2 SECONDS] JOIN b [NOW] ON a.k <=> b.k GROUP BY a.g",
    ],
)
def test_it_fires_and_can_be_switched_off(sql: str) -> None:
    assert fires(sql)
    assert not fires(sql, "extremes_of_pairs")


def test_the_plan_tells_what_runs() -> None:
    plan = explained(f"SELECT b.g, max(a.v) AS hi FROM {PAIRS} GROUP BY b.g")
    assert "Extremes of pairs on k_2 = k, by (g_2): max(v) AS _agg0, holds the rows of both sides" in plan
    assert plan.count("rows say when they end, holds nothing") == 2


@pytest.mark.parametrize("call", ["count(*)", "sum(b.v)", "max(b.s)", "max(b.d)", "max_by(b.v, a.v)"])
def test_1_only_least_and_greatest_numbers(call: str) -> None:
    assert not fires(f"SELECT a.g, max(b.v) AS hi, {call} AS x FROM {PAIRS} GROUP BY a.g")


def test_2_only_directly_above_a_join() -> None:
    assert not fires(f"SELECT a.g, max(b.v) AS hi FROM {PAIRS} WHERE a.v < b.v GROUP BY a.g")


@pytest.mark.parametrize("expiry", ["time_message", "piggyback", "input_triggered"])
def test_2_not_where_pairs_say_when_they_end(expiry: Expiry) -> None:
    assert not fires(f"SELECT a.g, max(b.v) AS hi FROM {PAIRS} GROUP BY a.g", expiry=expiry)


@pytest.mark.parametrize("window", ["[ROWS 5]", "[UNBOUNDED]", "[PARTITION BY k ROWS 2]"])
def test_3_only_over_windows_whose_rows_end(window: str) -> None:
    assert not fires(f"SELECT a.g, max(b.v) AS hi FROM a [RANGE 5 SECONDS] JOIN b {window} ON a.k = b.k GROUP BY a.g")


def test_3_not_over_changes_of_a_query() -> None:
    other = "(SELECT k, count(*) AS v FROM b [RANGE 5 SECONDS] GROUP BY k)"
    assert not fires(f"SELECT a.g, max(b.v) AS hi FROM a [RANGE 5 SECONDS] JOIN {other} AS b ON a.k = b.k GROUP BY a.g")


@pytest.mark.parametrize("groups", ["GROUP BY a.g, b.g", ""])
def test_4_only_by_columns_of_one_side(groups: str) -> None:
    assert not fires(f"SELECT max(b.v) AS hi FROM {PAIRS} {groups}")


@pytest.mark.parametrize(("many", "fits"), [(63, True), (64, False)])
def test_5_no_more_calls_than_a_word_has_bits(many: int, fits: bool) -> None:
    """The 65th call of one side got 0 for NULL, or stopped the query."""
    calls = ", ".join(f"max({'ab'[i % 3 == 0]}.v{i}) AS c{i}" for i in range(many))
    assert fires(f"SELECT a.g, {calls} FROM {PAIRS} GROUP BY a.g") == fits
