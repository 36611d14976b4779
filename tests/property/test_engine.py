"""The whole engine without a JVM: every answer at every instant equals its recomputation, whatever happens in between."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.instant import BEGINNING
from millstream.plan.rewrite import RULES
from millstream.runtime import tick
from property.engine_model import DDL, QUERIES, WINDOWS, Action, Bag, QueryModel, StreamModel, WindowModel, actions

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
    buckets: int
    rows_a_step: int
    map_stage_rows: int
    rules_off: frozenset[str]
    history: list[Action]

    @property
    def query(self) -> QueryModel:
        return QUERIES[self.name]


class Run:
    """Drives a database and its model through the same actions."""

    def __init__(self, directory: str, case: Case, sql: str) -> None:
        self.runner = InlineRunner(case.rows_a_step)
        self.open: Callable[[], Database] = lambda: open_inline(
            directory, buckets=case.buckets, runner=self.runner, rules_off=case.rules_off
        )
        self.db = self.open()
        self.model = StreamModel(case.slack)
        self.db.execute(DDL.format(slack=case.slack, partition=case.partition))
        self.db.execute(f"CREATE QUERY q AS {sql}")

    def do(self, action: Action) -> None:
        match action:
            case ("insert", rows):
                self.db.insert("s", rows)
                self.model.insert(rows)
            case ("advance", ts):
                self.db.advance(ts)
                self.model.advance(ts)
            case ("flush", _):
                self.db.flush()
            case ("lose caches", _):
                self.runner.lose_caches()
            case ("reopen", _):
                self.db.close()
                self.db = self.open()

    def changes(self) -> list[tuple[int, int, tuple[Any, ...]]]:
        return changes_of(self.db.query("q").changes())


def cases() -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        name=st.sampled_from(sorted(QUERIES)),
        window=st.sampled_from(WINDOWS),
        slack=st.integers(0, 4),
        partition=st.sampled_from(["", " PARTITION BY k"]),
        buckets=st.integers(1, 3),
        rows_a_step=st.sampled_from([1, 2, 5, 1000]),
        map_stage_rows=st.sampled_from([1, 1000]),
        rules_off=st.frozensets(st.sampled_from(sorted(RULES)), max_size=3),
        history=actions(),
    )


@given(case=cases())
@settings(max_examples=120)
def test_relation_equals_recomputation_at_every_instant(case: Case) -> None:
    query, window = case.query, case.window
    with tempfile.TemporaryDirectory() as directory, patch.object(tick, "MAP_STAGE_ROWS", case.map_stage_rows):
        run = Run(directory, case, query.sql.format(window=window.sql))
        for action in case.history:
            run.do(action)
        changes = run.changes()
        assert_netted(changes)
        frontier = run.model.frontier
        assert all(instant <= max(frontier, BEGINNING) for instant, _, _ in changes)
        assert contents_at(changes, FIRST - 1) == query.answer([])
        for t in range(FIRST, min(frontier, LAST) + 1):
            assert contents_at(changes, t) == query.answer(run.model.window(window, t)), t
        assert Counter(tuple(row.values()) for row in run.db.query("q").result().to_pylist()) == contents_at(
            changes, max(frontier, BEGINNING)
        )
        assert run.db.streams()[0].late == len(run.model.late)
        run.db.close()


@pytest.mark.parametrize("kind", ["ISTREAM", "DSTREAM", "RSTREAM"])
@given(case=cases())
@settings(max_examples=50)
def test_stream_equals_recomputation_at_every_instant(kind: str, case: Case) -> None:
    query, window = case.query, case.window
    with tempfile.TemporaryDirectory() as directory, patch.object(tick, "MAP_STAGE_ROWS", case.map_stage_rows):
        run = Run(directory, case, as_stream(query.sql, kind).format(window=window.sql))
        for action in case.history:
            run.do(action)
        changes = run.changes()
        assert all(diff == 1 for _, diff, _ in changes)
        found: dict[int, Bag] = {}
        for instant, _, row in changes:
            found.setdefault(instant, Counter())[row] += 1
        expected = {t: bag for t, bag in expected_elements(kind, query, window, run.model) if bag}
        assert {t: bag for t, bag in found.items() if t <= LAST} == expected
        run.db.close()


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
