"""Names of columns without an alias.  tests/spark/test_binder_names.py asks Spark itself; these need no JVM."""

from __future__ import annotations

import pytest

from unit.language.corpus import bind


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("size", "size"),
        ("SIZE", "SIZE"),
        ("trades.size", "size"),
        ("(size)", "size"),
        ("size AS `My Size`", "My Size"),
        ("size + 1 * 2", "(size + (1 * 2))"),
        ("-size", "(- size)"),
        ("-1", "-1"),
        ("size <> 1 AND NOT sym IS NULL", "((NOT (size = 1)) AND (sym IS NOT NULL))"),
        ("sym LIKE 'a%' OR sym NOT LIKE 'b%'", "(sym LIKE a% OR (NOT sym LIKE b%))"),
        ("size BETWEEN 1 AND 2", "between(size, 1, 2)"),
        ("size IN (1, 2)", "(size IN (1, 2))"),
        ("cast(size AS STRING)", "size"),
        ("cast(size + 1 AS STRING)", "CAST((size + 1) AS STRING)"),
        ("CASE WHEN size > 1 THEN 'a' ELSE 'b' END", "CASE WHEN (size > 1) THEN a ELSE b END"),
        ("if(size > 1, 2, 3)", "(IF((size > 1), 2, 3))"),
        ("sym || 'x'", "concat(sym, x)"),
        ("Upper(sym)", "upper(sym)"),
        ("arr[0]", "arr[0]"),
        ("st.x", "x"),
        ("st.x + 1", "(st.x + 1)"),
        ("1L", "1"),
        ("1e10", "1.0E10"),
        ("ts + INTERVAL 5 MINUTES", "ts + INTERVAL '05' MINUTE"),
        ("TIMESTAMP '2020-01-01T00:00:00.120Z'", "TIMESTAMP '2020-01-01 00:00:00.12'"),
    ],
)
def test_scalar_names(item: str, name: str) -> None:
    assert bind(f"SELECT {item} FROM trades").names == (name,)


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("count(*)", "count(1)"),
        ("COUNT(size)", "count(size)"),
        ("Sum(SIZE)", "sum(SIZE)"),
        ("mean(size)", "mean(size)"),
        ("sum(size) / count(*) + 1", "((sum(size) / count(1)) + 1)"),
        ("sum(CASE WHEN size > 1 THEN 1 ELSE 0 END)", "sum(CASE WHEN (size > 1) THEN 1 ELSE 0 END)"),
    ],
)
def test_aggregate_names(item: str, name: str) -> None:
    assert bind(f"SELECT {item} FROM trades").names == (name,)
