"""What Structured Streaming refuses and Millstream runs, row by row: the tables of docs/structured-streaming.md, and what they rest on.

Rows of the streams `s` and `r` are (second, k, v).  Ours are asked at second 12, when a window of 10 seconds has let the first row of
`s` go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]

ROWS: dict[str, list[tuple[int, int, int]]] = {
    "s": [(1, 1, 10), (6, 2, 20), (8, 1, 30), (9, 2, 20)],
    "r": [(5, 1, 15), (7, 3, 25)],
}
NOW = 12

LEGACY = "_LEGACY_ERROR_TEMP_3102"
OVER = "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING"
SUBQUERY = "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"
CHAINED = "Detected pattern of possible 'correctness' issue due to global watermark"
NO_DISTINCT = "Distinct aggregations are not supported"
NO_OVER = "Window function is not supported"
NO_SUBQUERY = "Streaming query is not allowed in subquery expressions"
NO_WATERMARK = "is not supported without a watermark in the join keys"


@dataclass(frozen=True)
class Refused:
    what: str
    spark: str  # with the streams as views `s` and `r`
    mode: str  # the output mode that comes closest to what is asked for; the others fail too
    condition: str
    says: str
    ours: str
    answer: list[Row]


@dataclass(frozen=True)
class Accepted:
    what: str
    spark: str  # `sw` and `rw` are `s` and `r` with a watermark
    mode: str
    but: str


_W = "[RANGE 10 SECONDS]"

REFUSED = [
    Refused(
        "an aggregate of an aggregate that changes",
        "SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM s GROUP BY k) GROUP BY n",
        "update", LEGACY, CHAINED,
        f"SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM s {_W} GROUP BY k) AS g GROUP BY n",
        [(1, 1), (2, 1)],
    ),
    Refused(
        "an aggregate of distinct rows",
        "SELECT count(*) AS n FROM (SELECT DISTINCT k FROM s)",
        "update", LEGACY, CHAINED,
        f"SELECT count(*) AS n FROM (SELECT DISTINCT k FROM s {_W}) AS d",
        [(2,)],
    ),
    Refused(
        "a join of aggregates",
        "SELECT a.k, n, m FROM (SELECT k, count(*) AS n FROM s GROUP BY k) a JOIN (SELECT k, max(v) AS m FROM r GROUP BY k) b ON a.k = b.k",
        "update", LEGACY, CHAINED,
        f"SELECT a.k, n, m FROM (SELECT k, count(*) AS n FROM s {_W} GROUP BY k) AS a "
        f"JOIN (SELECT k, max(v) AS m FROM r {_W} GROUP BY k) AS b ON a.k = b.k",
        [(1, 1, 15)],
    ),
    Refused(
        "two windows of one stream, side by side",
        "SELECT a.k, n, m FROM (SELECT k, window(ts, '4 seconds') AS w, count(*) AS n FROM s GROUP BY 1, 2) a "
        "JOIN (SELECT k, window(ts, '10 seconds') AS w, count(*) AS m FROM s GROUP BY 1, 2) b ON a.k = b.k",
        "update", LEGACY, CHAINED,
        "SELECT a.k, n, m FROM (SELECT k, count(*) AS n FROM s [RANGE 4 SECONDS] GROUP BY k) AS a "
        "JOIN (SELECT k, count(*) AS m FROM s [RANGE 10 SECONDS] GROUP BY k) AS b ON a.k = b.k",
        [(1, 1, 1), (2, 1, 2)],
    ),
    Refused(
        "a sum that slides with every row",
        "SELECT k, sum(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW) AS total FROM s",
        "append", OVER, NO_OVER,
        f"SELECT k, sum(v) AS total FROM s {_W} GROUP BY k",
        [(1, 30), (2, 40)],
    ),
    Refused(
        "count(DISTINCT)",
        "SELECT k, count(DISTINCT v) AS n FROM s GROUP BY k",
        "update", LEGACY, NO_DISTINCT,
        f"SELECT k, count(DISTINCT v) AS n FROM s {_W} GROUP BY k",
        [(1, 1), (2, 1)],
    ),
    Refused(
        "any other aggregate with DISTINCT",
        "SELECT sum(DISTINCT v) AS total FROM s",
        "complete", LEGACY, NO_DISTINCT,
        f"SELECT sum(DISTINCT v) AS total FROM s {_W}",
        [(50,)],
    ),
    Refused(
        "INTERSECT",
        "SELECT k FROM s INTERSECT SELECT k FROM r",
        "append", LEGACY, "Intersect of streaming DataFrames/Datasets is not supported",
        f"SELECT k FROM s {_W} INTERSECT SELECT k FROM r {_W}",
        [(1,)],
    ),
    Refused(
        "EXCEPT",
        "SELECT k FROM s EXCEPT SELECT k FROM r",
        "append", LEGACY, "Except on a streaming DataFrame/Dataset on the right is not supported",
        f"SELECT k FROM s {_W} EXCEPT SELECT k FROM r {_W}",
        [(2,)],
    ),
    Refused(
        "EXCEPT ALL",
        "SELECT k FROM s EXCEPT ALL SELECT k FROM r",
        "append", LEGACY, "Except on a streaming DataFrame/Dataset on the right is not supported",
        f"SELECT k FROM s {_W} EXCEPT ALL SELECT k FROM r {_W}",
        [(2,), (2,)],
    ),
    Refused(
        "OVER: a row beside the one before",
        "SELECT k, v, lag(v) OVER (PARTITION BY k ORDER BY ts) AS u FROM s",
        "append", OVER, NO_OVER,
        f"SELECT k, v, lag(v) OVER (PARTITION BY k ORDER BY ts) AS u FROM s {_W}",
        [(2, 20, None), (1, 30, None), (2, 20, 20)],
    ),
    Refused(
        "the first row of each key",
        "SELECT k, v FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM s) WHERE n <= 1",
        "append", OVER, NO_OVER,
        f"SELECT k, v FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM s {_W}) AS o WHERE n <= 1",
        [(1, 30), (2, 20)],
    ),
    Refused(
        "ORDER BY with LIMIT",
        "SELECT k, v FROM s ORDER BY v DESC LIMIT 1",
        "update", LEGACY, "Sorting is not supported on streaming DataFrames/Datasets",
        f"SELECT k, v FROM s {_W} ORDER BY v DESC LIMIT 1",
        [(1, 30)],
    ),
    Refused(
        "a join of streams without equality",
        "SELECT s.v, r.v AS w FROM s JOIN r ON s.v < r.v",
        "append", "STREAM_FAILED", "Stream-stream join without equality predicate is not supported",
        f"SELECT s.v, r.v AS w FROM s {_W} AS s JOIN r {_W} AS r ON s.v < r.v",
        [(20, 25), (20, 25)],
    ),
    Refused(
        "LEFT JOIN without watermarks",
        "SELECT s.k, s.v, r.v AS w FROM s LEFT JOIN r ON s.k = r.k",
        "append", LEGACY, NO_WATERMARK,
        f"SELECT s.k, s.v, r.v AS w FROM s {_W} AS s LEFT JOIN r {_W} AS r ON s.k = r.k",
        [(2, 20, None), (1, 30, 15), (2, 20, None)],
    ),
    Refused(
        "FULL JOIN without watermarks",
        "SELECT s.k, r.k AS j FROM s FULL JOIN r ON s.k = r.k",
        "append", LEGACY, NO_WATERMARK,
        f"SELECT s.k, r.k AS j FROM s {_W} AS s FULL JOIN r {_W} AS r ON s.k = r.k",
        [(2, None), (1, 1), (2, None), (None, 3)],
    ),
    Refused(
        "SEMI JOIN without watermarks",
        "SELECT s.k FROM s LEFT SEMI JOIN r ON s.k = r.k",
        "append", LEGACY, NO_WATERMARK,
        f"SELECT s.k FROM s {_W} AS s LEFT SEMI JOIN r {_W} AS r ON s.k = r.k",
        [(1,)],
    ),
    Refused(
        "ANTI JOIN",
        "SELECT s.k FROM s LEFT ANTI JOIN r ON s.k = r.k",
        "append", LEGACY, "LeftAnti joins with a streaming DataFrame/Dataset on the right are not supported",
        f"SELECT s.k FROM s {_W} AS s LEFT ANTI JOIN r {_W} AS r ON s.k = r.k",
        [(2,), (2,)],
    ),
    Refused(
        "a query as a value",
        "SELECT v FROM s WHERE v > (SELECT avg(v) FROM r)",
        "append", SUBQUERY, NO_SUBQUERY,
        f"SELECT v FROM s {_W} WHERE v > (SELECT avg(v) FROM r {_W})",
        [(30,)],
    ),
    Refused(
        "a query as a value, one for each row",
        "SELECT k, (SELECT max(v) FROM r WHERE r.k = s.k) AS m FROM s",
        "append", SUBQUERY, NO_SUBQUERY,
        f"SELECT k, (SELECT max(v) FROM r {_W} WHERE r.k = s.k) AS m FROM s {_W}",
        [(2, None), (1, 15), (2, None)],
    ),
    Refused(
        "IN with a query",
        "SELECT k FROM s WHERE k IN (SELECT k FROM r)",
        "append", SUBQUERY, NO_SUBQUERY,
        f"SELECT k FROM s {_W} WHERE k IN (SELECT k FROM r {_W})",
        [(1,)],
    ),
    Refused(
        "NOT IN with a query",
        "SELECT k FROM s WHERE k NOT IN (SELECT k FROM r)",
        "append", SUBQUERY, NO_SUBQUERY,
        f"SELECT k FROM s {_W} WHERE k NOT IN (SELECT k FROM r {_W})",
        [(2,), (2,)],
    ),
    Refused(
        "EXISTS",
        "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = s.k)",
        "append", SUBQUERY, NO_SUBQUERY,
        f"SELECT k FROM s {_W} WHERE EXISTS (SELECT 1 FROM r {_W} WHERE r.k = s.k)",
        [(1,)],
    ),
]  # fmt: skip

ACCEPTED = [
    Accepted("`LIMIT` without an order", "SELECT k, v FROM s LIMIT 1", "append", "the first rows that ever came, for good"),
    Accepted(
        "the first of an ordered aggregate", "SELECT k, count(*) AS n FROM s GROUP BY k ORDER BY n DESC LIMIT 1", "complete",
        "the state never shrinks",
    ),
    Accepted("`DISTINCT`", "SELECT DISTINCT k FROM s", "update", "nothing is ever taken back"),
    Accepted("`UNION`", "SELECT k FROM s UNION SELECT k FROM r", "update", "nothing is ever taken back"),
    Accepted("`GROUPING SETS`, `ROLLUP`, `CUBE`", "SELECT k, count(*) AS n FROM s GROUP BY ROLLUP(k)", "update", "the state never shrinks"),
    Accepted("`median`, `collect_list`", "SELECT k, median(v) AS m FROM s GROUP BY k", "update", "over all rows so far"),
    Accepted("an inner join on equal keys", "SELECT s.k, r.v FROM s JOIN r ON s.k = r.k", "append", "every row is kept for ever"),
    Accepted(
        "an aggregate of an inner join", "SELECT k, count(*) AS n FROM (SELECT s.k FROM s JOIN r ON s.k = r.k) GROUP BY k", "update",
        "every row is kept for ever",
    ),
    Accepted(
        "an outer join with watermarks and a range of time",
        "SELECT sw.k, rw.v FROM sw LEFT JOIN rw ON sw.k = rw.k AND rw.ts BETWEEN sw.ts AND sw.ts + INTERVAL 10 SECONDS", "append",
        "a row without a partner is told once that none can come any more",
    ),
    Accepted(
        "an aggregate of tumbling windows that are over",
        "SELECT window(w, '10 seconds') AS ten, max(n) AS m "
        "FROM (SELECT window(ts, '5 seconds') AS w, k, count(*) AS n FROM sw GROUP BY 1, 2) GROUP BY 1",
        "append", "the answer is told once a window is over and the watermark past it",
    ),
]  # fmt: skip
