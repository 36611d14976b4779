"""Relations that change and queries over queries, through the whole engine without a JVM: exact at every instant."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.core.instant import BEGINNING
from millstream.plan.rewrite import RULES
from millstream.state import relation_log
from property.engine_model import WINDOWS, Bag, StreamModel, WindowModel, actions
from property.examples import examples
from property.test_engine import FIRST, LAST, assert_netted, changes_of, contents_at

Entry = tuple[Any, ...]
BagAt = Callable[[int], Bag]


@dataclass
class RelationModel:
    """What was done to the relation, each at its instant: the contents are that, done in the order of the instants."""

    done: list[tuple[int, str, list[Entry]]] = field(default_factory=list)

    def at(self, t: int) -> Bag:
        bag: Bag = Counter()
        for instant, what, rows in sorted(self.done, key=lambda change: change[0]):
            if instant <= t:
                bag = bag + Counter(rows) if what == "put" else bag - Counter(rows)
        return bag


@dataclass(frozen=True)
class World:
    """What queries are over: a stream's window and a relation, at any instant."""

    stream: StreamModel
    relation: RelationModel
    window: WindowModel

    def s(self, t: int) -> Bag:
        return Counter((k, v) for _, k, v in self.stream.window(self.window, t))

    def r(self, t: int) -> Bag:
        return self.relation.at(t)

    def g(self, t: int) -> Bag:
        """SELECT k, count(*) AS n, max(v) AS m FROM s ... GROUP BY k"""
        return _counted(self.s(t))

    def entered(self, bag: BagAt, t: int) -> list[tuple[int, Entry]]:
        """ISTREAM up to t: what is there at an instant and was not at the one before."""
        instants = [BEGINNING, *range(FIRST, t + 1)]
        found = []
        for before, now in zip([None, *instants[:-1]], instants, strict=True):
            found += [(now, row) for row in (bag(now) - (bag(before) if before is not None else Counter())).elements()]
        return found


def _counted(rows: Bag) -> Bag:
    keys = {k for k, _ in rows}
    members = {k: [v for (key, v), n in rows.items() for _ in range(n) if key == k] for k in keys}
    return Counter((k, len(vs), max((v for v in vs if v is not None), default=None)) for k, vs in members.items())


def _joined(left: Bag, right: Bag, shown: Callable[[Entry, Entry], Entry]) -> Bag:
    found: Bag = Counter()
    for one, n in left.items():
        for other, m in right.items():
            if one[0] is not None and one[0] == other[0]:
                found[shown(one, other)] += n * m
    return found


def _left_joined(left: Bag, right: Bag) -> Bag:
    alone = {one: n for one, n in left.items() if one[0] is None or all(one[0] != other[0] for other in right)}
    return _joined(left, right, lambda one, other: (*one, other[1])) + Counter({(*one, None): n for one, n in alone.items()})


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class Model:
    queries: tuple[str, ...]  # of CREATE QUERY name AS ..., with {window}; the last one is q
    answer: Callable[[World, int], Bag]


G = "g AS SELECT k, count(*) AS n, max(v) AS m FROM s {window} GROUP BY k"

MODELS = {
    "stream with relation": Model(
        ("q AS SELECT s.k, s.v, r.w FROM s {window} JOIN r ON s.k = r.k",),
        lambda world, t: _joined(world.s(t), world.r(t), lambda one, other: (*one, other[1])),
    ),
    "stream left join relation": Model(
        ("q AS SELECT s.k, s.v, r.w FROM s {window} LEFT JOIN r ON s.k = r.k",), lambda world, t: _left_joined(world.s(t), world.r(t))
    ),
    "relation not in stream": Model(
        ("q AS SELECT w FROM r WHERE NOT EXISTS (SELECT 1 FROM s {window} WHERE s.k = r.k)",),
        lambda world, t: Counter((w,) for k, w in world.r(t).elements() if not _is_key(k, world.s(t))),
    ),
    "groups of a relation and a stream": Model(
        ("q AS SELECT count(*) AS n, sum(w) AS total FROM r WHERE k IN (SELECT k FROM s {window})",),
        lambda world, t: Counter([_size_and_sum([w for k, w in world.r(t).elements() if _is_key(k, world.s(t))])]),
    ),
    "relation alone beside a stream's count": Model(
        ("q AS SELECT r.k, w, n FROM r CROSS JOIN (SELECT count(*) AS n FROM s {window}) AS c",),
        lambda world, t: Counter({(*row, world.s(t).total()): n for row, n in world.r(t).items()}),
    ),
    "query over query": Model((G, "q AS SELECT n, count(*) AS c FROM g GROUP BY n"), lambda world, t: Counter(_counts(world.g(t)))),
    "three queries deep": Model(
        (G, "h AS SELECT n, count(*) AS c FROM g GROUP BY n", "q AS SELECT max(c) AS m, sum(n) AS s FROM h"),
        lambda world, t: Counter([_greatest(_counts(world.g(t)))]),
    ),
    "query with relation": Model(
        (G, "q AS SELECT g.k, n, w FROM g JOIN r ON g.k = r.k AND n >= w"), lambda world, t: _at_least(world.g(t), world.r(t))
    ),
    "query with its own stream": Model(
        (G, "q AS SELECT s.v, g.m FROM s {window}, g WHERE s.k = g.k"),
        lambda world, t: _joined(world.s(t), world.g(t), lambda one, other: (one[1], other[2])),
    ),
    "window over what entered a query": Model(
        (G, "e AS SELECT ISTREAM(k, n, m) FROM g", "q AS SELECT k, n FROM e [RANGE 4 MICROSECONDS]"),
        lambda world, t: Counter(row[:2] for ts, row in world.entered(world.g, t) if t - 4 <= ts),
    ),
    "rows window over what entered a query": Model(
        (G, "e AS SELECT ISTREAM(k, n, m) FROM g", "q AS SELECT k, n, m FROM e [ROWS 3]"),
        lambda world, t: Counter(row for _, row in sorted(world.entered(world.g, t), key=_by_value)[-3:]),
    ),
    "all that ever left": Model(
        (G, "d AS SELECT DSTREAM(k, n, m) FROM g", "q AS SELECT count(*) AS c FROM d"),
        lambda world, t: Counter([(_left(world, t),)]),
    ),
}  # fmt: skip


def _at_least(groups: Bag, rows: Bag) -> Bag:
    found = _joined(groups, rows, lambda one, other: (one[0], one[1], other[1]))
    return Counter({row: n for row, n in found.items() if row[2] is not None and row[1] >= row[2]})


def _is_key(k: str | None, rows: Bag) -> bool:
    return k is not None and any(k == key for key, _ in rows)


def _size_and_sum(values: list[int | None]) -> Entry:
    return len(values), _total(values)


def _counts(groups: Bag) -> dict[Entry, int]:
    sizes = Counter(n for _, n, _ in groups)
    return dict.fromkeys(sizes.items(), 1)


def _greatest(counts: dict[Entry, int]) -> Entry:
    return max((c for _, c in counts), default=None), _total([n for n, _ in counts])


def _by_value(element: tuple[int, Entry]) -> tuple[Any, ...]:
    """By time, then by the values shown, NULL first."""
    ts, (k, n, m) = element
    return ts, k is not None, k or "", n, m is not None, m or 0


def _left(world: World, t: int) -> int:
    instants = [BEGINNING, *range(FIRST, t + 1)]
    return sum((world.g(before) - world.g(now)).total() for before, now in pairwise(instants))


@dataclass(frozen=True)
class Case:
    name: str
    window: WindowModel
    slack: int
    buckets: int
    rows_a_step: int
    rules_off: frozenset[str]
    history: list[tuple[str, Any]]


def histories() -> st.SearchStrategy[list[tuple[str, Any]]]:
    pairs = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, 2, None])), min_size=1, max_size=3)
    other = st.one_of(
        st.tuples(st.sampled_from(["put", "put", "take"]), st.tuples(pairs, st.none() | st.integers(FIRST, LAST))),
        st.tuples(st.just("look"), st.none()),
        st.tuples(st.just("maintain"), st.none()),
    )
    return st.tuples(actions(most=8), st.lists(st.tuples(st.integers(0, 8), other), max_size=6)).map(_interleaved)


def _interleaved(parts: tuple[list[tuple[str, Any]], list[tuple[int, tuple[str, Any]]]]) -> list[tuple[str, Any]]:
    history, others = list(parts[0]), parts[1]
    for place, action in others:
        history.insert(min(place, len(history) - 1), action)
    return history


def cases() -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        name=st.sampled_from(sorted(MODELS)),
        window=st.sampled_from(WINDOWS),
        slack=st.integers(0, 3),
        buckets=st.integers(1, 3),
        rows_a_step=st.sampled_from([1, 3, 1000]),
        rules_off=st.frozensets(st.sampled_from(sorted(RULES)), max_size=2),
        history=histories(),
    )


@given(case=cases())
@settings(max_examples=examples(120))
def test_answers_equal_recomputation_at_every_instant(case: Case) -> None:
    model = MODELS[case.name]
    runner = InlineRunner(case.rows_a_step)
    world = World(StreamModel(case.slack), RelationModel(), case.window)
    looked = False

    def effective() -> int:
        """Since ever, until there is a frontier or somebody has been told what there was since ever."""
        told = BEGINNING if looked and " r " in f"{model.queries[-1]} " else BEGINNING - 1
        return max(world.stream.frontier, told) + 1

    with tempfile.TemporaryDirectory() as directory, patch.object(relation_log, "_FEWEST_TO_FOLD", 1):
        db = open_inline(directory, buckets=case.buckets, runner=runner, rules_off=case.rules_off)
        db.execute(f"CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts SLACK {case.slack} MICROSECONDS")
        db.execute("CREATE RELATION r (k STRING, w INT)")
        for query in model.queries:
            db.execute(f"CREATE QUERY {query.format(window=case.window.sql)}")
        for action, what in case.history:
            match action:
                case "insert":
                    db.insert("s", what)
                    world.stream.insert(what)
                case "advance":
                    db.advance(what)
                    world.stream.advance(what)
                case "put" | "take":
                    rows, later = what
                    at = later if later is not None and later >= effective() else None
                    change = db.insert if action == "put" else db.delete
                    change("r", rows, at=at)
                    world.relation.done.append((effective() if at is None else at, action, rows))
                case "look":
                    db.query("q").changes()
                    looked = True
                case "maintain":
                    db.flush()
                    db._engine.maintain()
                case "flush":
                    db.flush()
                case "lose caches":
                    runner.lose_caches()
                case "reopen":
                    db.close()
                    db = open_inline(directory, buckets=case.buckets, runner=runner, rules_off=case.rules_off)
        changes = changes_of(db.query("q").changes())
        assert_netted(changes)
        frontier = world.stream.frontier
        for t in [BEGINNING, *range(FIRST, min(frontier, LAST) + 1)]:
            assert contents_at(changes, t) == model.answer(world, t), t
        assert Counter(tuple(row.values()) for row in db.query("q").result().to_pylist()) == contents_at(changes, max(frontier, BEGINNING))
        db.close()
