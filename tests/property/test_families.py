"""Selections that run together answer as each of them would by itself, whatever happens to them meanwhile."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.instant import NEVER_BEFORE
from millstream.runtime import families
from property.examples import examples

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, d DOUBLE) TIMESTAMP BY ts"
SECOND = 1_000_000

WINDOWS = ["[RANGE 3 SECONDS]", "[RANGE 2 SECONDS SLIDE 1 SECOND]", "[NOW]", "[UNBOUNDED]"]
SELECTED = ["k, v", "*", "v + 1 AS w, d", "upper(k) AS u", "v AS a, v AS b"]
WHERE = [
    "v > 1",
    "v >= 1 AND v < 3",
    "k = 'a'",
    "k = 'b' AND d <= 0.5",
    "'a' < k",
    "v = 1 OR k = 'b'",
    "k LIKE 'a%' AND v < 2",
    "d > 0.25 AND v IS NOT NULL",
    "ts >= TIMESTAMP '1970-01-01 00:00:02' AND v > 0",
    "v > -1 AND k IN ('a', 'b')",
    "v > 5",
]
SHAPES = ["SELECT {0} FROM s {1} WHERE {2}", "SELECT ISTREAM({0}) FROM s {1} WHERE {2}", "SELECT DSTREAM({0}) FROM s {1} WHERE {2}"]

QUERY = st.builds(
    lambda shape, selected, window, where: shape.format(selected, window, where),
    st.sampled_from(SHAPES), st.sampled_from(SELECTED), st.sampled_from(WINDOWS), st.sampled_from(WHERE),
)  # fmt: skip
ROW = st.tuples(
    st.integers(0, 4), st.sampled_from(["a", "ab", "b", None]), st.integers(0, 3) | st.none(),
    st.sampled_from([0.0, -0.0, 0.5, float("nan"), None]),
)  # fmt: skip
WHICH = st.integers(0, 9)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(ROW, min_size=1, max_size=5)),
        st.tuples(st.just("insert"), st.lists(ROW, min_size=1, max_size=5)),
        st.tuples(st.just("create"), QUERY),
        st.tuples(st.just("create"), QUERY),
        st.tuples(st.just("create"), QUERY),
        st.tuples(st.just("tick")),
        st.tuples(st.just("alter"), WHICH, st.sampled_from(WHERE)),
        st.tuples(st.just("pause"), WHICH),
        st.tuples(st.just("drop"), WHICH),
        st.tuples(st.just("look"), WHICH),
        st.tuples(st.just("read"), WHICH),
        st.tuples(st.just("upkeep")),
        st.tuples(st.just("restart"), st.booleans(), st.booleans()),
    ),
    min_size=4,
    max_size=16,
)


class Run:
    def __init__(self, path: str, buckets: int, *, share: bool) -> None:
        self._path, self._buckets, self._share = path, buckets, share
        self._made = 0
        self.queries: dict[str, str] = {}
        self.paused: set[str] = set()
        self.now = 0
        self.together = 0
        self.db = self._opened(share)
        self.db.execute(STREAM)

    def _opened(self, share: bool) -> Database:
        return open_inline(self._path, buckets=self._buckets, runner=InlineRunner(rows_a_step=5), share_selections=share)

    def act(self, kind: str, given_: list[Any]) -> None:
        names = list(self.queries)
        match kind:
            case "insert":
                for step, k, v, d in sorted(given_[0], key=lambda row: row[0]):
                    self.db.insert("s", [(self.now + step * SECOND // 2, k, v, d)])
                self.now += max(row[0] for row in given_[0]) * SECOND // 2
            case "create":
                self._made += 1
                self.db.execute(f"CREATE QUERY q{self._made} AS {given_[0]}")
                self.queries[f"q{self._made}"] = given_[0]
            case "tick":
                self.db._engine.tick()
            case "upkeep":
                self.db._engine.maintain()
            case "restart":
                self._restart(*given_)
            case _ if names:
                self._act_on(kind, names[given_[0] % len(names)], given_[1:])
        self.together = max(self.together, sum(query.common is not None for query in self.db._engine.queries.values()))

    def _act_on(self, kind: str, name: str, given_: list[Any]) -> None:
        match kind:
            case "alter" if " WHERE " in self.queries[name]:
                self.db.flush()
                changed = self.queries[name].rpartition(" WHERE ")[0] + " WHERE " + given_[0]
                self.db.execute(f"ALTER QUERY {name} AS {changed}")
                self.queries[name] = changed
            case "pause":
                self.db.flush()
                (self.db.query(name).resume if name in self.paused else self.db.query(name).pause)()
                self.paused ^= {name}
            case "drop":
                if not any(f" FROM {name} " in each for each in self.queries.values()):
                    self.db.execute(f"DROP QUERY {name}")
                    del self.queries[name]
                    self.paused.discard(name)
            case "look":
                self.db.query(name).changes()
            case "read" if " FROM s " in self.queries[name]:
                self._made += 1
                window = "[RANGE 1 SECOND]" if self.db._engine.queries[name].is_stream else ""
                sql = f"SELECT count(*) AS n FROM {name} {window}"
                self.db.execute(f"CREATE QUERY q{self._made} AS {sql}")
                self.queries[f"q{self._made}"] = sql

    def _restart(self, share: bool, clean: bool) -> None:
        if clean:
            self.db.close()
        else:  # as if the process had been killed: nothing is written any more
            self.db._location.close()
        self.db = self._opened(share and self._share)

    def answers(self) -> dict[str, tuple[int, Counter[Any], Counter[Any], bool]]:
        self.db.flush()
        return {name: self._answer(name) for name in self.queries}

    def _answer(self, name: str) -> tuple[int, Counter[Any], Counter[Any], bool]:
        query = self.db.query(name)
        started = query.frontier > NEVER_BEFORE
        return query.frontier, _bag(query.changes()), _bag(query.result()) if started else Counter(), query.is_partial


def _bag(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(map(repr, row.values())) for row in table.rename_columns(list(map(str, range(table.num_columns)))).to_pylist())


_formed: list[int] = []


@settings(max_examples=examples(40))
@given(actions=ACTIONS, buckets=st.integers(1, 2), fewest=st.sampled_from([1, 1, 2, 3]), piece=st.sampled_from([2, 1000]))
def test_together_or_apart(actions: list[tuple[Any, ...]], buckets: int, fewest: int, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        patch.setattr(families, "FEWEST", fewest)
        patch.setattr(families, "MOST_WAITING", 3)
        patch.setattr(families, "WORTH_A_FILE", 1)
        patch.setattr(families, "_A_PIECE", piece)
        together, apart = Run(one, buckets, share=True), Run(other, buckets, share=False)
        for kind, *given_ in actions:
            together.act(kind, given_)
            apart.act(kind, given_)
        assert together.answers() == apart.answers()
        assert together.answers() == apart.answers(), "asked again"
        assert apart.together == 0
        _formed.append(together.together)
        together.db.close()
        apart.db.close()


def test_the_examples_above_had_families() -> None:
    """Else they show nothing."""
    if _formed:  # another process may have drawn them
        assert sum(count > 1 for count in _formed) > len(_formed) // 8
