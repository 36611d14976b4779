"""What cannot be bound: the code, the underlined place, and for some the whole text."""

from __future__ import annotations

import pytest

from millstream.core.errors import NotSupported
from unit.language.corpus import error_of


@pytest.mark.parametrize(
    ("sql", "code", "underlined"),
    [
        ("SELECT prise FROM trades", "COLUMN_NOT_FOUND", "prise"),
        ("SELECT sym FROM trades WHERE syze > 5", "COLUMN_NOT_FOUND", "syze"),
        ("SELECT count(*) FROM trades GROUP BY symbol", "COLUMN_NOT_FOUND", "symbol"),
        ("SELECT sym AS x FROM trades WHERE x = 'a'", "COLUMN_NOT_FOUND", "x"),
        ("SELECT x, size AS x FROM trades", "COLUMN_NOT_FOUND", "x"),
        ("SELECT t.sym, x.size FROM trades AS t", "COLUMN_NOT_FOUND", "x.size"),
        ("SELECT trades.sym FROM trades AS t", "COLUMN_NOT_FOUND", "trades.sym"),
        ("SELECT x.* FROM trades", "COLUMN_NOT_FOUND", "x"),
        ("SELECT * EXCEPT (foo) FROM trades", "COLUMN_NOT_FOUND", "foo"),
        ("SELECT st.z FROM trades", "COLUMN_NOT_FOUND", "st.z"),
        ("SELECT sym FROM trades GROUP BY 2", "COLUMN_NOT_FOUND", "2"),
        ("SELECT sym FROM trades [PARTITION BY foo ROWS 5]", "COLUMN_NOT_FOUND", "foo"),
        ("SELECT a FROM (SELECT size AS a, price AS a FROM trades)", "COLUMN_AMBIGUOUS", "a"),
        ("SELECT size AS a, price AS a, a + 1 FROM trades", "COLUMN_AMBIGUOUS", "a"),
        ("SELECT a FROM tradse", "STREAM_NOT_FOUND", "tradse"),
        ("SELECT uper(sym) FROM trades", "FUNCTION_NOT_FOUND", "uper(sym)"),
        ("SELECT sym, size FROM trades GROUP BY sym", "NOT_GROUPED", "size"),
        ("SELECT sym, count(*) FROM trades", "NOT_GROUPED", "sym"),
        ("SELECT * FROM trades GROUP BY sym", "NOT_GROUPED", "*"),
        ("SELECT sym FROM trades HAVING sym > 'a'", "NOT_GROUPED", "sym"),
        ("SELECT sym FROM trades GROUP BY sym HAVING size > 1", "NOT_GROUPED", "size"),
        ("SELECT sum(size) FROM trades WHERE sum(size) > 1", "NOT_GROUPED", "sum(size)"),
        ("SELECT sum(max(size)) FROM trades", "NOT_GROUPED", "max(size)"),
        ("SELECT sym FROM trades GROUP BY sum(size)", "NOT_GROUPED", "sum(size)"),
        ("SELECT sym, count(*) AS n FROM trades GROUP BY n", "NOT_GROUPED", "n"),
        ("SELECT sym, count(*) FROM trades GROUP BY 2", "NOT_GROUPED", "2"),
        ("SELECT size + sum(size) FROM trades GROUP BY ALL", "NOT_GROUPED", "size"),
        ("SELECT sym FROM trades WHERE size", "TYPE_MISMATCH", "size"),
        ("SELECT sym FROM trades GROUP BY sym HAVING count(*)", "TYPE_MISMATCH", "count(*)"),
        ("SELECT sum(arr) FROM trades", "TYPE_MISMATCH", "sum(arr)"),
        ("SELECT min(arr) FROM trades", "TYPE_MISMATCH", "min(arr)"),
        ("SELECT first(arr) FROM trades", "NOT_SUPPORTED", "first(arr)"),
        ("SELECT last(st) FROM trades", "NOT_SUPPORTED", "last(st)"),
        ("SELECT any_value(m) FROM trades", "NOT_SUPPORTED", "any_value(m)"),
        ("SELECT max_by(arr, size) FROM trades", "NOT_SUPPORTED", "max_by(arr, size)"),
        ("SELECT max_by(arr, size) OVER (PARTITION BY sym) FROM trades", "NOT_SUPPORTED", "max_by(arr, size) OVER (PARTITION BY sym)"),
        ("SELECT mode(arr) FROM trades", "NOT_SUPPORTED", "mode(arr)"),
        ("SELECT mode() WITHIN GROUP (ORDER BY arr) FROM trades", "NOT_SUPPORTED", "mode() WITHIN GROUP (ORDER BY arr)"),
        ("SELECT collect_set(arr) FROM trades", "NOT_SUPPORTED", "collect_set(arr)"),
        ("SELECT collect_list(m) FROM trades", "NOT_SUPPORTED", "collect_list(m)"),
        ("SELECT collect_list(array(size)) FROM trades", "NOT_SUPPORTED", "collect_list(array(size))"),
        ("SELECT array_agg(st) WITHIN GROUP (ORDER BY size) FROM trades", "NOT_SUPPORTED", "array_agg(st) WITHIN GROUP (ORDER BY size)"),
        ("SELECT median(ts) FROM trades", "TYPE_MISMATCH", "median(ts)"),
        ("SELECT DATE '2020-13-45' FROM trades", "TYPE_MISMATCH", "DATE '2020-13-45'"),
        ("SELECT sym FROM trades WHERE ts > TIMESTAMP 'soon'", "TYPE_MISMATCH", "TIMESTAMP 'soon'"),
        ("SELECT year(DATE 'x') + 1 FROM trades", "TYPE_MISMATCH", "DATE 'x'"),
        ("SELECT first(size) FILTER (WHERE size) FROM trades", "TYPE_MISMATCH", "size"),
        ("SELECT sum(size) FILTER (WHERE size) OVER () FROM trades", "TYPE_MISMATCH", "size"),
        ("SELECT arr + 1 FROM trades", "TYPE_MISMATCH", "arr + 1"),
        ("SELECT count(*) FROM trades GROUP BY m", "NOT_SUPPORTED", "m"),
        ("SELECT DISTINCT m FROM trades", "TYPE_MISMATCH", "m"),
        ("SELECT sum(size, price) FROM trades", "ARITY_MISMATCH", "sum(size, price)"),
        ("SELECT count() FROM trades", "ARITY_MISMATCH", "count()"),
        ("SELECT upper(sym, sym) FROM trades", "ARITY_MISMATCH", "upper(sym, sym)"),
        ("SELECT sector FROM symbols [NOW]", "WINDOW_INVALID", "[NOW]"),
        ("SELECT a FROM (SELECT size AS a FROM trades [NOW]) [NOW]", "WINDOW_INVALID", "[NOW]"),
        ("SELECT a FROM (SELECT count(*) AS a FROM trades) [NOW]", "WINDOW_INVALID", "[NOW]"),
        ("SELECT trades.sym FROM trades RIGHT SEMI JOIN trades AS t ON true", "NOT_SUPPORTED", "RIGHT SEMI JOIN trades AS t ON true"),
        ("SELECT sym FROM trades UNION SELECT 1", "NOT_SUPPORTED", "SELECT 1"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "NOT_SUPPORTED", "SELECT 1"),
        ("SELECT sym FROM trades UNION SELECT sym, size FROM trades", "ARITY_MISMATCH", "SELECT sym, size FROM trades"),
        ("SELECT * FROM trades JOIN trades ON true", "ALREADY_EXISTS", "trades"),
        ("SELECT * FROM trades JOIN trades AS t USING (nix)", "COLUMN_NOT_FOUND", "nix"),
        ("SELECT sym FROM trades JOIN trades AS t ON true", "COLUMN_AMBIGUOUS", "sym"),
        ("SELECT sym FROM trades ORDER BY size", "NOT_SUPPORTED", "ORDER BY size"),
        ("SELECT sym FROM trades LIMIT size", "TYPE_MISMATCH", "size"),
        ("SELECT sym FROM trades LIMIT 5 PERCENT", "NOT_SUPPORTED", "5 PERCENT"),
        ("SELECT sym FROM trades LIMIT 5 %", "NOT_SUPPORTED", "5 %"),
        ("SELECT sym FROM trades LIMIT 5 WITH TIES", "NOT_SUPPORTED", "5 WITH TIES"),
        ("SELECT sym FROM trades FETCH FIRST 5 PERCENT ROWS ONLY", "NOT_SUPPORTED", "FETCH FIRST 5 PERCENT"),
        ("SELECT sym FROM trades FETCH FIRST ROW WITH TIES", "NOT_SUPPORTED", "FETCH FIRST ROW WITH TIES"),
        ("SELECT sym FROM trades FETCH FIRST 1.5 ROWS ONLY", "TYPE_MISMATCH", "1.5"),
        ("SELECT sym FROM trades TABLESAMPLE (5 PERCENT)", "NOT_SUPPORTED", "5"),
        ("SELECT sym FROM trades AS t(a, b)", "NOT_SUPPORTED", "a"),
        ("SELECT sym FROM trades LATERAL VIEW explode(arr) e AS x", "NOT_SUPPORTED", "LATERAL VIEW explode(arr) e AS x"),
        ("SELECT late FROM trades.late", "NOT_SUPPORTED", "trades"),
        ("SELECT id FROM range(5)", "NOT_SUPPORTED", "range(5)"),
        ("SELECT count(DISTINCT) FROM trades", "ARITY_MISMATCH", "count(DISTINCT)"),
        ("SELECT sum(DISTINCT size, size) FROM trades", "ARITY_MISMATCH", "sum(DISTINCT size, size)"),
        ("SELECT sum(size) FILTER (WHERE max(size) > 1) FROM trades", "NOT_GROUPED", "max(size)"),
        ("SELECT upper(sym) FILTER (WHERE size > 1) FROM trades", "NOT_SUPPORTED", "upper(sym) FILTER (WHERE size > 1)"),
        ("SELECT upper(DISTINCT sym) FROM trades", "NOT_SUPPORTED", "upper(DISTINCT sym)"),
        ("SELECT first(DISTINCT sym) FROM trades", "NOT_SUPPORTED", "first(DISTINCT sym)"),
        ("SELECT first(sym, size) FROM trades", "TYPE_MISMATCH", "size"),
        ("SELECT bool_and(size) FROM trades", "TYPE_MISMATCH", "bool_and(size)"),
        ("SELECT min_by(sym, arr) FROM trades", "TYPE_MISMATCH", "min_by(sym, arr)"),
        ("SELECT sum(size) IGNORE NULLS FROM trades", "NOT_SUPPORTED", "sum(size) IGNORE NULLS"),
        ("SELECT kurtosis(size) FROM trades", "NOT_SUPPORTED", "kurtosis(size)"),
        ("SELECT sym FROM trades WHERE sum(size) OVER () > 1", "NOT_SUPPORTED", "sum(size) OVER ()"),
        ("SELECT size AS s, sum(s) OVER () AS t FROM trades GROUP BY t", "NOT_SUPPORTED", "sum(s) OVER ()"),
        ("SELECT max(size) AS m, sum(max(size)) OVER () AS t FROM trades HAVING t > 1", "NOT_SUPPORTED", "sum(max(size)) OVER ()"),
        ("SELECT upper(sym) OVER () FROM trades", "NOT_SUPPORTED", "upper(sym) OVER ()"),
        ("SELECT row_number() OVER (PARTITION BY sym) FROM trades", "WINDOW_INVALID", "row_number() OVER (PARTITION BY sym)"),
        ("SELECT sum(size) OVER w FROM trades", "WINDOW_INVALID", "w"),
        ("SELECT sum(size) OVER (ORDER BY sym RANGE 1 PRECEDING) FROM trades", "TYPE_MISMATCH", "1"),
        ("SELECT sum(size) OVER (ORDER BY sym, ts RANGE 1 PRECEDING) FROM trades", "WINDOW_INVALID",
         "sum(size) OVER (ORDER BY sym, ts RANGE 1 PRECEDING)"),
        ("SELECT lag(size, sym) OVER (ORDER BY ts) FROM trades", "TYPE_MISMATCH", "sym"),
        ("SELECT lag(sum(size) OVER ()) OVER (ORDER BY ts) FROM trades", "NOT_SUPPORTED", "sum(size) OVER ()"),
        ("SELECT sym FROM trades ORDER BY 2 LIMIT 1", "COLUMN_NOT_FOUND", "2"),
        ("SELECT DISTINCT sym FROM trades ORDER BY size LIMIT 1", "NOT_SUPPORTED", "ORDER BY size"),
        ("SELECT sym FROM trades WHERE size IN (SELECT 1)", "NOT_SUPPORTED", "SELECT 1"),
        ("SELECT sym FROM trades WHERE EXISTS (SELECT 1)", "NOT_SUPPORTED", "SELECT 1"),
        ("SELECT sym FROM trades WHERE size = (SELECT size FROM trades)", "NOT_SUPPORTED", "(SELECT size FROM trades)"),
        ("SELECT (SELECT 1 FROM trades WHERE sym = t.sym) FROM trades t", "NOT_SUPPORTED", "(SELECT 1 FROM trades WHERE sym = t.sym)"),
        ("SELECT sym FROM trades WHERE size > ALL (SELECT size FROM trades)", "NOT_SUPPORTED", "ALL (SELECT size FROM trades)"),
        ("SELECT sym FROM trades QUALIFY size > 1", "WINDOW_INVALID", "size > 1"),
        ("SELECT count(DISTINCT size) OVER () FROM trades", "NOT_SUPPORTED", "count(DISTINCT size) OVER ()"),
        ("SELECT explode(array(1)) FROM trades", "NOT_SUPPORTED", "explode(array(1))"),
        ("SELECT listagg(sym, sym) FROM trades", "TYPE_MISMATCH", "sym"),
        ("SELECT mode(DISTINCT size) FROM trades", "TYPE_MISMATCH", "mode(DISTINCT size)"),
        ("SELECT size IN (SELECT 1 FROM trades GROUP BY sym) FROM trades", "NOT_SUPPORTED", "size IN (SELECT 1 FROM trades GROUP BY sym)"),
        ("SELECT sym FROM trades WHERE size IN (SELECT sym, 1 FROM trades)", "ARITY_MISMATCH", "SELECT sym, 1 FROM trades"),
        ("SELECT (SELECT 1) FROM trades", "NOT_SUPPORTED", "SELECT 1"),
        ("SELECT sym, size FROM trades GROUP BY ROLLUP (sym)", "NOT_GROUPED", "size"),
        ("SELECT grouping(size) FROM trades GROUP BY ROLLUP (sym)", "NOT_GROUPED", "size"),
        ("SELECT grouping(sym) FROM trades GROUP BY sym", "NOT_GROUPED", "grouping(sym)"),
        ("SELECT grouping() FROM trades GROUP BY CUBE (sym)", "ARITY_MISMATCH", "grouping()"),
        ("SELECT percentile(size, 2) FROM trades", "TYPE_MISMATCH", "2"),
        ("SELECT percentile(size, size) FROM trades", "NOT_SUPPORTED", "size"),
        ("SELECT percentile_cont(0.5) FROM trades", "NOT_SUPPORTED", "percentile_cont(0.5)"),
        ("SELECT collect_list(sym ORDER BY size) FROM trades", "NOT_SUPPORTED", "size"),
        ("SELECT bit_and(sym) FROM trades", "TYPE_MISMATCH", "bit_and(sym)"),
        ("SELECT sum(*) FROM trades", "NOT_SUPPORTED", "*"),
        ("SELECT * AS a FROM trades", "NOT_SUPPORTED", "*"),
        ("SELECT a FROM (SELECT ISTREAM(size AS a) FROM trades [NOW])", "NOT_SUPPORTED", "(SELECT ISTREAM(size AS a) FROM trades [NOW])"),
        ("SELECT rand() FROM trades", "NOT_SUPPORTED", "rand()"),
        ("SELECT 1", "NOT_SUPPORTED", "SELECT 1"),
    ],
)  # fmt: skip
def test_code_and_place(sql: str, code: str, underlined: str) -> None:
    error = error_of(sql)
    assert error.code == code
    assert error.sql == sql
    assert error.span is not None
    assert sql[error.span.start : error.span.end] == underlined


@pytest.mark.parametrize(
    "expected",
    [
        """\
[COLUMN_NOT_FOUND] column "prise" does not exist in stream "trades"
  SELECT prise FROM trades [RANGE 5 MINUTES]
         ^^^^^
  hint: Did you mean "price"?""",
        """\
[COLUMN_NOT_FOUND] column "qqq" does not exist in the subquery
  SELECT qqq FROM (SELECT sym, size FROM trades)
         ^^^
  hint: Columns: sym, size.""",
        """\
[FUNCTION_NOT_FOUND] function "qqq" does not exist
  SELECT qqq(sym) FROM trades
         ^^^^^^^^
  hint: docs/functions.md lists those that do; db.function adds one in Python.""",
        """\
[TYPE_MISMATCH] the condition of WHERE must be BOOLEAN, found INT
  SELECT sym FROM trades WHERE size
                               ^^^^
  hint: Compare it with something, as in x <> 0.""",
        """\
[TYPE_MISMATCH] the condition of FILTER must be BOOLEAN, found INT
  SELECT sum(size) FILTER (WHERE size) FROM trades
                                 ^^^^
  hint: Compare it with something, as in x <> 0.""",
        """\
[WINDOW_INVALID] row_number looks at other rows and needs OVER
  SELECT row_number() FROM trades
         ^^^^^^^^^^^^
  hint: Write row_number() OVER (ORDER BY ...).""",
        """\
[NOT_SUPPORTED] upper is no aggregate and takes no DISTINCT
  SELECT upper(DISTINCT sym) FROM trades
         ^^^^^^^^^^^^^^^^^^^
  hint: DISTINCT stands in aggregates, as in count(DISTINCT x), and behind SELECT.""",
        """\
[NOT_SUPPORTED] a window over this subquery is not supported in a continuous query yet
  SELECT sym FROM (SELECT DISTINCT sym FROM trades) [ROWS 3]
                                                    ^^^^^^^^
  hint: Name the subquery with CREATE QUERY, and put the window on that name.""",
        """\
[NOT_SUPPORTED] several values in parentheses are not supported here
  SELECT sym FROM trades WHERE (sym, size) = ('A', 1)
                               ^^^^^^^^^^^
  hint: Compare each by itself: a = 1 AND b = 2.""",
        """\
[STREAM_NOT_FOUND] there is no stream, relation or query "tradse"
  SELECT sym FROM tradse [RANGE 5 SECONDS]
                  ^^^^^^
  hint: Did you mean "trades"?""",
        """\
[NOT_GROUPED] column "size" is neither in GROUP BY nor inside an aggregate
  SELECT sym, size FROM trades [NOW] GROUP BY sym
              ^^^^
  hint: Add it to GROUP BY, or use an aggregate such as max(size).""",
        """\
[COLUMN_NOT_FOUND] "x.size" does not exist: nothing in FROM is called "x"
  SELECT x.size FROM trades AS t
         ^^^^^^
  hint: FROM has t.""",
        """\
[WINDOW_INVALID] "symbols" is a relation, which takes no window
  SELECT sector FROM symbols [NOW]
                             ^^^^^
  hint: Windows are for streams.""",
        """\
[NOT_SUPPORTED] the aggregate kurtosis is not supported in a continuous query yet
  SELECT kurtosis(size) FROM trades
         ^^^^^^^^^^^^^^
  hint: docs/functions.md lists those that are.""",
    ],
    ids=lambda text: text.splitlines()[0],
)
def test_rendered(expected: str) -> None:
    assert str(error_of(expected.splitlines()[1].removeprefix("  "))) == expected


def test_percentile_disc_is_over_numbers_as_median_is() -> None:
    call = "percentile_disc(0.5) WITHIN GROUP (ORDER BY ts)"
    error, median = error_of(f"SELECT {call} FROM trades"), error_of("SELECT median(ts) FROM trades")
    assert (error.code, error.message) == (median.code, median.message)
    assert error.span is not None
    assert error.sql is not None
    assert error.sql[error.span.start : error.span.end] == call


@pytest.mark.parametrize("terms", [2000, 20_000])
def test_an_endless_expression_is_refused_cleanly(terms: int) -> None:
    error = error_of(f"SELECT {' + '.join(['size'] * terms)} FROM trades")
    assert isinstance(error, NotSupported)
    assert "nested too deeply" in error.message
