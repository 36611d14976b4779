"""How a parse error looks to the person who made the mistake, word for word."""

from __future__ import annotations

import pytest

from millstream.core.errors import MillstreamError, ParseError
from millstream.language.parser import parse, parse_one
from unit.language.corpus import parse_failure


def rendered(sql: str) -> str:
    with pytest.raises(MillstreamError) as caught:
        parse_one(sql)
    return str(caught.value)


@pytest.mark.parametrize(
    "expected",
    [
        """\
[PARSE_ERROR] expected a statement, found "SELCT"
  SELCT sym FROM trades
  ^^^^^
  hint: Did you mean "SELECT"?""",
        """\
[PARSE_ERROR] unexpected "FORM"
  SELECT sym FORM trades
             ^^^^
  hint: Did you mean "FROM"?""",
        """\
[PARSE_ERROR] unexpected "WERE"
  SELECT sym FROM trades WERE size > 5
                         ^^^^
  hint: Did you mean "WHERE"?""",
        """\
[PARSE_ERROR] unexpected "FROM"
  SELECT sym, FROM trades
              ^^^^""",
        """\
[PARSE_ERROR] the statement ends too early
  SELECT sym FROM trades WHERE
                              ^""",
        """\
[PARSE_ERROR] "[" is never closed
  SELECT sym FROM trades [RANGE 5 SECONDS
                         ^""",
        """\
[PARSE_ERROR] nothing opens this ")"
  SELECT sym) FROM trades
            ^""",
        """\
[PARSE_ERROR] the quote ' is never closed
  SELECT 'sym FROM trades
         ^
  hint: Close it with '.""",
        """\
[PARSE_ERROR] the comment is never closed
  SELECT sym /* FROM trades
             ^^
  hint: Close it with */.""",
        """\
[PARSE_ERROR] expected STREAM, RELATION, QUERY or SINK, found "STREM"
  CREATE STREM s (ts TIMESTAMP) TIMESTAMP BY ts
         ^^^^^
  hint: Did you mean "STREAM"?""",
        """\
[PARSE_ERROR] expected STREAM, RELATION, QUERY or SINK, found "TABLE"
  CREATE TABLE t (a INT)
         ^^^^^
  hint: A table is a RELATION here: CREATE RELATION.""",
        """\
[PARSE_ERROR] expected STREAM, RELATION, QUERY or SINK, found "TABLE"
  DROP TABLE r
       ^^^^^
  hint: A table is a RELATION here: DROP RELATION.""",
        """\
[PARSE_ERROR] expected STREAMS, RELATIONS, QUERIES, SINKS or SHARING, found "TABLES"
  SHOW TABLES
       ^^^^^^
  hint: A table is a RELATION here: SHOW RELATIONS.""",
        """\
[PARSE_ERROR] WITHIN cannot be negative
  SELECT * FROM a ZIPPER JOIN b WITHIN -5 SECONDS
                                       ^""",
        """\
[PARSE_ERROR] stream "trades" has no TIMESTAMP BY clause
  CREATE STREAM trades (at TIMESTAMP, size INT)
                                              ^
  hint: Say which column holds the time of a row: TIMESTAMP BY at.""",
        """\
[PARSE_ERROR] unexpected "SLAK"
  CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts SLAK 5 SECONDS
                                                 ^^^^
  hint: Did you mean "SLACK"?""",
        """\
[PARSE_ERROR] SLACK needs a unit of time, found the end of the statement
  CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts SLACK 5
                                                        ^
  hint: Units are MICROSECOND, MILLISECOND, SECOND, MINUTE, HOUR, DAY, singular or plural.""",
        """\
[PARSE_ERROR] SLACK cannot be negative
  CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts SLACK -5 SECONDS
                                                       ^""",
        """\
[PARSE_ERROR] ISTREAM takes the whole select list
  SELECT ISTREAM(a), b FROM s
                   ^
  hint: Put the whole list inside: ISTREAM(a AS x, b).""",
        """\
[WINDOW_INVALID] RANGE needs a unit of time, found "MINUTSE"
  SELECT a FROM s [RANGE 5 MINUTSE]
                           ^^^^^^^
  hint: Did you mean "MINUTE"?""",
        """\
[WINDOW_INVALID] no window starts with "LAST"
  SELECT a FROM s [LAST 5 SECONDS]
                   ^^^^
  hint: A window starts with RANGE, ROWS, NOW, UNBOUNDED, PARTITION BY, BEGIN.""",
    ],
    ids=lambda text: text.splitlines()[0],
)
def test_rendered(expected: str) -> None:
    sql = expected.splitlines()[1].removeprefix("  ")
    assert rendered(sql) == expected


def test_the_place_is_found_in_a_later_line() -> None:
    sql = "SELECT sym\nFROM trades [RANGE 5 PARSECS]\nWHERE size > 1"
    assert "  FROM trades [RANGE 5 PARSECS]\n                       ^^^^^^^" in rendered(sql)


def test_an_error_in_a_script_shows_its_own_statement_only() -> None:
    with pytest.raises(ParseError) as caught:
        parse("SHOW STREAMS; SELCT 1; SHOW SINKS")
    assert caught.value.sql == "SELCT 1"


@pytest.mark.parametrize("depth", [10, 100, 1000, 20_000])
@pytest.mark.parametrize("opening", ["(", "f(", "CASE WHEN ", "STRUCT(", "- ", "NOT ", "a[", "CAST("])
def test_deep_nesting_is_read_or_refused(opening: str, depth: int) -> None:
    closing = {"CASE WHEN ": " THEN 1 END", "- ": "", "NOT ": "", "a[": "]", "CAST(": " AS INT)"}.get(opening, ")")
    failure = parse_failure(f"SELECT {opening * depth}1{closing * depth} FROM t")
    assert failure is None or (depth > 10 and failure.message == "the statement is nested too deeply")


@pytest.mark.parametrize(
    "sql", ["SELECT 1 FROM a" + " JOIN b" * 60, "SELECT " + "STRUCT(" * 25 + ")" * 25, "SELECT 1 FROM " + "(SELECT 1 FROM " * 30]
)
@pytest.mark.timeout(20)
def test_backtracking_stays_short(sql: str) -> None:
    failure = parse_failure(sql)
    assert failure is None or isinstance(failure, ParseError)


@pytest.mark.parametrize(
    "sql", ["\x00", "\ud800", "SELECT \x00 FROM t", "🦆", "SELECT 1e", "SELECT " + "9" * 5000 + " FROM t", "'" * 1001, "`", "\\", "$$"]
)
def test_odd_characters(sql: str) -> None:
    failure = parse_failure(sql)
    assert failure is None or (isinstance(failure, ParseError) and str(failure).startswith("[PARSE_ERROR]"))
