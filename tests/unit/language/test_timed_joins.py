"""As-of and zipper joins: what is read, what is refused and where, and the plans they become."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.language.parser import parse_one
from millstream.plan.explain import explain
from millstream.plan.logical import AsOfJoin, JoinKey, Match, Plan, children
from millstream.plan.planner import plan_physical
from millstream.plan.rewrite import rewrite
from unit.language.corpus import bind, error_of

ASOF = "SELECT t.size FROM trades [NOW] AS t {join} trades AS q MATCH_CONDITION ({match}){on}"


def join_of(sql: str) -> exp.Join:
    (join,) = parse_one(sql).select.args["joins"]  # type: ignore[union-attr]
    assert isinstance(join, exp.Join)
    return join


def asof_of(plan: Plan) -> AsOfJoin:
    if isinstance(plan, AsOfJoin):
        return plan
    return asof_of(children(plan)[0])


@pytest.mark.parametrize(
    ("words", "side"),
    [
        ("ASOF JOIN", ""), ("INNER ASOF JOIN", ""), ("asof inner join", ""), ("LEFT ASOF JOIN", "LEFT"), ("LEFT OUTER ASOF JOIN", "LEFT"),
        ("ASOF LEFT JOIN", "LEFT"), ("ASOF LEFT OUTER JOIN", "LEFT"),
    ],
)  # fmt: skip
def test_ways_to_write_an_as_of_join(words: str, side: str) -> None:
    join = join_of(f"SELECT 1 FROM a {words} b MATCH_CONDITION (a.x >= b.x) ON a.k = b.k")
    assert (join.method, join.side) == ("ASOF", side)
    assert isinstance(join.args["match_condition"], exp.GTE)
    assert isinstance(join.args["on"], exp.EQ)


def test_words_of_these_joins_are_names_elsewhere() -> None:
    statement = parse_one("SELECT within, zipper.x FROM zipper within JOIN match_condition AS zipper ON true")
    assert [table.alias for table in statement.select.find_all(exp.Table)] == ["within", "zipper"]  # type: ignore[union-attr]


def test_a_zipper_join_keeps_its_length_in_microseconds() -> None:
    assert join_of("SELECT 1 FROM a ZIPPER JOIN b WITHIN 1.5 SECONDS").args["within_us"] == 1_500_000


def test_an_as_of_join_with_its_sides_swapped() -> None:
    plan = asof_of(bind(ASOF.format(join="LEFT ASOF JOIN", match="q.ts < t.ts", on=" ON t.sym = q.sym")).plan)
    assert plan.match == Match("ts", ">", "ts_2")
    assert plan.keys == (JoinKey("sym", "sym_2"),)
    assert plan.keeps_left


def test_ties_go_by_the_right_columns_up_to_the_last_one_that_is_read() -> None:
    bound = bind("SELECT q.size FROM trades AS t ASOF JOIN trades AS q MATCH_CONDITION (t.price >= q.size) ON t.sym = q.sym")
    assert asof_of(bound.plan).ties == ("ts_2", "price_2", "size_2", "cash_2", "arr_2", "st_2", "m_2")
    pruned = asof_of(rewrite(bound.plan))
    assert pruned.ties == ("ts_2", "price_2", "size_2")
    assert set(pruned.left.schema.names) == {"sym", "price"}


def test_explained() -> None:
    bound = bind(ASOF.format(join="LEFT ASOF JOIN", match="t.ts >= q.ts", on=" ON t.sym = q.sym"))
    text = explain(bound, rewrite(bound.plan), plan_physical(bound, {}))
    assert "As-of join ts >= ts_2, the last on sym = sym_2, or NULLs\n" in text
    assert "As-of join ts >= ts_2, the last on sym = sym_2, or NULLs, holds the rows of both sides in order" in text


def test_a_zipper_join_is_windows_and_joins() -> None:
    bound = bind("SELECT a.size FROM trades AS a ZIPPER JOIN trades AS b WITHIN 2 SECONDS ON a.sym = b.sym")
    text = explain(bound, bound.plan, plan_physical(bound, {}))
    assert text.startswith("Answer: a relation of")
    for window in (
        "[RANGE 2 SECONDS]", "[BEGIN NOW - 2000001 MICROSECONDS END NOW - 2000001 MICROSECONDS]",
        "[BEGIN NOW - 4000001 MICROSECONDS END NOW - 1 MICROSECOND]",
    ):  # fmt: skip
        assert f"Window {window}" in text


@pytest.mark.parametrize(
    ("sql", "code", "underlined"),
    [
        ("SELECT 1 FROM trades ASOF JOIN trades AS q ON true", "PARSE_ERROR", "ON"),
        (ASOF.format(join="ASOF JOIN", match="t.ts = q.ts", on=""), "PARSE_ERROR", "t.ts = q.ts"),
        (ASOF.format(join="ASOF JOIN", match="t.ts > q.ts AND t.size > 1", on=""), "PARSE_ERROR", "t.ts > q.ts AND t.size > 1"),
        (ASOF.format(join="ASOF JOIN", match="t.ts", on=""), "PARSE_ERROR", "t.ts"),
        (ASOF.format(join="ASOF JOIN", match="t.ts >= q.ts", on=" ON"), "PARSE_ERROR", ""),
        (ASOF.format(join="ASOF JOIN", match="t.ts >= t.ts", on=""), "MATCH_INVALID", "t.ts >= t.ts"),
        (ASOF.format(join="ASOF JOIN", match="q.ts >= TIMESTAMP '2020-01-01'", on=""), "MATCH_INVALID", "q.ts >= TIMESTAMP '2020-01-01'"),
        (ASOF.format(join="ASOF JOIN", match="t.size + q.size >= q.size", on=""), "MATCH_INVALID", "t.size + q.size >= q.size"),
        (ASOF.format(join="ASOF JOIN", match="t.ts >= q.size", on=""), "TYPE_MISMATCH", "t.ts >= q.size"),
        (ASOF.format(join="ASOF JOIN", match="t.m >= q.m", on=""), "TYPE_MISMATCH", "t.m >= q.m"),
        (ASOF.format(join="ASOF JOIN", match="t.arr >= q.arr", on=""), "NOT_SUPPORTED", "t.arr >= q.arr"),
        (ASOF.format(join="ASOF JOIN", match="t.sym >= q.sym", on=""), "NOT_SUPPORTED", "t.sym >= q.sym"),
        (ASOF.format(join="ASOF JOIN", match="t.nix >= q.ts", on=""), "COLUMN_NOT_FOUND", "t.nix"),
        (ASOF.format(join="ASOF JOIN", match="t.ts >= q.ts", on=" ON t.size < q.size"), "NOT_SUPPORTED", "t.size < q.size"),
        (ASOF.format(join="LEFT ASOF JOIN", match="t.ts >= q.ts", on=" ON t.size > 1"), "NOT_SUPPORTED", "t.size > 1"),
        ("SELECT 1 FROM trades t FULL ASOF JOIN trades q MATCH_CONDITION (t.ts < q.ts)", "NOT_SUPPORTED",
         "FULL ASOF JOIN trades q MATCH_CONDITION (t.ts < q.ts)"),
        ("SELECT 1 FROM trades ZIPPER JOIN trades AS b ON true", "PARSE_ERROR", "ON"),
        ("SELECT 1 FROM trades ZIPPER JOIN trades AS b WITHIN 5 APPLES ON true", "WINDOW_INVALID", "APPLES"),
        ("SELECT 1 FROM trades [NOW] ZIPPER JOIN trades AS b WITHIN 5 SECONDS", "WINDOW_INVALID", "[NOW]"),
        ("SELECT 1 FROM trades ZIPPER JOIN trades [ROWS 5] AS b WITHIN 5 SECONDS", "WINDOW_INVALID", "[ROWS 5]"),
        ("SELECT 1 FROM trades ZIPPER JOIN (SELECT 1 FROM trades [NOW]) WITHIN 1 DAY", "WINDOW_INVALID", "(SELECT 1 FROM trades [NOW])"),
        ("SELECT 1 FROM trades ZIPPER JOIN symbols WITHIN 5 SECONDS", "NOT_SUPPORTED", "symbols"),
        ("SELECT 1 FROM (SELECT count(*) FROM trades) a ZIPPER JOIN trades b WITHIN 1 DAY", "NOT_SUPPORTED",
         "(SELECT count(*) FROM trades) a"),
        ("SELECT 1 FROM trades a, trades b ZIPPER JOIN trades c WITHIN 5 SECONDS", "NOT_SUPPORTED", "trades a"),
    ],
)  # fmt: skip
def test_code_and_place(sql: str, code: str, underlined: str) -> None:
    error = error_of(sql)
    assert error.code == code
    assert error.sql == sql
    assert error.span is not None
    assert sql[error.span.start : error.span.end] == underlined
