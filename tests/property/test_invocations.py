"""Registered queries through the database: at any instant, whatever is kept, they answer what the definition says.

Rows come in any order within the slack, streams are at different places, queries come and go, the database is closed and opened again
and the process of the soup gets lost.  The definition is DuckDB's answer over the rows that the window holds.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.core.instant import NEVER_BEFORE, format_instant
from millstream.psoup.query import VARIANTS
from millstream.runtime.invocations import feeding
from property.examples import examples

SECOND = 1_000_000
SLACK = {"s": 2, "u": 0}
"""In seconds."""
Row = tuple[int, str | None, int | None]
Bounds = tuple[tuple[str, int], tuple[str, int]]

SHAPES = {
    "selection": "SELECT ts, k, v FROM s{0} WHERE v >= {1} AND v < {1} + 2",
    "equality": "SELECT v FROM s{0} WHERE k = 'a' AND {1} = v",
    "list": "SELECT k, v * 2 + {1} AS w FROM s{0} WHERE (k <> 'b' OR v IS NULL) AND v % 2 = 0",
    "everything": "SELECT * FROM u{0}",
    "nothing": "SELECT k FROM s{0} WHERE {1} > 9",
    "totals": "SELECT count(*) AS n, sum(v) AS total, min(v) AS least, max(k) AS last, avg(v) AS mean FROM s{0} WHERE v <> {1}",
    "computed total": "SELECT sum(v + 1) + {1} AS total, count(DISTINCT k) AS kinds FROM s{0}",
    "half": "SELECT max(v) - min(v) AS width FROM u{0} WHERE v > {1}",
    "groups": "SELECT k, count(*) AS n, sum(v) AS total FROM s{0} GROUP BY k HAVING count(*) > {1}",
    "distinct": "SELECT DISTINCT k FROM s{0} WHERE v > {1}",
    "keys": "SELECT a.k, a.v, b.v AS w FROM s{0} AS a, u{0} AS b WHERE a.k = b.k AND a.v > {1}",
    "band": "SELECT a.v, b.v AS w FROM s{0} AS a JOIN u{0} AS b ON a.v <= b.v + {1} AND b.v - 1 < a.v AND a.k IS NOT NULL",
    "times": "SELECT a.k, b.k AS l FROM s{0} AS a, u{0} AS b WHERE a.ts >= b.ts AND a.ts <= b.ts + INTERVAL {1} SECONDS",
    "self": "SELECT count(*) AS n, sum(a.v) AS total FROM s{0} AS a, s{0} AS b WHERE a.k = b.k AND a.v < b.v",
    "pairs": "SELECT a.v, b.v AS w FROM s{0} AS a, u{0} AS b WHERE a.v + b.v = {1}",
    "three": "SELECT a.v, c.k FROM s{0} AS a, u{0} AS b, s{0} AS c WHERE a.k = b.k AND b.v >= c.v AND c.v <> {1}",
}  # fmt: skip
INDEXED = {
    "selection": (2, 0, 0), "equality": (2, 0, 0), "list": (0, 0, 2), "everything": (0, 0, 0), "nothing": (0, 0, 1), "totals": (0, 0, 1),
    "half": (1, 0, 0), "distinct": (1, 0, 0), "keys": (1, 1, 0), "times": (0, 2, 0), "self": (0, 2, 0), "pairs": (0, 0, 1),
    "three": (0, 2, 1), "computed total": (0, 0, 0), "groups": (0, 0, 0),
}  # fmt: skip
"""How many parts of WHERE become factors, joins and conditions."""


@dataclass(frozen=True)
class Asked:
    """A query that is registered three times, once for each variant."""

    shape: str
    bounds: Bounds
    number: int
    at_the_end: bool

    def sql(self) -> str:
        window = f" BEGIN {_edge(self.bounds[0])} END {_edge(self.bounds[1])}"
        if self.at_the_end:
            return SHAPES[self.shape].format("", self.number) + window
        return SHAPES[self.shape].format(f" [{window[1:]}]", self.number)

    def window(self, now: int) -> tuple[int, int]:
        begin, end = (now - at * SECOND if kind == "now" else at * SECOND for kind, at in self.bounds)
        return begin, min(end, now)

    def streams(self) -> set[str]:
        return {name for name in SLACK if f" {name}{{0}}" in SHAPES[self.shape]}


def _edge(edge: tuple[str, int]) -> str:
    kind, at = edge
    if kind == "now":
        return f"NOW - {at} SECONDS" if at else "NOW"
    return f"TIMESTAMP '{format_instant(at * SECOND)}'"


class Run:
    def __init__(self, path: str) -> None:
        self._path = path
        self.runner = InlineRunner()
        self.db = open_inline(path, runner=self.runner)
        self.rows: dict[str, list[Row]] = {name: [] for name in SLACK}
        self.frontiers = dict.fromkeys(SLACK, NEVER_BEFORE)
        self.asked: dict[str, Asked] = {}
        for name, slack in SLACK.items():
            self.db.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts SLACK {slack} SECONDS")

    def insert(self, stream: str, rows: list[Row]) -> None:
        self.db.insert(stream, rows)
        for row in rows:
            if row[0] > self.frontiers[stream]:
                self.rows[stream].append(row)
            self.frontiers[stream] = max(self.frontiers[stream], row[0] - SLACK[stream] * SECOND - 1)

    def advance(self, stream: str, ts: int) -> None:
        self.db.advance(stream, ts)
        self.frontiers[stream] = max(self.frontiers[stream], ts)

    def register(self, name: str, asked: Asked) -> None:
        for variant in VARIANTS:
            registered = self.db.register(f"{name}_{variant}", asked.sql(), materialise=variant)
            clause = registered._registered.planned.query.clause
            if asked.shape in INDEXED:
                assert (len(clause.factors), len(clause.joins), len(clause.conditions)) == INDEXED[asked.shape], clause
            is_total = asked.shape in ("totals", "half", "self")
            assert bool(registered._registered.planned.query.aggregates) == is_total
        self.asked[name] = asked

    def unregister(self, name: str) -> None:
        for variant in VARIANTS:
            self.db.unregister(f"{name}_{variant}")
        del self.asked[name]

    def restart(self) -> None:
        self.db.close()
        self.runner = InlineRunner()
        self.db = open_inline(self._path, runner=self.runner)

    def check(self, name: str) -> None:
        asked = self.asked[name]
        now = min(self.frontiers[stream] for stream in asked.streams())
        expected = self.expected(asked, now)
        for variant in VARIANTS:
            registered = self.db.registered(f"{name}_{variant}")
            assert registered.frontier == now
            assert not registered.is_partial
            answer = registered.invoke()
            assert [field.type for field in registered.schema] == answer.schema.types
            assert _bag(answer) == expected, (variant, asked.sql(), now)

    def expected(self, asked: Asked, now: int) -> Counter[tuple[Any, ...]]:
        begin, end = asked.window(now)
        with duckdb.connect() as connection:
            for name, rows in self.rows.items():
                inside = [row for row in rows if begin <= row[0] <= end]
                ts, k, v = ([row[i] for row in inside] for i in range(3))
                table = pa.table(
                    {"ts": pa.array(ts, pa.timestamp("us", "UTC")), "k": pa.array(k, pa.string()), "v": pa.array(v, pa.int32())}
                )
                connection.register(name, table)
            return _bag(connection.sql(SHAPES[asked.shape].format("", asked.number)).to_arrow_table())


def _bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    values = [[_plain(value) for value in column.to_pylist()] for column in columns]
    return Counter(zip(*values, strict=True))


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else float(value)


STREAM = st.sampled_from(sorted(SLACK))
ROWS = st.lists(st.tuples(st.integers(-3, 6), st.sampled_from(["a", "b", None]), st.integers(0, 3) | st.none()), max_size=5)
SLIDING = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: (("now", max(pair)), ("now", min(pair))))
LANDMARK = st.tuples(st.integers(0, 12), st.integers(0, 3)).map(lambda pair: (("at", pair[0]), ("now", pair[1])))
SNAPSHOT = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: (("at", min(pair)), ("at", max(pair))))
ASKED = st.builds(Asked, st.sampled_from(sorted(SHAPES)), st.one_of(SLIDING, SLIDING, LANDMARK, SNAPSHOT), st.integers(0, 2), st.booleans())
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), STREAM, ROWS),
        st.tuples(st.just("insert"), STREAM, ROWS),
        st.tuples(st.just("advance"), STREAM, st.integers(0, 4)),
        st.tuples(st.just("register"), ASKED),
        st.tuples(st.just("register"), ASKED),
        st.tuples(st.just("unregister"), st.integers(0, 9)),
        st.tuples(st.just("invoke"), st.integers(0, 9)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("lose")),
        st.tuples(st.just("restart")),
    ),
    max_size=16,
)


@settings(max_examples=examples(40), deadline=None)
@given(actions=ACTIONS, eager=st.booleans())
@example(
    actions=[
        ("register", Asked("everything", (("now", 1), ("now", 0)), 0, True)),
        ("insert", "u", [(0, "a", 1), (2, "b", 2)]),
        ("invoke", 0),
        ("advance", "u", 1),
    ],
    eager=True,
)
@example(  # what `complete` keeps of s is that of a later instant than the one that is asked for
    actions=[
        ("register", Asked("everything", (("now", 9), ("now", 0)), 0, True)),
        ("register", Asked("selection", (("now", 1), ("now", 0)), 0, True)),
        ("insert", "s", [(0, "a", 1)]),
        ("advance", "s", 1),
        ("insert", "u", [(6, "a", 1)]),
        ("insert", "u", [(6, "b", 2)]),
        ("flush",),
    ],
    eager=False,
)
@example(
    actions=[
        ("insert", "u", [(0, "a", 1), (2, "b", 2), (6, "b", 0), (6, "c", 3)]),
        ("register", Asked("everything", (("now", 1), ("now", 0)), 0, True)),
        ("invoke", 0),
        ("register", Asked("everything", (("now", 9), ("now", 0)), 0, True)),
        ("invoke", 1),
        ("insert", "u", [(4, "d", 5), (6, None, None)]),
        ("flush",),
        ("register", Asked("half", (("at", 0), ("now", 0)), 0, True)),
    ],
    eager=True,
)
def test_answers_are_those_of_the_definition(actions: list[tuple[Any, ...]], eager: bool) -> None:
    """`eager`: rows are let go as soon as no window needs them."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as path:
        if eager:
            patch.setattr(feeding, "LEAST_EXPIRY_US", 0)
            patch.setattr(feeding, "SHARE", 1 << 62)
        run, made = Run(path), 0
        for kind, *given_ in actions:
            names = sorted(run.asked)
            match kind:
                case "insert":
                    stream, rows = given_
                    newest = max([ts for ts, _, _ in run.rows[stream]], default=0)
                    run.insert(stream, [(max(0, newest + step * SECOND // 2), k, v) for step, k, v in rows])
                case "advance":
                    run.advance(given_[0], max(0, run.frontiers[given_[0]]) + given_[1] * SECOND)
                case "register":
                    run.register(f"q{made}", given_[0])
                    made += 1
                case "unregister" if names:
                    run.unregister(names[given_[0] % len(names)])
                case "invoke" if names:
                    run.check(names[given_[0] % len(names)])
                case "flush":
                    run.db.flush()
                case "lose":
                    run.runner.lose_caches()
                case "restart":
                    run.restart()
        for name in run.asked:
            run.check(name)
        run.db.close()
