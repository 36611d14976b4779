"""Statements that must parse, print and parse again; the fuzzer damages them."""

from __future__ import annotations

from millstream.core.errors import MillstreamError
from millstream.language.binder import bind_query
from millstream.language.catalog import Catalog
from millstream.language.parser import parse, parse_one
from millstream.plan.logical import BoundQuery

DEFINITIONS = """
CREATE STREAM trades (ts TIMESTAMP, sym STRING, price DOUBLE, size INT, cash DECIMAL(10, 2), arr ARRAY<INT>, st STRUCT<x: INT, y: STRING>,
                      m MAP<STRING, INT>) TIMESTAMP BY ts;
CREATE RELATION symbols (sym STRING PRIMARY KEY, sector STRING);
"""

QUERIES = [
    "SELECT * FROM trades",
    "SELECT sym, sum(size) AS volume FROM trades [RANGE 5 MINUTES] GROUP BY sym HAVING sum(size) > 100000",
    "SELECT ISTREAM(h.sym, s.sector) FROM hot AS h, symbols AS s WHERE h.sym = s.sym",
    "Select Istream(S1.A) From S1 [Rows 5] P",
    "SELECT DSTREAM(DISTINCT a AS x, b) FROM trades AS t [RANGE 0.5 SECONDS EXCLUSIVE]",
    "SELECT RSTREAM(*) FROM trades [NOW]",
    "SELECT * FROM s [ROWS UNBOUNDED], t [RANGE UNBOUNDED] AS u, v [UNBOUNDED] w",
    "SELECT * FROM s [PARTITION BY a, s.b ROWS 10 RANGE 1 DAY] AS p",
    "SELECT * FROM s [RANGE 1 HOUR SLIDE 5 MINUTES]",
    "SELECT * FROM s [BEGIN TIMESTAMP '2020-01-01T00:00:00Z' END NOW - 3 SECONDS]",
    "SELECT * FROM s [BEGIN NOW - 1 MINUTE END NOW]",
    "SELECT x.a FROM (SELECT a FROM s [ROWS 5] WHERE a > 1) [NOW] AS x",
    "SELECT x.a FROM (SELECT size AS a FROM trades) AS x [RANGE 10 SECONDS] WHERE x.a > 1",
    "SELECT arr[0], m['k'], st.x, trades.st.y FROM trades",
    "SELECT a FROM t1 [NOW] FULL OUTER JOIN t2 [ROWS 5] USING (a) LEFT SEMI JOIN t3 ON t1.a = t3.a CROSS JOIN t4",
    "SELECT a FROM t1 [NOW] ASOF JOIN t2 AS u MATCH_CONDITION (t1.x >= u.y) ON t1.a = u.a",
    "SELECT a FROM t1 LEFT OUTER ASOF JOIN t2 [ROWS 5] MATCH_CONDITION (t2.x < t1.x) USING (a) JOIN t3 ON t3.a = t1.a",
    "SELECT a FROM t1 x ZIPPER JOIN (SELECT a FROM t2) y WITHIN 1.5 MINUTES USING (a) WHERE x.a > 1",
    "SELECT a, count(*) FROM t GROUP BY ALL HAVING count(*) > 1 ORDER BY a DESC LIMIT 10 OFFSET 5",
    "SELECT a, b FROM t GROUP BY GROUPING SETS ((a), (a, b), ())",
    "SELECT a FROM t UNION ALL SELECT b FROM u EXCEPT SELECT c FROM v",
    "WITH x AS (SELECT 1 AS a), y AS (SELECT * FROM x) SELECT * FROM y",
    "SELECT rank() OVER (PARTITION BY a ORDER BY b DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT a FROM t WHERE a IN (SELECT * FROM s1 [ROWS 3]) AND EXISTS (SELECT 1 FROM u)",
    "SELECT rows, range, now, begin FROM range [RANGE 5 SECONDS] stream",
    "SELECT a AS `x y`, `b``c` FROM `weird name` [RANGE 1.5 DAYS]",
    "SELECT 1L, 1.5BD, 1e3, .5, -1, - -a, !a, ~a, X'1F', r'a\\b', 'it''s', \"d\", 'a' 'b', NULL, true, DATE '2020-01-01' FROM t",
    "SELECT cast(a AS INT), a::string, try_cast(a AS DECIMAL(10, 2)), int(a), CASE a WHEN 1 THEN 2 ELSE 3 END, if(a, 1, 2) FROM t",
    "SELECT a + b * c - d / e % f, a DIV b, a ^ b, a & b | c, a || b, a <=> b, a <> b, a IS DISTINCT FROM b, NOT a IS NULL FROM t",
    "SELECT a LIKE 'x%' ESCAPE '!', a RLIKE 'b', a NOT BETWEEN 1 AND 2, a NOT IN (1, 2), a IS TRUE FROM t",
    "SELECT ts + INTERVAL 5 MINUTES, INTERVAL '1' DAY, extract(HOUR FROM ts), current_timestamp, now() FROM t",
    "SELECT trim(a), trim('x', a), trim(LEADING FROM a), trim(TRAILING 'x' FROM a), a << 1, a >> 2, a | b FROM t",
    "SELECT trim(BOTH 'x' FROM a), substring(a FROM 1 FOR 2), position('a' IN b), left(a, 1), overlay(a PLACING 'x' FROM 1) FROM t",
    "SELECT transform(arr, x -> x + 1), struct(1 AS a), array(1, 2)[0], map('a', 1), named_struct('a', 1).a, `sum`(x) FROM t",
    "SELECT count(DISTINCT a, b), sum(a) FILTER (WHERE b > 1), collect_list(a) FROM t TABLESAMPLE (10 PERCENT) x",
    "SELECT t.* EXCEPT (a) FROM t LATERAL VIEW explode(arr) e AS x",
    "SELECT upper(sym) AS s, count(*), sum(size) / count(*) + 1, avg(price), max(cash) FROM trades [RANGE 1 DAY] GROUP BY s HAVING s > 'A'",
    "SELECT DISTINCT sym, size + 1 FROM trades WHERE price BETWEEN 1 AND 2 OR sym LIKE 'a%'",
    "(SELECT sym FROM trades)",
]  # fmt: skip

STATEMENTS = [
    *QUERIES,
    "CREATE STREAM trades (ts TIMESTAMP, sym STRING, d decimal(10, 2), m map<string, array<struct<a: int, `b c`: string>>>) "
    "TIMESTAMP BY ts SLACK 5 SECONDS IDLE TIMEOUT 30 SECONDS PARTITION BY sym, d RETAIN 2 HOURS "
    "FROM 'kafka' OPTIONS (subscribe 'trades', kafka.bootstrap.servers = 'a:1', x 5, y true, 'z z' -1.5)",
    "create stream if not exists s (at timestamp_ntz) from 'rate' retain 1 day timestamp by at",
    "CREATE STREAM s (at TIMESTAMP) TIMESTAMP BY at ON ERROR FAIL MAX AHEAD 1 HOUR",
    "CREATE STREAM s (at TIMESTAMP) MAX AHEAD 0 SECONDS ON ERROR REJECT TIMESTAMP BY at",
    "CREATE RELATION symbols (sym STRING PRIMARY KEY, sector STRING) FROM 'parquet' OPTIONS (path '/x')",
    "CREATE QUERY slow AS SELECT v FROM s [RANGE 1 DAY] WITH RATE 0.5 PER MINUTE",
    "SELECT v FROM s WITH RATE 10 PER SECOND WITH EXPIRY negative",
    "EXPLAIN SELECT v FROM s WITH EXPIRY piggyback WITH RATE 1 PER DAY",
    "CREATE RELATION r (k STRING) FROM 'postgres' OPTIONS (url 'u', table 't') REFRESH EVERY 1.5 MINUTES",
    "CREATE RELATION r (k STRING) FROM 'csv' OPTIONS (path '/x') REFRESH ON DEMAND",
    "CREATE RELATION r (a INT, b INTERVAL DAY TO SECOND, PRIMARY KEY (a, b))",
    "INSERT INTO trades VALUES (TIMESTAMP '2020-01-01', 'A', 1.5, -1), (NULL, 'it''s', 1e3, 2L)",
    "INSERT INTO trades (ts, sym) SELECT ts, sym FROM t AT TIMESTAMP '2020-01-01'",
    "INSERT INTO symbols VALUES ('a', 'b') AT TIMESTAMP '2020-01-01T00:00:00Z'",
    "DELETE FROM symbols WHERE sym = 'a' AND x IN (1, 2) AT TIMESTAMP '2020-01-01'",
    "DELETE FROM symbols",
    "UPDATE symbols SET sector = upper(sector), x = x + 1 WHERE sym LIKE 'a%'",
    "CREATE QUERY hot AS SELECT sym, sum(size) AS volume FROM trades [RANGE 5 MINUTES] GROUP BY sym",
    "CREATE QUERY IF NOT EXISTS alerts AS SELECT ISTREAM(h.sym, s.sector) FROM hot AS h, symbols AS s WHERE h.sym = s.sym",
    "CREATE SINK out FROM alerts INTO 'parquet' OPTIONS (path '...')",
    "DROP STREAM trades",
    "DROP QUERY IF EXISTS x",
    "SHOW STREAMS",
    "SHOW QUERIES",
    "DESCRIBE trades",
    "DESC `odd name`",
    "EXPLAIN SELECT * FROM a",
    "EXPLAIN ANALYZE SELECT a FROM t [NOW]",
    "EXPLAIN CREATE QUERY x AS SELECT * FROM a [NOW]",
    "REGISTER QUERY big AS SELECT sym, size FROM trades [BEGIN NOW - 5 MINUTES END NOW] WHERE size > 100",
    "register query if not exists `odd name` with (materialization = complete) as select 1 from a, c begin timestamp '2020-01-01' end now",
    "REGISTER QUERY q WITH (materialisation 'none') AS SELECT begin, CASE WHEN a THEN 1 END FROM s BEGIN NOW - 2 DAYS END NOW - 1 DAY",
    "INVOKE big",
    "INVOKE `odd name`",
    "UNREGISTER big",
    "UNREGISTER QUERY IF EXISTS big",
    "SHOW REGISTERED",
    "SHOW REGISTERED QUERIES",
]  # fmt: skip


def catalog() -> Catalog:
    stream, relation = parse(DEFINITIONS)
    return Catalog.empty().with_stream(stream).with_relation(relation)  # type: ignore[arg-type]


def bind(sql: str) -> BoundQuery:
    return bind_query(parse_one(sql).select, catalog(), sql)  # type: ignore[union-attr]


def parse_failure(sql: str) -> MillstreamError | None:
    """The error of `sql`, None if it parses.  Any other exception comes through."""
    try:
        parse_one(sql)
    except MillstreamError as error:
        return error
    return None


def error_of(sql: str) -> MillstreamError:
    """The error that parsing or binding `sql` gives."""
    try:
        bind(sql)
    except MillstreamError as error:
        return error
    raise AssertionError(f"no error: {sql}")
