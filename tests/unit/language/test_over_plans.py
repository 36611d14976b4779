"""OVER and ORDER BY ... LIMIT as plans: what EXPLAIN says, and when numbered rows become first rows."""

from __future__ import annotations

import pytest

from millstream.language.catalog import Catalog
from millstream.language.parser import parse_one
from millstream.runtime.compile import compile_query

CATALOG = Catalog.empty().with_stream(parse_one("CREATE STREAM s (ts TIMESTAMP, k STRING, x INT, y DOUBLE) TIMESTAMP BY ts"))  # type: ignore[arg-type]
NUMBERED = "SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM s) WHERE {condition}"


def explained(sql: str) -> list[str]:
    text = compile_query(parse_one(sql).select, CATALOG, sql).explain()  # type: ignore[attr-defined]
    return [line.strip() for line in text.split("Physical plan")[1].splitlines()]


def test_keys_order_frames_and_state_are_shown() -> None:
    lines = explained("SELECT k, sum(x) OVER (PARTITION BY k ORDER BY ts, y DESC NULLS FIRST ROWS 2 PRECEDING) AS t FROM s [RANGE 1 HOUR]")
    over = "Over (by k in order of ts, y DESC NULLS FIRST): sum(x) ROWS 2 PRECEDING TO CURRENT ROW AS _over0, holds its rows in order"
    assert over in lines
    assert "Source s (ts, k, x, y), by k" in lines


def test_calls_over_one_window_are_one_node() -> None:
    lines = explained(
        "SELECT lag(x) OVER w AS a, lead(x, 2) OVER w AS b, lag(x) OVER w AS c FROM s WINDOW w AS (PARTITION BY k ORDER BY ts)"
    )
    assert [line for line in lines if line.startswith("Over")] == [
        "Over (by k in order of ts): lag(x, 1) AS _over0, lead(x, 2) AS _over1, holds its rows in order"
    ]


def test_where_ties_show_nothing_other_columns_are_not_kept() -> None:
    assert "Source s (k, x), by k" in explained("SELECT k, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM s")


def test_first_rows() -> None:
    lines = explained("SELECT k FROM s [RANGE 1 HOUR] ORDER BY x DESC LIMIT 3 OFFSET 1")
    assert "Top 3 behind the first 1 (in order of order1 DESC), holds its rows in order" in lines


@pytest.mark.parametrize(
    ("columns", "condition", "expected"),
    [
        ("k, n", "n <= 3", "Top 3 (by k in order of ts DESC), numbered as _over0, holds its rows in order"),
        ("k", "n < 3 AND x > 1", "Top 2 (by k in order of ts DESC), holds its rows in order"),
        ("k", "1 = n", "Top 1 (by k in order of ts DESC), holds its rows in order"),
        ("k", "n > 1 AND n <= 3", "Top 2 behind the first 1 (by k in order of ts DESC), holds its rows in order"),
        ("k", "n > 3", "Over (by k in order of ts DESC): row_number() AS _over0, holds its rows in order"),
        ("k", "n <= x", "Over (by k in order of ts DESC): row_number() AS _over0, holds its rows in order"),
    ],
)  # fmt: skip
def test_small_numbers_are_first_rows(columns: str, condition: str, expected: str) -> None:
    assert expected in explained(NUMBERED.format(columns=columns, condition=condition))


def test_names_of_columns_are_spark_s() -> None:
    sql = "SELECT row_number() OVER (ORDER BY x), sum(x) OVER (), lag(x) OVER (PARTITION BY k ORDER BY ts DESC) FROM s"
    assert compile_query(parse_one(sql).select, CATALOG, sql).bound.names == (  # type: ignore[attr-defined]
        "row_number() OVER (ORDER BY x ASC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "sum(x) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "lag(x, 1, NULL) OVER (PARTITION BY k ORDER BY ts DESC NULLS LAST ROWS BETWEEN -1 FOLLOWING AND -1 FOLLOWING)",
    )
