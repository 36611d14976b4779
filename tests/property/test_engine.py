"""The whole engine without a JVM: every answer at every instant equals its recomputation, whatever happens in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.api import Database
from millstream.core.instant import BEGINNING
from property.engine_model import DDL, QUERIES, WINDOWS, Action, Bag, QueryModel, StreamModel, WindowModel, actions
from property.engine_run import Engine, engines, running
from property.examples import examples

FIRST, LAST = -6, 45


def changes_of(table: pa.Table) -> list[tuple[int, int, tuple[Any, ...]]]:
    instants = table.column(0).cast(pa.int64()).to_pylist()
    diffs = table.column(1).to_pylist()
    columns = [column.to_pylist() for column in table.columns[2:]]
    return [(instants[i], diffs[i], tuple(column[i] for column in columns)) for i in range(table.num_rows)]


def contents_at(changes: list[tuple[int, int, tuple[Any, ...]]], t: int) -> Bag:
    bag: Bag = Counter()
    for instant, diff, row in changes:
        if instant <= t:
            bag[row] += diff
    assert min(bag.values(), default=0) >= 0, "a row was retracted that was not there"
    return +bag


def assert_netted(changes: list[tuple[int, int, tuple[Any, ...]]]) -> None:
    signs: dict[tuple[int, tuple[Any, ...]], int] = {}
    for instant, diff, row in changes:
        assert signs.setdefault((instant, row), diff) == diff, f"{row} both enters and leaves at {instant}"
    assert [change[0] for change in changes] == sorted(change[0] for change in changes)


@dataclass(frozen=True)
class Case:
    name: str
    window: WindowModel
    slack: int
    partition: str
    engine: Engine
    history: list[Action]

    @property
    def query(self) -> QueryModel:
        return QUERIES[self.name]


def cases() -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        name=st.sampled_from(sorted(QUERIES)),
        window=st.sampled_from(WINDOWS),
        slack=st.integers(0, 4),
        partition=st.sampled_from(["", " PARTITION BY k"]),
        engine=engines(),
        history=actions(),
    )


@contextmanager
def ran(case: Case, sql: str) -> Iterator[tuple[Database, StreamModel]]:
    """The database after all actions, with the query q, and the model of its stream."""
    model = StreamModel(case.slack)
    with running(case.engine, {"s": model}) as run:
        run.db.execute(DDL.format(slack=case.slack, partition=case.partition))
        run.db.execute(f"CREATE QUERY q AS {sql}")
        for action in case.history:
            run.do(action, "s")
        yield run.db, model


@given(case=cases())
@settings(max_examples=examples(80))
def test_relation_equals_recomputation_at_every_instant(case: Case) -> None:
    query, window = case.query, case.window
    with ran(case, query.sql.format(window=window.sql)) as (db, model):
        changes = changes_of(db.query("q").changes())
        assert_netted(changes)
        frontier = model.frontier
        assert all(instant <= max(frontier, BEGINNING) for instant, _, _ in changes)
        assert contents_at(changes, FIRST - 1) == query.answer([])
        for t in range(FIRST, min(frontier, LAST) + 1):
            assert contents_at(changes, t) == query.answer(model.window(window, t)), t
        assert Counter(tuple(row.values()) for row in db.query("q").result().to_pylist()) == contents_at(changes, max(frontier, BEGINNING))
        assert db.streams()[0].late == len(model.late)


@pytest.mark.parametrize("kind", ["ISTREAM", "DSTREAM", "RSTREAM"])
@given(case=cases())
@settings(max_examples=examples(35))
def test_stream_equals_recomputation_at_every_instant(kind: str, case: Case) -> None:
    query, window = case.query, case.window
    with ran(case, as_stream(query.sql, kind).format(window=window.sql)) as (db, model):
        changes = changes_of(db.query("q").changes())
        assert all(diff == 1 for _, diff, _ in changes)
        found: dict[int, Bag] = {}
        for instant, _, row in changes:
            found.setdefault(instant, Counter())[row] += 1
        expected = {t: bag for t, bag in expected_elements(kind, query, window, model) if bag}
        assert {t: bag for t, bag in found.items() if t <= LAST} == expected


def as_stream(sql: str, kind: str) -> str:
    """`SELECT [DISTINCT] list FROM ...` with the list wrapped."""
    head, tail = sql.removeprefix("SELECT ").split(" FROM ", 1)
    return f"SELECT {kind}({head}) FROM {tail}"


def expected_elements(kind: str, query: QueryModel, window: WindowModel, model: StreamModel) -> list[tuple[int, Bag]]:
    nothing = query.answer([])
    elements = [(BEGINNING, nothing if kind == "ISTREAM" else Counter())]
    before = nothing
    for t in range(FIRST, min(model.frontier, LAST) + 1):
        now = query.answer(model.window(window, t))
        match kind:
            case "ISTREAM":
                elements.append((t, now - before))
            case "DSTREAM":
                elements.append((t, before - now))
            case _:
                elements.append((t, now if model.moves(window, t) else Counter()))
        before = now
    return elements
