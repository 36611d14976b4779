"""A whole database, slowly: rows are judged late one by one, answers are recomputed at every instant.

Queries come as SQL text beside a plain-Python definition of their answer over the rows of one window.
Timestamps are small integers of microseconds, so that ties, expiries and slides fall together often.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from millstream.core.instant import BEGINNING

Row = tuple[int, str | None, int | None]  # ts, k, v
Bag = Counter[tuple[Any, ...]]

DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts SLACK {slack} MICROSECONDS{partition}"


@dataclass(frozen=True)
class WindowModel:
    sql: str
    member: Callable[[int, int], bool]  # (ts, t)


def _slide(w: int, s: int) -> WindowModel:
    return WindowModel(f"[RANGE {w} MICROSECONDS SLIDE {s} MICROSECONDS]", lambda ts, t: (t // s) * s - w <= ts < (t // s) * s)


WINDOWS = [
    WindowModel("[RANGE 6 MICROSECONDS]", lambda ts, t: t - 6 <= ts <= t),
    WindowModel("[RANGE 5 MICROSECONDS EXCLUSIVE]", lambda ts, t: t - 5 < ts <= t),
    WindowModel("[NOW]", lambda ts, t: ts == t),
    WindowModel("[UNBOUNDED]", lambda ts, t: ts <= t),
    _slide(6, 2),
    _slide(4, 4),
    _slide(5, 3),
]


@dataclass(frozen=True)
class QueryModel:
    sql: str  # with {window}
    answer: Callable[[list[Row]], Bag]


def _grouped(rows: list[Row], keys: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(keys(row), []).append(row)
    return groups


def _values(rows: list[Row]) -> list[int]:
    return [v for _, _, v in rows if v is not None]


def _sum(rows: list[Row]) -> int | None:
    return sum(_values(rows)) if _values(rows) else None


def _avg(rows: list[Row]) -> float | None:
    return sum(_values(rows)) / len(_values(rows)) if _values(rows) else None


def _aggregates(rows: list[Row]) -> tuple[Any, ...]:
    values = _values(rows)
    return len(rows), len(values), _sum(rows), _avg(rows), min(values, default=None), max(values, default=None)


def _kept(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[2] is not None and row[2] > 1]


def _of_groups(groups: list[tuple[int, int | None]]) -> Bag:
    sums = {n: [s for m, s in groups if m == n] for n, _ in groups}
    return Counter(
        (n, len(found), sum(s for s in found if s is not None) if any(s is not None for s in found) else None) for n, found in sums.items()
    )


def _distinct(rows: list[Row]) -> tuple[Any, ...]:
    values = set(_values(rows))
    return len(values), sum(values) if values else None, _sum(rows), len({(v, ts) for ts, _, v in rows if v is not None})


def _of_sets(rows: list[Row]) -> Bag:
    """ROLLUP(k, v): (k, v, the bits of those left out, rows, sum)."""
    found: Bag = Counter()
    for left_out, keys in ((0, lambda row: row[1:]), (1, lambda row: (row[1], None)), (3, lambda row: (None, None))):
        found.update((*key, left_out, len(group), _sum(group)) for key, group in _grouped(rows, keys).items())
    return found


def _statistics(rows: list[Row]) -> tuple[Any, ...]:
    values = sorted(_values(rows))
    n = len(values)
    if not n:
        return None, None, None, "", None, None
    median = (values[(n - 1) // 2] + values[n // 2]) / 2
    spread = n * sum(v * v for v in values) - sum(values) ** 2
    xor = functools.reduce(operator.xor, values)
    return (
        median,
        spread / n**2,
        spread / (n * (n - 1)) if n > 1 else None,
        " ".join(map(str, sorted(set(values)))),
        any(v > 2 for v in values),
        xor,
    )


def _conditional(rows: list[Row]) -> tuple[Any, ...]:
    small = {k for _, k, v in rows if k is not None and v is not None and v < 2}
    ones, both = sum(v == 1 for _, _, v in rows), sum(k is not None and v is not None for _, k, v in rows)
    return len(_kept(rows)), _sum([row for row in rows if row[1] == "a"]), len(small), ones, both


def _distinct_where(rows: list[Row]) -> tuple[int, int, int | None]:
    values = set(_values(rows))
    odd = [value for value in values if value % 2 == 1]
    return len(values), sum(value > 1 for value in values), sum(odd) if odd else None


QUERIES = {
    "rows": QueryModel("SELECT k, v + 1 AS w FROM s {window}", lambda rows: Counter((k, None if v is None else v + 1) for _, k, v in rows)),
    "filtered": QueryModel("SELECT v FROM s {window} WHERE v > 1", lambda rows: Counter((v,) for _, _, v in _kept(rows))),
    "every aggregate": QueryModel(
        "SELECT k, count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS a, min(v) AS lo, max(v) AS hi FROM s {window} GROUP BY k",
        lambda rows: Counter((k, *_aggregates(group)) for k, group in _grouped(rows, lambda row: row[1]).items()),
    ),
    "filtered groups": QueryModel(
        "SELECT k, sum(v) AS s FROM s {window} WHERE v > 1 GROUP BY k",
        lambda rows: Counter((k, _sum(group)) for k, group in _grouped(_kept(rows), lambda row: row[1]).items()),
    ),
    "having": QueryModel(
        "SELECT k, count(*) AS n FROM s {window} GROUP BY k HAVING sum(v) > 2",
        lambda rows: Counter((k, len(group)) for k, group in _grouped(rows, lambda row: row[1]).items() if (_sum(group) or 0) > 2),
    ),
    "key not shown": QueryModel(
        "SELECT sum(v) AS s FROM s {window} GROUP BY k",
        lambda rows: Counter((_sum(group),) for group in _grouped(rows, lambda row: row[1]).values()),
    ),
    "key computed": QueryModel(
        "SELECT v % 2 AS odd, count(*) AS n FROM s {window} GROUP BY v % 2",
        lambda rows: Counter((odd, len(g)) for odd, g in _grouped(rows, lambda row: None if row[2] is None else row[2] % 2).items()),
    ),
    "aggregates in expressions": QueryModel(
        "SELECT k, count(*) > 2 AS many, coalesce(max(v), -1) + count(*) AS x FROM s {window} GROUP BY k",
        lambda rows: Counter((k, len(g) > 2, max(_values(g), default=-1) + len(g)) for k, g in _grouped(rows, lambda row: row[1]).items()),
    ),
    "global": QueryModel("SELECT count(*) AS n, sum(v) AS s FROM s {window}", lambda rows: Counter([(len(rows), _sum(rows))])),
    "global having": QueryModel(
        "SELECT max(v) AS m FROM s {window} HAVING count(*) > 1",
        lambda rows: Counter([(max(_values(rows), default=None),)]) if len(rows) > 1 else Counter(),
    ),
    "aggregate of aggregates": QueryModel(
        "SELECT n, count(*) AS groups, sum(s) AS s FROM (SELECT k, count(*) AS n, sum(v) AS s FROM s {window} GROUP BY k) AS t GROUP BY n",
        lambda rows: _of_groups([(len(g), _sum(g)) for g in _grouped(rows, lambda row: row[1]).values()]),
    ),
    "distinct aggregates": QueryModel(
        "SELECT k, count(DISTINCT v) AS c, sum(DISTINCT v) AS s, sum(v) AS t, count(DISTINCT v, ts) AS p FROM s {window} GROUP BY k",
        lambda rows: Counter((k, *_distinct(group)) for k, group in _grouped(rows, lambda row: row[1]).items()),
    ),
    "filtered aggregates": QueryModel(
        """SELECT count(*) FILTER (WHERE v > 1) AS n, sum(v) FILTER (WHERE k = 'a') AS s, count(DISTINCT k) FILTER (WHERE v < 2) AS d,
        count_if(v = 1) AS ones, count(k, v) AS b FROM s {window}""",
        lambda rows: Counter([_conditional(rows)]),
    ),
    "distinct values with conditions": QueryModel(
        """SELECT k, count(DISTINCT v) AS c, count(DISTINCT v) FILTER (WHERE v > 1) AS large,
        sum(DISTINCT v) FILTER (WHERE v % 2 = 1) AS odd FROM s {window} GROUP BY k""",
        lambda rows: Counter((k, *_distinct_where(group)) for k, group in _grouped(rows, lambda row: row[1]).items()),
    ),
    "statistics": QueryModel(
        """SELECT k, median(v) AS m, var_pop(v) AS p, variance(v) AS s, array_join(collect_set(v), ' ') AS c, bool_or(v > 2) AS b,
        bit_xor(v) AS x FROM s {window} GROUP BY k""",
        lambda rows: Counter((k, *_statistics(group)) for k, group in _grouped(rows, lambda row: row[1]).items()),
    ),
    "grouping sets": QueryModel(
        "SELECT k, v, grouping_id() AS g, count(*) AS n, sum(v) AS s FROM s {window} GROUP BY ROLLUP(k, v)", lambda rows: _of_sets(rows)
    ),
    "grouping sets of keys alone": QueryModel(
        "SELECT k FROM s {window} GROUP BY GROUPING SETS (k, ())",
        lambda rows: Counter([*((None,) for _ in rows[:1]), *((k,) for k in {row[1] for row in rows})]),
    ),
    "distinct": QueryModel("SELECT DISTINCT k FROM s {window}", lambda rows: Counter({(k,) for _, k, _ in rows})),
}


@dataclass
class StreamModel:
    """The stream's rows and frontier, moved row by row as the contract says."""

    slack: int
    rows: list[Row] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    frontier: int = BEGINNING - 1

    def insert(self, rows: list[Row]) -> None:
        for row in rows:
            if row[0] <= self.frontier:
                self.late.append(row)
            else:
                self.rows.append(row)
                self.frontier = max(self.frontier, row[0] - self.slack - 1)

    def advance(self, ts: int) -> None:
        self.frontier = max(self.frontier, ts)

    def window(self, window: WindowModel, t: int) -> list[Row]:
        return [row for row in self.rows if window.member(row[0], t)]

    def moves(self, window: WindowModel, t: int) -> bool:
        return any(window.member(row[0], t) != window.member(row[0], t - 1) for row in self.rows)


Action = tuple[str, Any]


CELLS: tuple[st.SearchStrategy[Any], ...] = (
    st.integers(-3, 30),
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, 2, 3, None]),
)


REOPENINGS = st.tuples(st.just("reopen"), st.sampled_from([None, 1, 2, 3]))
"""With another number of buckets, or as it was."""


@st.composite
def actions(draw: st.DrawFn, *, most: int = 8, more_cells: tuple[st.SearchStrategy[Any], ...] = ()) -> list[Action]:
    """What happens to the database, in order; ends with a flush.  Rows are (ts, k, v) and `more_cells`."""
    cells = st.tuples(*CELLS, *more_cells)
    step = st.one_of(
        st.tuples(st.just("insert"), st.lists(cells, max_size=6)),
        st.tuples(st.just("insert"), st.lists(cells, max_size=6).map(sorted_by_time)),
        st.tuples(st.just("advance"), st.integers(-5, 40)),
        st.tuples(st.just("flush"), st.none()),
        st.tuples(st.sampled_from(["flush", "lose caches"]), st.none()),
        REOPENINGS,
    )
    return [*draw(st.lists(step, min_size=1, max_size=most)), ("flush", None)]


def sorted_by_time(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[0])
