"""Queries over one stream that come and go: each answers as if it were alone, whatever the others keep in the store with it.

They have other windows, other columns, other filters; some wait for a second stream and lag behind; caches get lost, files are merged, and
what lies behind the retention leaves the log.  A query that comes when rows are gone already owes answers from when these would have left
its windows anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.instant import BEGINNING
from millstream.runtime import rounds
from property.engine_model import CELLS, DDL, QUERIES, REOPENINGS, WINDOWS, Bag, Row, StreamModel, WindowModel, sorted_by_time
from property.engine_run import Engine, Run, engines, running
from property.examples import examples
from property.test_engine import FIRST, LAST, assert_netted, changes_of, contents_at

Models = dict[str, StreamModel]


@dataclass(frozen=True)
class Standing:
    """A query, the streams that it waits for, and its answer at an instant."""

    sql: str
    streams: tuple[str, ...]
    answer: Callable[[Models, int], Bag]
    oldest: Callable[[Models, int], int]
    """The timestamp of the oldest row that it is about."""

    def frontier(self, models: Models) -> int:
        return min(models[name].frontier for name in self.streams)


def over_one(name: str, window: WindowModel) -> Standing:
    query = QUERIES[name]
    return Standing(
        query.sql.format(window=window.sql),
        ("s",),
        lambda models, t: query.answer(models["s"].window(window, t)),
        lambda models, t: _oldest(models["s"].window(window, t)),
    )


def newest(rows: int, range_us: int | None) -> Standing:
    """A window by count: ties are in the order of arrival."""
    sql = f"SELECT v FROM s [ROWS {rows}{'' if range_us is None else f' RANGE {range_us} MICROSECONDS'}]"

    def held(models: Models, t: int) -> list[Row]:
        seen = sorted((row for row in models["s"].rows if row[0] <= t), key=lambda row: row[0])[-rows:]
        return [row for row in seen if range_us is None or row[0] >= t - range_us]

    return Standing(sql, ("s",), lambda models, t: _values(held(models, t)), lambda models, t: _oldest(held(models, t)))


def over_both(one: WindowModel, other: WindowModel) -> Standing:
    """Goes only as far as the slower stream."""
    sql = f"SELECT v FROM s {one.sql} UNION ALL SELECT v FROM t {other.sql}"

    def held(models: Models, t: int) -> list[Row]:
        return models["s"].window(one, t) + models["t"].window(other, t)

    return Standing(sql, ("s", "t"), lambda models, t: _values(held(models, t)), lambda models, t: _oldest(held(models, t)))


def pairs(one: WindowModel, other: WindowModel) -> Standing:
    """Two windows over one stream, each with columns of its own."""

    def answer(models: Models, t: int) -> Bag:
        left, right = models["s"].window(one, t), models["s"].window(other, t)
        return Counter((a[2], b[0]) for a in left for b in right if a[1] == b[1] and a[1] is not None)

    sql = f"SELECT a.v, cast(unix_micros(b.ts) AS BIGINT) AS u FROM s {one.sql} a, s {other.sql} b WHERE a.k = b.k"
    return Standing(sql, ("s",), answer, lambda models, t: _oldest(models["s"].window(one, t) + models["s"].window(other, t)))


def _oldest(rows: list[Row]) -> int:
    return min((row[0] for row in rows), default=LAST)


def _values(rows: list[Row]) -> Bag:
    return Counter((v,) for _, _, v in rows)


def standing() -> st.SearchStrategy[Standing]:
    windows = st.sampled_from(WINDOWS)
    return st.one_of(
        st.builds(over_one, st.sampled_from(sorted(QUERIES)), windows),
        st.builds(over_one, st.sampled_from(["having", "key not shown", "distinct", "filtered groups", "every aggregate"]), windows),
        st.builds(newest, st.integers(1, 6), st.sampled_from([None, None, 3])),
        st.builds(over_both, windows, windows),
        st.builds(pairs, windows, windows),
    )


def histories() -> st.SearchStrategy[list[tuple[str, Any]]]:
    rows = st.lists(st.tuples(*CELLS), min_size=1, max_size=6)
    arrivals = st.tuples(st.sampled_from(["s", "s", "t"]), rows | rows.map(sorted_by_time))
    step = st.one_of(
        arrivals,
        arrivals,
        arrivals,
        st.tuples(st.just("advance"), st.tuples(st.sampled_from(["s", "t"]), st.integers(-5, 40))),
        st.tuples(st.just("switch"), st.integers(0, 3)),
        st.tuples(st.just("trim"), st.integers(1, 8)),
        st.tuples(st.sampled_from(["flush", "flush", "lose caches", "maintain"]), st.none()),
        REOPENINGS,
    )
    return st.lists(step, min_size=3, max_size=14)


class Sharing:
    """A run; since which instant each of its queries has to be right, and from which timestamp on rows were there when it came."""

    def __init__(self, run: Run, models: Models, queries: list[Standing], retain: int | None) -> None:
        self.run, self.models, self.queries = run, models, queries
        self._retain = LAST if retain is None else retain
        self.since: dict[int, tuple[int, int]] = {}

    def do(self, what: str, detail: Any) -> None:
        match what:
            case "s" | "t":
                self.run.do(("insert", detail), what)
            case "advance":
                self.run.db.advance(*detail)
                self.models[detail[0]].advance(detail[1])
            case "switch" if detail < len(self.queries):
                self.switch(detail)
            case "trim":  # time passes, so that what came before may go
                reached = max(FIRST, *(model.frontier for model in self.models.values()))
                for action in (("flush", None), ("advance", reached + detail), ("flush", None)):
                    self.run.do(action, "s")
                self.run.db._engine.maintain()
            case "maintain":
                self.run.db._engine.maintain()
            case "flush" | "lose caches" | "reopen":
                self.run.do((what, detail), "s")

    def switch(self, number: int) -> None:
        """Create the query, or drop it."""
        if number in self.since:
            self.run.db.execute(f"DROP QUERY q{number}")
            del self.since[number]
        else:
            self.run.db.execute(f"CREATE QUERY q{number} AS {self.queries[number].sql}")
            kept = max(self.models[name].frontier for name in self.queries[number].streams) - self._retain
            self.since[number] = (self.queries[number].frontier(self.models), kept)

    def check(self) -> None:
        for number, (since, kept) in self.since.items():
            query = self.queries[number]
            changes = changes_of(self.run.db.query(f"q{number}").changes())
            frontier = query.frontier(self.models)
            assert_netted([change for change in changes if change[0] > since])
            for t in range(max(FIRST, since), min(frontier, LAST) + 1):
                if query.oldest(self.models, t) >= kept:
                    assert contents_at(changes, t) == query.answer(self.models, t), (query.sql, t)
            result = self.run.db.query(f"q{number}").result()
            assert Counter(zip(*(column.to_pylist() for column in result.columns), strict=True)) == contents_at(
                changes, max(frontier, BEGINNING)
            )


@given(
    engine=engines(),
    slack=st.integers(0, 4),
    partition=st.sampled_from(["", " PARTITION BY k"]),
    retain=st.sampled_from([None, 1, 4, 10]),
    ticks_a_snapshot=st.sampled_from([1, 3, 300]),
    queries=st.lists(standing(), min_size=2, max_size=4),
    first=st.integers(0, 4),
    history=histories(),
)
@settings(max_examples=examples(80))
def test_every_query_answers_as_if_it_were_alone(
    engine: Engine, slack: int, partition: str, retain: int | None, ticks_a_snapshot: int, queries: list[Standing], first: int,
    history: list[tuple[str, Any]],
) -> None:  # fmt: skip
    models = {"s": StreamModel(slack), "t": StreamModel(slack)}
    with running(engine, models) as run, patch.object(rounds, "SNAPSHOT_TICKS", ticks_a_snapshot):
        ddl = DDL.format(slack=slack, partition=partition) + ("" if retain is None else f" RETAIN {retain} MICROSECONDS")
        run.db.execute(ddl)
        run.db.execute(ddl.replace("STREAM s", "STREAM t"))
        sharing = Sharing(run, models, queries, retain)
        for number in range(min(first, len(queries))):
            sharing.switch(number)
        for what, detail in [*history, ("flush", None)]:
            sharing.do(what, detail)
        sharing.check()
