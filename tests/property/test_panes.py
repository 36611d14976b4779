"""Adding rows up by panes before they enter a window changes no answer."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.instant import NEVER_BEFORE
from millstream.plan.physical import sources
from property.examples import examples

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, j INT, v INT, b BIGINT, d DECIMAL(10, 2)) TIMESTAMP BY ts SLACK 1 SECOND {}"
SECOND = 1_000_000
GREAT = 2**62

AGGREGATES = [
    "count(*) AS n", "count(v) AS n", "sum(v) AS t", "sum(b) AS t", "sum(d) AS t", "min(b) AS lo, max(v) AS hi",
    "min(ts) AS lo, max(d) AS hi", "count(*) AS n, sum(b) AS t, count(b) AS m",
]  # fmt: skip
SHAPES = [
    "SELECT k, {} FROM s [{}] GROUP BY k",
    "SELECT k, j, {} FROM s [{}] GROUP BY k, j",
    "SELECT {} FROM s [{}]",
    "SELECT j, {} FROM s [{}] WHERE v > 0 OR v IS NULL GROUP BY j",
    "SELECT DISTINCT k FROM s [{1}]",
    "SELECT k, {} FROM s [{}] GROUP BY k HAVING count(*) > 1",
]
QUERY = st.builds(
    lambda shape, aggregates, slide, length: shape.format(aggregates, f"RANGE {slide * length} SECONDS SLIDE {slide} SECONDS"),
    st.sampled_from(SHAPES), st.sampled_from(AGGREGATES), st.sampled_from([1, 2, 3]), st.integers(1, 5),
)  # fmt: skip
ROW = st.tuples(
    st.integers(0, 5), st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, None]), st.sampled_from([-1, 0, 2, None]),
    st.sampled_from([1, GREAT, -GREAT, None]), st.sampled_from(["1.25", "-99999999.99", None]),
)  # fmt: skip
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(ROW, min_size=1, max_size=6)),
        st.tuples(st.just("insert"), st.lists(ROW, min_size=1, max_size=6)),
        st.tuples(st.just("create"), QUERY, st.sampled_from(["", "", "START NOW "])),
        st.tuples(st.just("flush")),
        st.tuples(st.just("drop"), st.integers(0, 5)),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("upkeep")),
    ),
    min_size=3,
    max_size=14,
)


class Run:
    def __init__(self, path: str, buckets: int, stream: str, *, by_panes: bool) -> None:
        self._path, self._buckets, self._off = path, buckets, () if by_panes else ("aggregate_by_panes",)
        self.db = self._opened()
        self.db.execute(stream)
        self.queries: list[str] = []
        self._made, self.now, self.paned = 0, 0, 0

    def _opened(self) -> Database:
        return open_inline(self._path, buckets=self._buckets, runner=InlineRunner(rows_a_step=4), rules_off=self._off)

    def act(self, kind: str, given_: list[Any]) -> None:
        match kind:
            case "insert":
                self.db.insert("s", [(self.now + step * SECOND // 2, *row) for step, *row in given_[0]])
                self.now += max(row[0] for row in given_[0]) * SECOND // 2
            case "create":
                self._made += 1
                self.db.execute(f"CREATE QUERY q{self._made} {given_[1]}AS {given_[0]}")
                self.queries.append(f"q{self._made}")
                fragments = self.db._engine.queries[f"q{self._made}"].plan.fragments
                self.paned += any(source.panes is not None for fragment in fragments for source in sources(fragment.root))
            case "flush":
                self.db.flush()
            case "drop" if self.queries:
                self.db.execute(f"DROP QUERY {self.queries.pop(given_[0] % len(self.queries))}")
            case "restart":
                if given_[0]:
                    self.db.close()
                else:
                    self.db._location.close()
                self.db = self._opened()
            case "upkeep":
                self.db._engine.maintain()

    def answers(self) -> dict[str, tuple[int, Counter[Any], Counter[Any]]]:
        self.db.flush()
        found = {}
        for name in self.queries:
            query = self.db.query(name)
            found[name] = query.frontier, _bag(query.changes()), _bag(query.result()) if query.frontier > NEVER_BEFORE else Counter()
        return found


def _bag(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(map(repr, row.values())) for row in table.to_pylist())


@settings(max_examples=examples(40))
@given(
    actions=ACTIONS, first=QUERY, buckets=st.integers(1, 2),
    stream=st.sampled_from([STREAM.format(""), STREAM.format("PARTITION BY k"), STREAM.format("RETAIN 2 SECONDS")]),
)  # fmt: skip
def test_with_panes_or_without(actions: list[tuple[Any, ...]], first: str, buckets: int, stream: str) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        paned, plain = Run(one, buckets, stream, by_panes=True), Run(other, buckets, stream, by_panes=False)
        for kind, *given_ in [("create", first, ""), *actions]:
            paned.act(kind, given_)
            plain.act(kind, given_)
        assert paned.answers() == plain.answers()
        assert paned.paned == paned._made
        assert plain.paned == 0
        paned.db.close()
        plain.db.close()
