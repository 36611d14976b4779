"""Random SQL through the whole engine, without a JVM: at every instant the answer is DuckDB's over the windows' contents.

MILLSTREAM_EXAMPLES says how many times as many queries are tried.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.api import Database
from millstream.core.instant import BEGINNING
from property.engine_model import CELLS, REOPENINGS, Action, Bag, StreamModel, actions, sorted_by_time
from property.engine_run import Engine, engines, running
from property.examples import examples
from property.sql_queries import RandomQuery, random_queries, table_of
from property.sql_windows import CREATE_RELATION, MORE_CELLS, RELATION, STREAMS, Stamped, Windowed, cells_of, columns_of, create_stream
from property.test_engine import FIRST, LAST, assert_netted, changes_of, contents_at
from property.test_relations_and_queries import RelationModel

Change = tuple[int, int, tuple[Any, ...]]
Step = tuple[str, Action]  # the stream or relation that is changed


@dataclass(frozen=True)
class Case:
    history: list[Step]
    queries: list[tuple[RandomQuery, int]]  # each is created after so many actions
    slack: Mapping[str, int]
    partition: Mapping[str, str | None]
    engine: Engine


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Rows of all streams, mostly in order and cut into insertions with something in between; at the end time passes.

    One time in ten it is anything at all, in which most rows are late or never reached by the frontier.
    """
    if draw(st.integers(0, 9)) == 9:
        return [*(_step(draw, action) for action in draw(actions(most=12, more_cells=MORE_CELLS))), ("", ("flush", None))]
    size = draw(st.integers(15, 40))
    cells = st.tuples(st.integers(-2, 14), *CELLS[1:], *MORE_CELLS)
    rows = sorted_by_time(draw(st.lists(cells, min_size=size, max_size=size)))
    owner = draw(st.lists(st.sampled_from(sorted(STREAMS)), min_size=size, max_size=size))
    cuts = sorted(draw(st.sets(st.integers(1, size - 1), min_size=1, max_size=2)))
    history: list[Step] = [(RELATION, ("put", draw(st.lists(st.tuples(*CELLS[1:]), max_size=5))))]
    for start, end in zip([0, *cuts], [*cuts, size], strict=True):
        for stream in STREAMS:
            part = [cells_of(stream, row) for row, own in zip(rows[start:end], owner[start:end], strict=True) if own == stream]
            history.append((stream, ("insert", draw(st.permutations(part)) if draw(st.integers(0, 3)) == 0 else part)))
        history += [(RELATION, draw(relation_changes())) for _ in range(draw(st.integers(0, 2)))]
        history.append(("", draw(REOPENINGS | st.tuples(st.sampled_from(["flush", "flush", "lose caches"]), st.none()))))
        if draw(st.booleans()):
            history.append(("", ("advance", rows[end - 1][0] - draw(st.integers(1, 3)))))
    return [*history, ("", ("advance", rows[-1][0] + draw(st.integers(0, 12)))), ("", ("flush", None))]


def relation_changes() -> st.SearchStrategy[Action]:
    rows = st.lists(st.tuples(*CELLS[1:]), min_size=1, max_size=4)
    return st.tuples(st.sampled_from(["put", "put", "take"]), rows)


def _step(draw: st.DrawFn, action: Action) -> Step:
    name, argument = action
    if name == "flush" and draw(st.booleans()):
        return RELATION, draw(relation_changes())
    stream = draw(st.sampled_from(sorted(STREAMS)))
    return stream, (name, [cells_of(stream, row) for row in argument] if name == "insert" else argument)


def cases() -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        history=histories(),
        queries=st.lists(st.tuples(random_queries(), st.sampled_from([0, 0, 0, 0, 2, 5])), min_size=3, max_size=3),
        slack=st.fixed_dictionaries({stream: st.integers(0, 4) for stream in STREAMS}),
        partition=st.fixed_dictionaries({stream: st.sampled_from([None, *names[1:]]) for stream, names in STREAMS.items()}),
        engine=engines(),
    )


@given(case=cases())
@settings(max_examples=examples(20))
def test_answers_equal_those_of_duckdb_at_every_instant(case: Case) -> None:
    world = World({stream: StreamModel(case.slack[stream]) for stream in STREAMS}, RelationModel())
    answers = [Answer(query, i, world) for i, (query, _) in enumerate(case.queries)]
    with running(case.engine, world.streams) as run:
        for stream in STREAMS:
            run.db.execute(create_stream(stream, case.slack[stream], case.partition[stream]))
        run.db.execute(CREATE_RELATION)
        for answer in answers:
            answer.create_streams(run.db)
        for i, (changed, action) in enumerate(case.history):
            for answer, (_, after) in zip(answers, case.queries, strict=True):
                if i == min(after, len(case.history) - 1):
                    answer.create(run.db)
            if changed == RELATION:
                world.change_relation(run.db, action)
            else:
                run.do(action, changed)
        for answer in answers:
            answer.read(run.db)
    for answer in answers:
        try:
            answer.check()
        except AssertionError as error:
            pytest.fail(f"{error}\n{told(case)}", pytrace=False)


def told(case: Case) -> str:
    steps = [f"  {stream if name == 'insert' else ''} {name} {argument or ''}" for stream, (name, argument) in case.history]
    created = f"created after {[after for _, after in case.queries]} actions"
    return "\n".join([f"{case.engine}, slack {case.slack}, partition {case.partition}, {created}", *steps])


@dataclass(frozen=True)
class World:
    """What queries are over."""

    streams: Mapping[str, StreamModel]
    relation: RelationModel

    def change_relation(self, db: Database, action: Action) -> None:
        """From just after the greatest frontier on."""
        name, rows = action
        instant = max(model.frontier for model in self.streams.values()) + 1
        change = db.insert if name == "put" else db.delete
        change(RELATION, rows)
        self.relation.done.append((instant, name, rows))


class Answer:
    """One query of a database: what the engine says, held against the oracle."""

    def __init__(self, query: RandomQuery, i: int, world: World) -> None:
        self._query, self._name, self._world = query, f"q{i}", world
        self._created = FIRST - 1

    def create_streams(self, db: Database) -> None:
        """A stream that is created late owes nothing of what was before: these are there from the start."""
        for name, cql in self._query.named_cql(self._name, is_stream=True):
            db.execute(f"CREATE QUERY {name} AS {cql}")

    def create(self, db: Database) -> None:
        """Up to the frontier of this moment, its changes only add up."""
        self._created = max(self._created, self._frontier())
        for name, cql in self._query.named_cql(self._name, is_stream=False):
            db.execute(f"CREATE QUERY {name} AS {cql}")
        db.execute(f"CREATE QUERY {self._name} AS {self._query.cql(self._name)}")

    def read(self, db: Database) -> None:
        query = db.query(self._name)
        self._changes, self._is_stream = rounded(changes_of(query.changes())), query.is_stream
        self._result = answer_of(query.result())

    def check(self) -> None:
        frontier, oracle = self._frontier(), Oracle(self._query, self._world)
        assert all(instant <= max(frontier, BEGINNING) for instant, _, _ in self._changes), "a change lies beyond the frontier"
        instants = range(self._created, min(frontier, LAST) + 1)
        if self._is_stream:
            self._check_elements(oracle, instants[1:])
            return
        assert_netted(self._changes)
        for t in instants:
            oracle.expect(contents_at(self._changes, t), oracle.answer(t), t)
        assert self._result == contents_at(self._changes, max(frontier, BEGINNING)), "result() is not what the changes add up to"

    def _check_elements(self, oracle: Oracle, instants: range) -> None:
        assert all(diff == 1 for _, diff, _ in self._changes), "a stream takes an element back"
        for t in instants:
            found = Counter(row for instant, _, row in self._changes if instant == t)
            oracle.expect(found, oracle.elements(self._query.to_stream or "ISTREAM", t), t)
            if self._query.to_stream is None:  # a stream by default: its answer can only grow
                oracle.expect(Counter(), oracle.elements("DSTREAM", t), t)

    def _frontier(self) -> int:
        return min(self._world.streams[stream].frontier for stream in self._query.streams)


# --- the oracle -------------------------------------------------------------------------------


class Oracle:
    """The query recomputed by DuckDB, from the windows' contents at an instant."""

    def __init__(self, query: RandomQuery, world: World) -> None:
        self._query, self._world = query, world
        self._duckdb = connection()
        self._seen = {i: self._seen_by(i, item) for i, item in enumerate(query.items) if isinstance(item, Windowed)}
        self._schemas = [pa.schema([(column.name, ARROW[column.kind]) for column in item.columns]) for item in query.items]
        self._answers: dict[Any, Bag] = {}

    def answer(self, t: int) -> Bag:
        contents = self.contents(t)
        numbers = tuple(tuple(row[0] for row in rows) for rows in contents)
        if numbers not in self._answers:
            for i, (rows, schema) in enumerate(zip(contents, self._schemas, strict=True)):
                self._duckdb.register(table_of(i), table([row[1:] for row in rows], schema))
            self._answers[numbers] = answer_of(self._duckdb.sql(self._query.oracle).to_arrow_table())
        return self._answers[numbers]

    def elements(self, kind: str, t: int) -> Bag:
        """What a stream of this kind has at an instant."""
        match kind:
            case "ISTREAM":
                return self.answer(t) - self.answer(t - 1)
            case "DSTREAM":
                return self.answer(t - 1) - self.answer(t)
            case _:
                return self.answer(t) if self.contents(t) != self.contents(t - 1) else Counter()

    def contents(self, t: int) -> list[list[tuple[Any, ...]]]:
        """Of each window: (number in order of arrival, cells)."""
        return [
            item.contents(self._seen[i], t) if isinstance(item, Windowed) else item.contents(self._world.relation.at(t))
            for i, item in enumerate(self._query.items)
        ]

    def expect(self, found: Bag, expected: Bag, t: int) -> None:
        assert found == expected, self._report(found, expected, t)

    def _seen_by(self, i: int, item: Windowed) -> list[Stamped]:
        """The rows that an item's window sees, in order of arrival."""
        model = self._world.streams[item.stream]
        rows = [(n, *row) for n, row in enumerate(model.rows)]
        stamps = [row[0] for row in model.rows]
        if item.select is not None:
            schema = pa.schema([("_n", pa.int64()), *((column.name, ARROW[column.kind]) for column in columns_of(item.stream))])
            self._duckdb.register(item.stream, table([(n, at(ts), *cells) for n, ts, *cells in rows], schema))
            select = self._query.seen_by_window(i).replace("SELECT", "SELECT _n,", 1)
            rows = sorted(rows_of(self._duckdb.sql(select).to_arrow_table()), key=lambda row: row[0])
        else:
            rows = [(n, at(ts), *cells) for n, ts, *cells in rows]
        return [(stamps[row[0]], row) for row in rows]

    def _report(self, found: Bag, expected: Bag, t: int) -> str:
        windows = [
            f"  {text}\n    before {before}\n    now    {now}"
            for text, before, now in zip(self._query.item_texts(), self.contents(t - 1), self.contents(t), strict=True)
        ]
        too_much, too_little = dict(found - expected), dict(expected - found)
        return "\n".join(
            [
                f"at {t}: {self._query}", f"oracle: {self._query.oracle}", "windows, rows as (number, cells)", *windows,
                f"expected {dict(expected)}", f"got {dict(found)}", f"too much: {too_much}", f"too little: {too_little}",
            ]
        )  # fmt: skip


ARROW = {
    "time": pa.timestamp("us", "UTC"), "text": pa.string(), "int": pa.int32(), "decimal": pa.decimal128(18, 2), "double": pa.float64(),
    "bool": pa.bool_(), "mean": pa.float64(),
}  # fmt: skip


@cache
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})


def at(ts: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=ts)


def table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)], schema=schema)


def rows_of(answer: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in answer.columns]
    return [tuple(column[i] for column in columns) for i in range(answer.num_rows)]


def answer_of(answer: pa.Table) -> Bag:
    return Counter(map(rounded_row, rows_of(answer)))


def rounded(changes: list[Change]) -> list[Change]:
    return [(instant, diff, rounded_row(row)) for instant, diff, row in changes]


def rounded_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Averages of averages may differ in their last digits."""
    return tuple(float(f"{cell:.10g}") if isinstance(cell, float) else cell for cell in row)
