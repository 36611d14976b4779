"""Queries with parts in common run them once, or each for itself: their changes are the same, whoever comes, goes, waits or fails.

Two databases do the same things; one shares, or not, as it is opened each time, the other never does.
"""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.runtime import engine, rounds
from property.examples import examples

SECOND = 1_000_000
SETUP = [
    "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts",
    "CREATE STREAM t (ts TIMESTAMP, k STRING, w INT) TIMESTAMP BY ts",
    "CREATE RELATION r (k STRING, name STRING)",
]
_FEW = "SELECT k, count(*) AS n FROM s [RANGE 3 SECONDS] GROUP BY k HAVING count(*) > {}"
BASE = {"x": _FEW.format(0), "y": _FEW.format(1), "z": "SELECT a.k, b.w FROM s [RANGE 3 SECONDS] a, t [RANGE 4 SECONDS] b WHERE a.k = b.k"}

SHAPES = {
    "having": "SELECT k, count(*) AS n, avg(v) AS a FROM s [{w}] GROUP BY k HAVING count(*) > {n}",
    "named otherwise": "SELECT k AS key, count(*) AS many, avg(v) * 2 AS twice FROM s [{w}] GROUP BY k",
    "the aggregate alone": "SELECT k, count(*) AS n FROM s [{w}] GROUP BY k",
    "total": "SELECT count(*) + {n} AS n, sum(v) AS total FROM s [{w}]",
    "distinct": "SELECT DISTINCT k FROM s [{w}]",
    "join": "SELECT a.k, a.v + {n} AS v, b.w FROM s [{w}] a, t [{t}] b WHERE a.k = b.k",
    "groups of the join": "SELECT a.k, sum(a.v + b.w) AS x FROM s [{w}] a, t [{t}] b WHERE a.k = b.k GROUP BY a.k",
    "other groups of it": "SELECT b.w, sum(a.v) AS n FROM s [{w}] a, t [{t}] b WHERE a.k = b.k GROUP BY b.w HAVING sum(a.v) > {n}",
    "outer join": "SELECT a.v, b.w FROM s [{w}] a LEFT JOIN t [{t}] b ON a.k = b.k WHERE a.v > {n}",
    "with a relation": "SELECT name, count(*) AS n FROM s [{w}], r WHERE s.k = r.k GROUP BY name HAVING count(*) > {n}",
    "first rows": "SELECT k, v FROM s [{w}] ORDER BY v DESC, k LIMIT {n}",
    "ranks": "SELECT k, v, n FROM (SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS n FROM s [{w}]) WHERE n > {n}",
    "above the average": "SELECT k, v FROM s [{w}] WHERE v > (SELECT avg(v) FROM s [{w}])",
    "entering": "SELECT ISTREAM(k, count(*) AS n) FROM s [{w}] GROUP BY k HAVING count(*) > {n}",
    "intersection": "SELECT k FROM s [{w}] INTERSECT SELECT k FROM t [RANGE 4 SECONDS]",
    "counts of counts": "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM s [{w}] GROUP BY k) GROUP BY n HAVING count(*) >= {n}",
    "over a query": "SELECT n, count(*) AS c FROM x GROUP BY n HAVING count(*) > {n}",
}
FAMILIES = [
    ["having", "named otherwise", "the aggregate alone", "entering"],
    ["join", "groups of the join", "other groups of it", "outer join"],
    ["counts of counts", "over a query", "other groups of it"],
    sorted(SHAPES),
]
"""In one example: queries that are likely to have something in common."""
WINDOWS = ["RANGE 3 SECONDS", "RANGE 5 SECONDS", "ROWS 3", "PARTITION BY k ROWS 2", "RANGE 4 SECONDS SLIDE 2 SECONDS"]
KEYS = st.sampled_from(["a", "b", None])
VALUES = st.integers(0, 3) | st.none()
ROWS = st.lists(st.tuples(st.integers(0, 4), KEYS, VALUES), max_size=5)
CREATION = st.tuples(
    st.just("create"),
    st.integers(0, 99),
    st.sampled_from([*WINDOWS, *WINDOWS[:2]]),
    st.integers(1, 2),
    st.sampled_from([None, None, "NOW"]),
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.sampled_from("sst"), ROWS),
        st.tuples(st.just("relation"), KEYS, st.sampled_from(["p", "q"])),
        CREATION,
        st.tuples(st.just("alter"), st.integers(0, 9), st.sampled_from(WINDOWS)),
        st.tuples(st.just("pause"), st.integers(0, 9)),
        st.tuples(st.just("pause"), st.integers(0, 9)),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("flush")),
        st.tuples(st.just("result"), st.integers(0, 9)),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("lose caches")),
    ),
    max_size=16,
)


class Both:
    def __init__(self, paths: tuple[str, str], buckets: int, share_windows: bool, scheduler: Any, rows_a_step: int) -> None:
        self._paths, self._buckets, self._share_windows, self._scheduler = paths, buckets, share_windows, scheduler
        self._rows_a_step = rows_a_step
        self.open(share=True)
        self.queries: list[str] = []
        self.paused: set[str] = set()
        self.now = 0
        self.made = 0
        for statement in [*SETUP, *(f"CREATE QUERY {name} AS {sql}" for name, sql in BASE.items())]:
            self.execute(statement)

    def open(self, *, share: bool) -> None:
        self.shares = share
        self.runners = [InlineRunner(self._rows_a_step, pairs_a_piece=5) for _ in range(2)]
        self.dbs = [
            open_inline(
                path, buckets=self._buckets, runner=runner, share_windows=self._share_windows, share_subplans=on, scheduler=self._scheduler
            )
            for path, runner, on in zip(self._paths, self.runners, (share, False), strict=True)
        ]

    def close(self) -> None:
        for db in self.dbs:
            db.close()

    def execute(self, sql: str) -> None:
        for db in self.dbs:
            db.execute(sql)

    def insert(self, stream: str, rows: list[tuple[int, str | None, int | None]]) -> None:
        """In order, some at the same instant; both streams follow one clock, so that joins move."""
        rows = sorted(rows, key=lambda row: row[0])
        stamped = [(self.now + step * SECOND // 2, k, v) for step, k, v in rows]
        for db in self.dbs:
            db.insert(stream, stamped)
        self.now = max([self.now, *(ts for ts, _, _ in stamped)])

    def create(self, shape: str, window: str, n: int, start: str | None) -> None:
        clause = "START NOW " if start else ""
        self.execute(f"CREATE QUERY q{self.made} {clause}AS {SHAPES[shape].format(w=window, n=n, t='RANGE 4 SECONDS')}")
        self.queries.append(f"q{self.made}")
        self.made += 1

    def alter(self, number: int, window: str) -> None:
        name = self.queries[number % len(self.queries)]
        if _has_one_window(self.dbs[0], name):
            self.execute(f"ALTER QUERY {name} SET WINDOW [{window}]")

    def pause(self, number: int) -> None:
        name = self.queries[number % len(self.queries)]
        self.paused ^= {name}
        self.execute(f"ALTER QUERY {name} {'PAUSE' if name in self.paused else 'RESUME'}")

    def drop(self, number: int) -> None:
        name = self.queries.pop(number % len(self.queries))
        self.paused.discard(name)
        self.execute(f"DROP QUERY {name}")

    def result(self, number: int) -> None:
        name = self.queries[number % len(self.queries)]
        one, other = (_sorted(db.query(name).result()) for db in self.dbs)
        assert one == other, name

    def check(self) -> None:
        for db in self.dbs:
            db.flush()
        for name in [*BASE, *self.queries]:
            one, other = (db.query(name) for db in self.dbs)
            assert one.stats()["error"] is None
            assert one.frontier == other.frontier, name
            assert _sorted(one.changes()) == _sorted(other.changes()), name

    def move(self) -> None:
        self.insert("s", [(1, "a", 1), (1, "a", 2), (2, "b", 1)])
        for db in self.dbs:
            db.advance(self.now)
        self.check()


def _has_one_window(db: Database, name: str) -> bool:
    return str(db.definition(name)).count("[") == 1


def _sorted(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@settings(max_examples=examples(30), deadline=None)
@given(
    queries=st.tuples(st.sampled_from(FAMILIES), st.lists(CREATION, max_size=4)), rows=ROWS, actions=ACTIONS,
    opened=st.tuples(
        st.integers(1, 2), st.booleans(), st.sampled_from(["fifo", "round_robin", "greedy", "chain"]), st.sampled_from([1, 3, 1000])
    ),
    ticks=st.sampled_from([2, 300]), much=st.sampled_from([10, 500_000]),
)  # fmt: skip
def test_sharing_changes_no_answer(
    queries: tuple[list[str], list[Any]], rows: list[Any], actions: list[Any], opened: tuple[int, bool, Any, int], ticks: int, much: int
) -> None:
    family, first = queries
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        patch.setattr(rounds, "SNAPSHOT_TICKS", ticks)
        patch.setattr(engine, "MANY_ROWS", much)
        both = Both((one, other), *opened)
        fill = [("insert", "s", rows), ("insert", "t", rows), ("flush",)]
        for kind, *given_ in [*first, *fill, *fill, *actions]:
            match kind:
                case "insert":
                    both.insert(*given_)
                case "relation":
                    for db in both.dbs:
                        db.insert("r", [tuple(given_)])
                case "create":
                    both.create(family[given_[0] % len(family)], *given_[1:])
                case "flush":
                    for db in both.dbs:
                        db.advance(both.now)
                    both.check()
                case "restart":
                    both.close()
                    both.open(share=given_[0])
                case "lose caches":
                    both.runners[0].lose_caches()
                case _ if both.queries:
                    getattr(both, kind)(*given_)
        both.check()
        if not both.shares:
            both.close()
            both.open(share=True)
        for _ in range(3):
            both.move()
        shared = [part for part in both.dbs[0].sharing() if part.kind == "operator"]
        assert any({"x", "y"} <= set(part.queries) for part in shared)
        assert all(part.kind == "rows" for part in both.dbs[1].sharing())
        event(f"{max(len(part.queries) for part in shared)} queries with a part in common")
        both.close()
