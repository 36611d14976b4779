"""Queries are created, dropped, paused and given other windows while rows come: each is exact at every instant, no other one notices."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.instant import BEGINNING, NEVER_BEFORE
from millstream.runtime import beside, engine, families
from property.examples import examples

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
SECOND = 1_000_000
Row = tuple[int, str | None, int | None]
Answer = Counter[tuple[Any, ...]]

SHAPES = {
    "rows": "SELECT k, v FROM s [{}] WHERE v > 1",
    "groups": "SELECT k, count(*) AS n, sum(v) AS total FROM s [{}] GROUP BY k",
    "total": "SELECT count(*) AS n FROM s [{}]",
    "distinct": "SELECT DISTINCT k FROM s [{}]",
}


def answer(shape: str, rows: list[Row]) -> Answer:
    """By definition."""
    match shape:
        case "rows":
            return Counter((k, v) for _, k, v in rows if v is not None and v > 1)
        case "groups":
            groups: dict[str | None, list[int | None]] = {}
            for _, k, v in rows:
                groups.setdefault(k, []).append(v)
            return Counter((k, len(vs), sum(v for v in vs if v is not None) if set(vs) != {None} else None) for k, vs in groups.items())
        case "total":
            return Counter([(len(rows),)])
        case _:
            return Counter({(k,) for _, k, _ in rows})


@dataclass
class Known:
    """What a query should be: its shape, when it began, and its windows with the instants up to which each was in force."""

    shape: str
    began: int
    windows: list[tuple[int, int]]  # (length in seconds, last instant); the last one has no end
    ignores: int = NEVER_BEFORE
    paused: bool = False
    told: pa.Table | None = None
    ends: list[int] = field(default_factory=list)

    def at(self, instant: int, rows: list[Row]) -> Answer:
        length = next(length for length, end in self.windows if instant <= end)
        return answer(self.shape, [row for row in rows if instant - length * SECOND <= row[0] <= instant and row[0] >= self.ignores])

    def instants(self, rows: list[Row], upto: int) -> set[int]:
        """All at which it can change, and those just before and after."""
        near = {ts + length * SECOND + d for ts, _, _ in rows for length, _ in [*self.windows, (0, 0)] for d in (0, 1)}
        near |= {end + d for _, end in self.windows for d in (0, 1)} | {self.began, upto}
        return {instant for instant in near if max(self.began, BEGINNING) <= instant <= upto}


class Run:
    """A database under test, and the rows and queries that it should have."""

    def __init__(self, path: str, buckets: int) -> None:
        self._path, self._buckets = path, buckets
        self.db = self._opened()
        self.db.execute(STREAM)
        self.rows: list[Row] = []
        self.queries: dict[str, Known] = {}

    def _opened(self) -> Database:
        return open_inline(self._path, buckets=self._buckets, runner=InlineRunner(rows_a_step=7))

    @property
    def frontier(self) -> int:
        return self.db.streams()[0].frontier

    def insert(self, rows: list[Row]) -> None:
        late = self.frontier  # row by row, in order: none of these is late
        self.db.insert("s", [row for row in rows if row[0] > late])
        self.rows += [row for row in rows if row[0] > late]

    def create(self, name: str, shape: str, length: int, start: int | str | None) -> None:
        began, ignores, clause = self.frontier, NEVER_BEFORE, ""
        if start == "now":
            ignores, clause = began + 1 if began > NEVER_BEFORE else NEVER_BEFORE, "START NOW "
        elif isinstance(start, int) and began >= 0:
            began = max(0, began - start * SECOND)
            clause = f"START AT TIMESTAMP '1970-01-01T00:00:{began // SECOND:02d}.{began % SECOND:06d}Z' "
        self.db.execute(f"CREATE QUERY {name} {clause}AS {SHAPES[shape].format(f'RANGE {length} SECONDS')}")
        self.queries[name] = Known(shape, began, [(length, 1 << 62)], ignores)

    def drop(self, name: str) -> None:
        self.db.execute(f"DROP QUERY {name}")
        del self.queries[name]

    def alter(self, name: str, length: int) -> None:
        known, at = self.queries[name], self.db.query(name).frontier
        self.db.execute(f"ALTER QUERY {name} SET WINDOW [RANGE {length} SECONDS]")
        kept = [(each, min(end, at)) for each, end in known.windows if each is not None]
        known.windows = [*kept, (length, 1 << 62)] if at > NEVER_BEFORE else [(length, 1 << 62)]
        if not known.paused and at > NEVER_BEFORE:  # at once
            assert _bag(self.db.query(name).result()) == Known(known.shape, known.began, [(length, 1 << 62)], known.ignores).at(
                at, self.rows
            )

    def pause(self, name: str) -> None:
        self.queries[name].paused = not self.queries[name].paused
        (self.db.query(name).pause if self.queries[name].paused else self.db.query(name).resume)()

    def restart(self) -> None:
        self.db.close()
        self.db = self._opened()

    def check(self) -> None:
        self.db.flush()
        for name, known in self.queries.items():
            query = self.db.query(name)
            if query.frontier == NEVER_BEFORE:
                continue
            assert known.paused or query.frontier == self.frontier, name
            changes = query.changes()
            self._check_only_grows(name, known, changes)
            for instant in sorted(known.instants(self.rows, query.frontier)):
                assert _folded(changes, instant) == known.at(instant, self.rows), (name, instant)

    def _check_only_grows(self, name: str, known: Known, changes: pa.Table) -> None:
        if known.told is not None:
            assert changes.slice(0, known.told.num_rows).equals(known.told), name
        known.told = changes
        per_instant = Counter((*row.values(),) for row in changes.drop_columns(["diff"]).to_pylist())
        both = Counter({(*row.values(),): 1 for row in changes.drop_columns(["diff"]).to_pylist()})
        signs = {(*row.values(),) for row in changes.to_pylist()}
        assert all(per_instant[key] == 1 or len({s for s in signs if (s[0], *s[2:]) == key}) == 1 for key in both), "not netted"


def _bag(table: pa.Table) -> Answer:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def _folded(changes: pa.Table, instant: int) -> Answer:
    bag: Answer = Counter()
    times = changes.column(0).cast(pa.int64()).to_pylist()
    for at, row in zip(times, changes.to_pylist(), strict=True):
        if at <= instant:
            bag[tuple(list(row.values())[2:])] += row["diff"]
    assert all(count >= 0 for count in bag.values())
    return +bag


ROWS = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["a", "b", None]), st.integers(0, 3) | st.none()), max_size=4)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), ROWS),
        st.tuples(st.just("create"), st.sampled_from(sorted(SHAPES)), st.integers(1, 9), st.sampled_from([None, "now", 2, 5, 12])),
        st.tuples(st.just("alter"), st.integers(0, 9), st.integers(1, 9)),
        st.tuples(st.just("pause"), st.integers(0, 9)),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("restart")),
    ),
    max_size=14,
)


@settings(max_examples=examples(30))
@given(actions=ACTIONS, buckets=st.integers(1, 2), much=st.sampled_from([0, 1_000]), fewest=st.sampled_from([1, 2, 99]))
def test_each_query_equals_its_recomputation_and_no_other_notices(
    actions: list[tuple[Any, ...]], buckets: int, much: int, fewest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as path, tempfile.TemporaryDirectory() as alone_path:
        patch.setattr(engine, "MANY_ROWS", much)
        patch.setattr(families, "FEWEST", fewest)
        patch.setattr(beside, "LIGHT_ROWS", 3)
        run, alone = Run(path, buckets), Run(alone_path, buckets)
        for each in (run, alone):
            each.create("base", "groups", 4, None)
        made = 0
        for kind, *given_ in actions:
            names = [name for name in run.queries if name != "base"]
            match kind:
                case "insert":
                    now = max([ts for ts, _, _ in run.rows], default=0)
                    for each in (run, alone):
                        each.insert([(now + step * SECOND // 2, k, v) for step, k, v in sorted(given_[0], key=lambda row: row[0])])
                case "create":
                    run.create(f"q{made}", *given_)
                    made += 1
                case "flush":
                    run.check()
                    alone.db.flush()
                case "restart":
                    run.restart()
                case _ if names:
                    getattr(run, kind)(names[given_[0] % len(names)], *given_[1:])
        run.check()
        alone.db.flush()
        assert run.db.query("base").changes().equals(alone.db.query("base").changes())
        run.db.close()
        alone.db.close()
