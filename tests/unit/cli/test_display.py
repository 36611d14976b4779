"""Values, tables and changes as people read them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from io import StringIO

import pyarrow as pa
import pytest
from rich.console import Console

from millstream.cli.display import change_lines, show_frontier, show_table, show_value
from millstream.core.instant import BEGINNING, NEVER_BEFORE
from millstream.core.schema import TIMESTAMP


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (5, "5"),
        ("", ""),
        (Decimal("1.50"), "1.50"),
        (dt.datetime(2026, 3, 2, 8, tzinfo=dt.UTC), "2026-03-02T08:00:00Z"),
        (b"\x00\xff", "00ff"),
        ([1, None], "[1, NULL]"),
        ({"a": True}, "{a: true}"),
    ],
)
def test_values(value: object, text: str) -> None:
    assert show_value(value) == text


def shown(table: pa.Table) -> str:
    out = StringIO()
    show_table(Console(file=out, width=200), table)
    return out.getvalue()


def test_a_table_shows_names_values_and_the_number_of_rows() -> None:
    text = shown(pa.table({"sym": ["A", None], "n": [12, 7]}))
    assert [line.split() for line in text.splitlines() if line.strip("─ ")] == [
        ["sym", "n"],
        ["A", "12"],
        ["NULL", "7"],
        ["(2", "rows)"],
    ]


def test_columns_of_equal_names_are_both_there_and_markup_is_not_obeyed() -> None:
    table = pa.Table.from_arrays([pa.array(["[red]x"]), pa.array(["y"])], names=["a", "a"])
    text = shown(table)
    assert "[red]x" in text
    assert "y" in text
    assert "(1 row)" in text


def test_changes_are_one_line_each() -> None:
    changes = pa.table({"instant": pa.array([4_000_000, 10_000_001], TIMESTAMP), "diff": pa.array([1, -1], pa.int8()), "sym": ["A", None]})
    assert [line.plain for line in change_lines("q", changes)] == ["q  1970-01-01T00:00:04Z  + A", "q  1970-01-01T00:00:10.000001Z  - NULL"]


def test_a_stream_that_has_no_frontier_yet_says_so() -> None:
    assert show_frontier(NEVER_BEFORE) == show_frontier(BEGINNING) == "none yet"
    assert show_frontier(0) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("width", [30, 60, 80, 500])
def test_a_table_wider_than_the_terminal_has_a_rule_as_wide_as_its_rows_and_all_its_text(width: int) -> None:
    out = StringIO()
    show_table(Console(file=out, width=width), pa.table({"name": ["b"], "sql": ["x" * 90], "at": ["1970-01-01T00:00:00.000001Z"]}))
    head, rule, *rows, _ = out.getvalue().splitlines()
    assert {len(head), len(rule)} == {len(row) for row in rows}
    assert len(rule) <= width
    assert out.getvalue().count("x") == 90
    assert "…" not in out.getvalue()
