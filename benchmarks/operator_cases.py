"""What benchmarks/operators.py measures: for each operator a query, the same in DuckDB, and how fast its rows come.

A query's text is that of both systems: ours puts the case's window behind each `{s}` and `{r}`, DuckDB reads tables of these names that
hold what the windows hold.  Where the dialects differ, or the windows of one query do, `right` says it for DuckDB; there
`all_s` and `all_r` are the rows so far and `{now}` is the instant.

The streams, at `rate` rows a second each:

    k   one of 1,000 keys, whatever the window: groups get larger with it
    j   one of as many keys as the window has rows: the number of partners and of copies stays the same
    g   one of 10
    v   a number below a million
"""

from __future__ import annotations

from dataclasses import dataclass

KEYS, SMALL = 1_000, 10
DDL = """CREATE STREAM s (ts TIMESTAMP, k BIGINT, j BIGINT, g BIGINT, v BIGINT) TIMESTAMP BY ts;
CREATE STREAM r (ts TIMESTAMP, k BIGINT, j BIGINT, g BIGINT, v BIGINT) TIMESTAMP BY ts;
CREATE RELATION names (k BIGINT, name STRING);
CREATE RELATION bands (low BIGINT, high BIGINT);"""

RANGE = "[RANGE {minutes} MINUTES]"
ROWS = "[ROWS {rows}]"
ROWS_OF_EACH = "[PARTITION BY k ROWS {rows_of_each}]"
UNBOUNDED = "[UNBOUNDED]"

HELD = {
    RANGE: "SELECT * FROM all_{stream} WHERE epoch_us(ts) >= {now} - {range_us}",
    ROWS: "SELECT * FROM all_{stream} ORDER BY ts DESC LIMIT {rows}",
    ROWS_OF_EACH: "SELECT * FROM all_{stream} QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts DESC) <= {rows_of_each}",
    UNBOUNDED: "SELECT * FROM all_{stream}",
}
"""What each window holds, for DuckDB."""


@dataclass(frozen=True)
class Case:
    name: str
    sql: str
    right: str = ""  # for DuckDB, where it is not the same
    window: str = RANGE
    over: str = ""  # a query that `sql` reads as `inner_query`
    rate: int = 300  # rows a second of each stream
    growing_output: bool = False

    @property
    def streams(self) -> str:
        return "sr" if "{r}" in self.sql else "s"


_BY_TIME = "OVER (PARTITION BY k ORDER BY ts{frame})"
_THREE = " ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"
_NUMBERED = "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC, ts) AS n FROM {s}"
_LEFT = "epoch_us(ts) < {now} - {range_us}"
_MOMENTS = "SELECT epoch_us(ts) AS t FROM all_s UNION ALL SELECT epoch_us(ts) + {range_us} + 1 FROM all_s WHERE " + _LEFT

CASES = [
    Case("filter, project", "SELECT k, v + 1 AS w FROM {s} WHERE v % 2 = 0", window=UNBOUNDED),
    Case("RANGE window", "SELECT k, v FROM {s}"),
    Case("ROWS window", "SELECT k, v FROM {s}", window=ROWS),
    Case("PARTITION BY ROWS window", "SELECT k, v FROM {s}", window=ROWS_OF_EACH),
    Case("GROUP BY: sum, count", "SELECT k, sum(v) AS total, count(*) AS n FROM {s} GROUP BY k"),
    Case("GROUP BY: avg", "SELECT k, avg(v) AS mean FROM {s} GROUP BY k"),
    Case("GROUP BY: min, max", "SELECT k, min(v) AS low, max(v) AS high FROM {s} GROUP BY k"),
    Case("GROUP BY: count(DISTINCT)", "SELECT k, count(DISTINCT j) AS n FROM {s} GROUP BY k"),
    Case("GROUP BY: stddev", "SELECT k, round(stddev(v), 2) AS deviation FROM {s} GROUP BY k"),
    Case("GROUP BY: median", "SELECT k, median(v) AS middle FROM {s} GROUP BY k"),
    Case(
        "GROUP BY: first, last", "SELECT k, first(v) AS f, last(v) AS l FROM {s} GROUP BY k",
        "SELECT k, arg_min(v, ts), arg_max(v, ts) FROM s GROUP BY k",
    ),
    Case(
        "GROUP BY: collect_list", "SELECT k, collect_list(v) AS vs FROM {s} GROUP BY k", "SELECT k, list(v ORDER BY ts) FROM s GROUP BY k",
        rate=10, growing_output=True,
    ),
    Case("GROUPING SETS", "SELECT k, g, sum(v) AS total FROM {s} GROUP BY GROUPING SETS ((k), (g))"),
    Case("DISTINCT", "SELECT DISTINCT j FROM {s}"),
    Case("aggregate of an aggregate", "SELECT n, count(*) AS m FROM (SELECT j, count(*) AS n FROM {s} GROUP BY j) AS c GROUP BY n"),
    Case("equi-join of windows", "SELECT s.j, s.v, r.v AS w FROM {s} AS s JOIN {r} AS r ON s.j = r.j"),
    Case("theta join with a relation", "SELECT v, low FROM {s} JOIN bands ON v >= low AND v < high"),
    Case("equi-join with a relation", "SELECT s.k, v, name FROM {s} AS s JOIN names ON s.k = names.k"),
    Case("LEFT JOIN", "SELECT s.j, s.v, r.v AS w FROM {s} AS s LEFT JOIN {r} AS r ON s.j = r.j"),
    Case(
        "SEMI JOIN", "SELECT s.j, s.v FROM {s} AS s LEFT SEMI JOIN {r} AS r ON s.j = r.j",
        "SELECT s.j, s.v FROM s SEMI JOIN r ON s.j = r.j",
    ),
    Case(
        "ANTI JOIN", "SELECT s.j, s.v FROM {s} AS s LEFT ANTI JOIN {r} AS r ON s.j = r.j",
        "SELECT s.j, s.v FROM s ANTI JOIN r ON s.j = r.j",
    ),
    Case("IN with a query", "SELECT j, v FROM {s} WHERE j IN (SELECT j FROM {r})"),
    Case("UNION ALL", "SELECT j FROM {s} UNION ALL SELECT j FROM {r}"),
    Case("UNION", "SELECT j FROM {s} UNION SELECT j FROM {r}"),
    Case("INTERSECT", "SELECT j FROM {s} INTERSECT SELECT j FROM {r}"),
    Case("EXCEPT", "SELECT j FROM {s} EXCEPT SELECT j FROM {r}"),
    Case(
        "scalar subquery beside 10 rows", "SELECT k, v FROM s [ROWS 10] WHERE v > (SELECT avg(v) FROM {s})",
        "SELECT k, v FROM (SELECT * FROM all_s ORDER BY ts DESC LIMIT 10) WHERE v > (SELECT avg(v) FROM s)",
        rate=300,
    ),
    Case("scalar subquery beside its whole window", "SELECT k, v FROM {s} WHERE v > (SELECT avg(v) FROM {s})"),
    Case(
        "as-of join of windows",
        "SELECT s.k, s.v, r.v AS w FROM {s} AS s ASOF JOIN {r} AS r MATCH_CONDITION (s.ts >= r.ts) ON s.k = r.k",
        "SELECT s.k, s.v, r.v AS w FROM s ASOF JOIN r ON s.k = r.k AND s.ts >= r.ts",
        rate=100,
    ),
    Case("OVER: lag", "SELECT k, v, lag(v) " + _BY_TIME.format(frame="") + " AS u FROM {s}", rate=100),
    Case("OVER: sum of 4 rows", "SELECT k, v, sum(v) " + _BY_TIME.format(frame=_THREE) + " AS u FROM {s}", rate=100),
    Case("OVER: running sum", "SELECT k, v, sum(v) " + _BY_TIME.format(frame="") + " AS u FROM {s}", window=UNBOUNDED, rate=100),
    Case("ORDER BY, LIMIT 10", "SELECT k, v, ts FROM {s} ORDER BY v DESC, ts LIMIT 10"),
    Case("first 3 of each key", f"SELECT k, v, n FROM ({_NUMBERED}) AS c WHERE n <= 3"),
    Case("ISTREAM", "SELECT ISTREAM(k, v) FROM {s} WHERE v % 2 = 0", "SELECT k, v FROM all_s WHERE v % 2 = 0"),
    Case("DSTREAM", "SELECT DSTREAM(k, v) FROM {s} WHERE v % 2 = 0", f"SELECT k, v FROM all_s WHERE v % 2 = 0 AND {_LEFT}"),
    Case(
        "RSTREAM", "SELECT RSTREAM(k, v) FROM {s}",
        f"SELECT k, v FROM ({_MOMENTS}) JOIN all_s ON epoch_us(ts) BETWEEN t - {{range_us}} AND t",
        rate=1, growing_output=True,
    ),
    Case(
        "query over a query", "SELECT n, count(*) AS m FROM inner_query GROUP BY n",
        "SELECT n, count(*) FROM (SELECT j, count(*) AS n FROM s GROUP BY j) GROUP BY n",
        over="SELECT j, count(*) AS n FROM {s} GROUP BY j",
    ),
]  # fmt: skip
