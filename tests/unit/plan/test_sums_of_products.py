"""When combinations are counted without making them, one test for each condition of the rule."""

from __future__ import annotations

import pytest

from millstream.plan.expiry import Expiry
from unit.plan.test_extremes_of_pairs import PAIRS, explained

THREE = f"{PAIRS} JOIN a [ROWS 5] AS c ON b.k = c.k"


def product(sql: str, *off: str, expiry: Expiry | None = None) -> str | None:
    lines = explained(sql, *off, expiry=expiry).splitlines()
    return next((line.strip() for line in lines if "Sums of products" in line), None)


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        (f"SELECT a.k, sum(b.v) AS t, count(*) AS n FROM {PAIRS} GROUP BY a.k", "on k = k_2: sum(v_2), count(*)"),
        (f"SELECT c.k, count(a.g) AS n FROM {THREE} GROUP BY c.k", "on k = k_2 = k_3: count(g)"),
        (f"SELECT a.k, count(*) AS n FROM {THREE} GROUP BY a.k", "on k = k_2 = k_3: count(*)"),
        (f"SELECT DISTINCT a.k FROM {PAIRS}", "on k = k_2: distinct"),
        (f"SELECT b.g, a.k, count(*) AS n FROM {PAIRS} AND a.g = b.g GROUP BY b.g, a.k", "on g = g_2 and k = k_2: count(*)"),
    ],
)
def test_it_fires_and_can_be_switched_off(sql: str, line: str) -> None:
    found = product(sql)
    assert found is not None
    assert sorted(found.split("on ")[1].split(": ")[0].replace(" and ", " = ").split(" = ")) == sorted(
        line.removeprefix("on ").split(": ")[0].replace(" and ", " = ").split(" = ")
    )
    assert found.split(": ")[1].startswith(line.split(": ")[1])
    assert product(sql, "sums_of_products") is None


@pytest.mark.parametrize("call", ["max(b.v)", "avg(b.v)", "sum(b.d)", "count(DISTINCT b.v)", "sum(DISTINCT b.v)"])
def test_1_only_counts_and_sums_of_integers(call: str) -> None:
    assert product(f"SELECT a.k, count(*) AS n, {call} AS x FROM {PAIRS} GROUP BY a.k") is None


def test_2_only_directly_above_a_join() -> None:
    assert product(f"SELECT a.k, count(*) AS n FROM {PAIRS} WHERE a.v < b.v GROUP BY a.k") is None


@pytest.mark.parametrize("expiry", ["time_message", "piggyback", "input_triggered"])
def test_2_not_where_pairs_say_when_they_end(expiry: Expiry) -> None:
    assert product(f"SELECT a.k, count(*) AS n FROM {PAIRS} GROUP BY a.k", expiry=expiry) is None


@pytest.mark.parametrize("groups", ["a.g", "a.k, a.g", "a.k, b.k"])
def test_3_only_by_the_whole_key_once(groups: str) -> None:
    assert product(f"SELECT count(*) AS n FROM {PAIRS} GROUP BY {groups}") is None


@pytest.mark.parametrize("join", [PAIRS, "a [RANGE 5 SECONDS] CROSS JOIN b [RANGE 6 SECONDS]"])
def test_3_only_where_there_are_groups(join: str) -> None:
    assert product(f"SELECT count(*) AS n FROM {join}") is None


def test_3_not_by_a_part_of_the_key() -> None:
    assert product(f"SELECT count(*) AS n FROM {PAIRS} AND a.g = b.g GROUP BY a.k") is None


def test_4_only_where_null_equals_nothing() -> None:
    pairs = PAIRS.replace(" = ", " <=> ")
    assert product(f"SELECT a.k, count(*) AS n FROM {pairs} GROUP BY a.k") is None


def test_a_side_that_is_a_join_on_something_else_stays_one() -> None:
    found = product(f"SELECT c.g, count(*) AS n FROM {PAIRS} JOIN a [ROWS 5] AS c ON b.g = c.g GROUP BY c.g")
    assert found is not None
    assert found.count(" = ") == 1
