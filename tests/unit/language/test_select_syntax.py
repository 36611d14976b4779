"""Queries: ISTREAM and friends around the select list, and the SQL that must keep working beside our own words."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.core.errors import ParseError
from millstream.language.parser import parse_one


def select_of(sql: str) -> exp.Select:
    select = parse_one(sql).select  # type: ignore[union-attr]
    assert isinstance(select, exp.Select)
    return select


@pytest.mark.parametrize("word", ["ISTREAM", "dstream", "Rstream"])
def test_relation_to_stream(word: str) -> None:
    select = select_of(f"SELECT {word}(a AS x, b) FROM s")
    assert select.args["to_stream"] == word.lower()
    assert [item.alias_or_name for item in select.expressions] == ["x", "b"]
    assert select.args.get("distinct") is None


def test_distinct_stands_inside() -> None:
    select = select_of("SELECT ISTREAM(DISTINCT a, b) FROM s")
    assert select.args["distinct"] is not None
    assert len(select.expressions) == 2


def test_a_star_inside() -> None:
    assert isinstance(select_of("SELECT ISTREAM(*) FROM s").expressions[0], exp.Star)


def test_only_the_select_it_stands_in_is_a_stream() -> None:
    select = select_of("SELECT ISTREAM(a) FROM (SELECT a FROM s) AS x WHERE a IN (SELECT b FROM u)")
    assert [inner.args.get("to_stream") for inner in select.find_all(exp.Select)] == ["istream", None, None]


def test_a_plain_column_may_be_called_istream() -> None:
    assert select_of("SELECT istream, t.rstream FROM t").args.get("to_stream") is None


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT ISTREAM(a), b FROM s", "ISTREAM takes the whole select list"),
        ("SELECT ISTREAM(a) AS x FROM s", "ISTREAM takes the whole select list"),
        ("SELECT b, DSTREAM(a) FROM s", "DSTREAM goes around the whole select list"),
        ("SELECT 1 + RSTREAM(a) FROM s", "RSTREAM goes around the whole select list"),
        ("SELECT DISTINCT ISTREAM(a) FROM s", "ISTREAM must stand right after SELECT"),
        ("SELECT ISTREAM() FROM s", 'unexpected ")"'),
    ],
)
def test_misplaced_istream(sql: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_one(sql)
    assert caught.value.message == message


def test_functions_stay_as_they_were_written() -> None:
    select = select_of("SELECT substr(a, 1), DateDiff(a, b), mean(x), left(s, 1), now(), current_date FROM t")
    names = [item.name for item in select.expressions]
    assert all(isinstance(item, exp.Anonymous) for item in select.expressions)
    assert names == ["substr", "DateDiff", "mean", "left", "now", "current_date"]


def test_an_element_of_an_array_is_not_another_array() -> None:
    item = select_of("SELECT array(1, 2)[0] FROM t").expressions[0]
    assert isinstance(item, exp.Bracket)
    assert item.this == exp.Anonymous(this="array", expressions=[exp.Literal.number(1), exp.Literal.number(2)])


def test_window_functions_parse() -> None:
    assert isinstance(select_of("SELECT sum(a) OVER (PARTITION BY b ORDER BY c) FROM t").expressions[0], exp.Window)


def test_strings_side_by_side_are_one() -> None:
    assert select_of("SELECT 'a' 'b' FROM t").expressions[0] == exp.Literal.string("ab")


def test_quotes_inside_strings() -> None:
    items = select_of(r"""SELECT 'it''s', 'it\'s', "it's", r'a\b' FROM t""").expressions
    assert [item.name for item in items] == ["it's", "it's", "it's", r"a\b"]


def test_comments_leave_no_trace() -> None:
    assert select_of("SELECT /* one */ a -- two\nFROM t /* sqlglot.meta span=1 */") == select_of("SELECT a FROM t")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT",
        "SELECT FROM t",
        "SELECT a FROM",
        "SELECT a, FROM t",
        "SELECT a FROM t,",
        "SELECT a FROM t WHERE",
        "SELECT a FROM t GROUP BY",
        "SELECT a FROM t GROUP BY a,",
        "SELECT a FROM t JOIN u ON",
        "SELECT a FROM t AS",
        "SELECT a FROM t WHERE a IN ()",
        "SELECT f(, a) FROM t",
        "SELECT sum(a) OVER FROM t",
        "SELECT a FROM t WHERE a BETWEEN 1 AND",
        "SELECT CASE END FROM t",
        "SELECT CAST(a AS) FROM t",
        "SELECT 1..2",
        "SELECT t.size(1, 2) FROM t",
        "SELECT max(a).count(*) FROM t",
        "SELECT a INTO b FROM t",
        "SELECT a FROM ..t",
        "SELECT ? FROM t",
        "SELECT {a} FROM t",
        "SELECT a -> 'b' FROM t",
        "WITH x AS (DROP STREAM y) SELECT 2",
        "SELECT a FROM t UNION",
    ],
)
def test_what_sqlglot_would_forgive_is_an_error(sql: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_one(sql)
    assert caught.value.span is not None
    assert caught.value.sql == sql
