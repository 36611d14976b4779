"""Queries that give the rules something to do answer the same, change by change, with a rule and without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inline import open_inline
from millstream.plan.rewrite import RULES

SECOND = 1_000_000
QUERIES = [
    "SELECT k, v + 2 * 3 AS x, upper('a') || k AS y FROM s [RANGE 3 SECONDS] WHERE 1 < 2 AND v > 3 - 2",
    "SELECT k FROM s [RANGE 3 SECONDS] WHERE 'a' = 'b'",
    "SELECT count(*) AS n FROM s [RANGE 3 SECONDS] WHERE cast(null AS boolean)",
    "SELECT count(*) AS n FROM s [RANGE 3 SECONDS] HAVING 1 > 2",
    "SELECT CASE WHEN 1 > 2 THEN v WHEN v IS NULL THEN -1 ELSE v + 1 END AS x FROM s",
    "SELECT k, v FROM (SELECT k, v FROM s [RANGE 3 SECONDS] UNION ALL SELECT k, v + 1 FROM u [RANGE 2 SECONDS]) WHERE v > 1",
    "SELECT k FROM (SELECT k, v FROM s [RANGE 3 SECONDS] EXCEPT ALL SELECT k, v FROM u [RANGE 3 SECONDS]) WHERE v > 1",
    "SELECT s.v, u.v AS w FROM s [RANGE 3 SECONDS] LEFT JOIN u [RANGE 3 SECONDS] ON s.k = u.k WHERE s.v > 1 AND 2 > 1",
    "SELECT k, count(*) AS n, sum(v) AS t FROM s [RANGE 3 SECONDS] GROUP BY k HAVING k > 'a' AND sum(v) > 1",
    "SELECT f, count(*) AS n FROM s [RANGE 3 SECONDS] GROUP BY f HAVING cast(f AS string) = '0.0'",
    "SELECT k, v FROM s [RANGE 3 SECONDS] WHERE v > (SELECT avg(v) FROM u [RANGE 4 SECONDS])",
    "SELECT k, v FROM s [RANGE 3 SECONDS] WHERE v >= (SELECT max(v) FROM u [RANGE 1 SECOND] WHERE u.k = s.k) AND f >= 0",
    "SELECT s.v, u.v AS w FROM s [RANGE 3 SECONDS] LEFT JOIN u [RANGE 1 SECOND] ON s.k = u.k WHERE s.v + u.v > 4",
    "SELECT k, w FROM (SELECT k, v + 1 AS w, f FROM s [RANGE 3 SECONDS]) WHERE f >= 0 AND w > 2",
    "SELECT DISTINCT k FROM s [RANGE 3 SECONDS] WHERE k IS NOT NULL",
]
ROWS = [(0, "a", 1, 0.0), (1, "b", 2, -0.0), (1, "b", 3, 1.0), (2, None, None, None), (4, "c", 4, -0.0), (5, "b", 2, 0.0), (9, "a", 9, 1.0)]


def changes(directory: Path, rules_off: tuple[str, ...]) -> list[list[tuple[Any, ...]]]:
    with open_inline(directory, rules_off=rules_off) as db:
        for name in ("s", "u"):
            db.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k STRING, v INT, f DOUBLE) TIMESTAMP BY ts")
        queries = [db.execute(sql) for sql in QUERIES]
        for part in (ROWS[:3], ROWS[3:]):
            for name in ("s", "u"):
                db.insert(name, [(second * SECOND, *row) for second, *row in part])
            db.flush()
        db.advance(20 * SECOND)
        db.flush()
        return [sorted((tuple(row.values()) for row in query.changes().to_pylist()), key=repr) for query in queries]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_answers_are_the_same_without_the_rule(tmp_path: Path, rule: str) -> None:
    on, off = changes(tmp_path / "on", ()), changes(tmp_path / "off", (rule,))
    for sql, with_rule, without in zip(QUERIES, on, off, strict=True):
        assert with_rule == without, sql
    assert sum(map(len, on)) > 60
