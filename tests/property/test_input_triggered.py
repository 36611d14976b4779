"""WITH EXPIRY input_triggered: late exactly as its definition says, at every instant, and never wrong in content.

The definition is input_triggered_model.py.  Random plans are compared with it, instant by instant; and where it says that no operator holds
anything that has ended, the answer is the exact one.

For a single operator above rows of windows and pairs of joins the definition is short, and stands here once more: it works at any
instant on the rows that have come and had not ended when the last of them came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from property.engine_model import QUERIES, WINDOWS, Action, Bag, Row, StreamModel, WindowModel, actions, sorted_by_time
from property.engine_run import Engine, engines, running
from property.examples import examples
from property.input_triggered_model import (
    AGGREGATES,
    ROW_WISE,
    START,
    Aggregated,
    Distinct,
    Except,
    Intersect,
    Joined,
    Plan,
    RowWise,
    UnionAll,
    Windowed,
    World,
    answers,
)  # fmt: skip
from property.test_engine import FIRST, LAST, assert_netted, changes_of, contents_at

DDL = "CREATE STREAM {name} (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts SLACK {slack} MICROSECONDS PARTITION BY k"
NEVER = LAST + 1000


@dataclass(frozen=True)
class Element:
    row: Any
    comes: int
    ends: int


def elements(model: StreamModel, window: WindowModel) -> list[Element]:
    found = []
    for row in model.rows:
        inside = [t for t in range(row[0], LAST + 30) if window.member(row[0], t)]
        if inside:
            found.append(Element(row, inside[0], inside[-1] + 1 if inside[-1] < LAST + 29 else NEVER))
    return found


def pairs(left: list[Element], right: list[Element]) -> list[Element]:
    met = [(one, other) for one in left for other in right if one.row[1] is not None and one.row[1] == other.row[1]]
    both = [Element((one.row, other.row), max(one.comes, other.comes), min(one.ends, other.ends)) for one, other in met]
    return [pair for pair in both if pair.comes < pair.ends]


def late(coming: Iterable[Element], t: int) -> list[Any]:
    """What an operator to which these come works on at this instant."""
    known = [element for element in coming if element.comes <= t]
    told = max((element.comes for element in known), default=FIRST)
    return [element.row for element in known if element.ends > told]


def kept(row: Row) -> bool:
    return row[2] is not None and row[2] > 1


def one_stream(name: str, *, filtered: bool = False) -> tuple[str, Callable[..., Bag]]:
    query = QUERIES[name]

    def answer(t: int, window: WindowModel, _: WindowModel, s: StreamModel, __: StreamModel) -> Bag:
        return query.answer(late([e for e in elements(s, window) if not filtered or kept(e.row)], t))

    return query.sql.replace("{window}", "{0}"), answer


def of_pairs(sql: str, answer: Callable[[list[tuple[Row, Row]]], Bag]) -> tuple[str, Callable[..., Bag]]:
    def at(t: int, window: WindowModel, other: WindowModel, s: StreamModel, r: StreamModel) -> Bag:
        return answer(late(pairs(elements(s, window), elements(r, other)), t))

    return sql, at


def both_rows(t: int, window: WindowModel, other: WindowModel, s: StreamModel, r: StreamModel) -> Bag:
    """One operator below a union: whatever comes from either side tells the time."""
    return Counter((row[1],) for row in late([*elements(s, window), *elements(r, other)], t))


MODELS: dict[str, tuple[str, Callable[..., Bag]]] = {
    "rows": one_stream("rows"),
    "filtered rows": one_stream("filtered", filtered=True),
    "aggregates": one_stream("every aggregate"),
    "filtered groups": one_stream("filtered groups", filtered=True),
    "having": one_stream("having"),
    "pairs": of_pairs(
        "SELECT s.k, s.v, r.v AS w FROM s {0} AS s JOIN r {1} AS r ON s.k = r.k",
        lambda found: Counter((one[1], one[2], other[2]) for one, other in found),
    ),
    "count of pairs": of_pairs(
        "SELECT count(*) AS n FROM s {0} AS s JOIN r {1} AS r ON s.k = r.k", lambda found: Counter([(len(found),)])
    ),
    "count of pairs by key": of_pairs(
        "SELECT s.k, count(*) AS n FROM s {0} AS s JOIN r {1} AS r ON s.k = r.k GROUP BY s.k",
        lambda found: Counter(dict.fromkeys(Counter(one[1] for one, _ in found).items(), 1)),
    ),
    "keys of both": ("SELECT k FROM s {0} UNION ALL SELECT k FROM r {1}", both_rows),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    window: WindowModel
    other: WindowModel
    slack: int
    engine: Engine
    history: list[tuple[str, Action]]


def _of_either_stream(history: list[Action]) -> st.SearchStrategy[list[tuple[str, Action]]]:
    streams = st.lists(st.sampled_from(["s", "r"]), min_size=len(history), max_size=len(history))
    return streams.map(lambda names: list(zip(names, history, strict=True)))


def cases() -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        name=st.sampled_from(sorted(MODELS)),
        window=st.sampled_from(WINDOWS),
        other=st.sampled_from(WINDOWS),
        slack=st.integers(0, 4),
        engine=engines().map(lambda engine: replace(engine, expiry="input_triggered")),
        history=actions().flatmap(_of_either_stream),
    )


@given(case=cases())
@settings(max_examples=examples(50))
def test_one_operator_is_exactly_as_late_as_it_is_defined(case: Case) -> None:
    sql, answer = MODELS[case.name]
    models = {name: StreamModel(case.slack) for name in ("s", "r")}
    with running(case.engine, models) as run:
        for name in models:
            run.db.execute(DDL.format(name=name, slack=case.slack))
        run.db.execute(f"CREATE QUERY q AS {sql.format(case.window.sql, case.other.sql)}")
        for stream, action in case.history:
            run.do(action, stream)
        changes, frontier = changes_of(run.db.query("q").changes()), run.db.query("q").frontier
    assert_netted(changes)
    for t in range(FIRST, min(frontier, LAST) + 1):
        assert contents_at(changes, t) == answer(t, case.window, case.other, models["s"], models["r"]), t


# --- random plans -----------------------------------------------------------------------------


def sources() -> st.SearchStrategy[Plan]:
    return st.builds(Windowed, st.sampled_from(["s", "r"]), st.sampled_from(WINDOWS))


def _above(plans: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    return st.one_of(
        st.builds(Distinct, plans),
        st.builds(Intersect, plans, plans, st.booleans()),
        st.builds(Except, plans, plans, st.booleans()),
        st.builds(Joined, plans, plans),
        st.builds(UnionAll, plans, plans),
        st.builds(RowWise, plans, st.sampled_from(sorted(ROW_WISE))),
        st.builds(Aggregated, plans, st.sampled_from(sorted(AGGREGATES))),
    )


def plans() -> st.SearchStrategy[Plan]:
    return st.recursive(sources(), _above, max_leaves=5)


_SHORT, _LONG = WINDOWS[1], WINDOWS[0]
_S, _R = RowWise(Windowed("s", _SHORT), "2 as v"), RowWise(Windowed("r", _LONG), "2 as v")
FIXED: list[Plan] = [
    Distinct(_S),
    Intersect(_S, _R, all=True),
    Except(_S, _R, all=True),
    Intersect(_S, _R, all=False),
    Except(_S, _R, all=False),
    Distinct(RowWise(Joined(_S, _R), "2 as v")),
    Aggregated(Except(_S, _R, all=True), "count"),
    Distinct(Except(_S, _R, all=True)),
    Except(_S, Except(_R, _S, all=True), all=True),
    Joined(Distinct(_S), Except(_R, _S, all=True)),
    RowWise(Aggregated(Windowed("s", _LONG), "count by k"), "k is a"),
    Except(Aggregated(_S, "max by k"), Aggregated(_R, "max by k"), all=True),
]
"""Every set operation, alone, below others and above what is taken back before its end; and a filter that is better not moved."""


@st.composite
def timelines(draw: st.DrawFn) -> list[tuple[str, Action]]:
    """Many rows of few values in the order of time, for both streams, cut anywhere; nothing of it comes too late."""
    cells = st.tuples(st.integers(-3, 30), st.sampled_from(["a", "a", "b", None]), st.sampled_from([1, 2, 2, 3, None]))
    rows = draw(st.lists(st.tuples(cells, st.sampled_from(["s", "r"])), min_size=4, max_size=24))
    history: list[tuple[str, Action]] = []
    for row, stream in sorted(rows, key=lambda found: found[0][0]):
        if history and history[-1][0] == stream and history[-1][1][0] == "insert" and draw(st.booleans()):
            history[-1][1][1].append(row)
        else:
            history.append((stream, ("insert", [row])))
        cut = draw(st.sampled_from([None, None, None, "flush", "advance", "lose caches", "reopen"]))
        if cut is not None:
            history.append(("s", (cut, row[0] - 1 if cut == "advance" else None)))
    return [*history, ("s", ("advance", 40)), ("s", ("flush", None))]


@dataclass(frozen=True)
class PlanCase:
    plan: Plan
    slack: int
    engine: Engine
    history: list[tuple[str, Action]]


def plan_cases(of: st.SearchStrategy[Plan]) -> st.SearchStrategy[PlanCase]:
    return st.builds(
        PlanCase,
        plan=of,
        slack=st.integers(0, 4),
        engine=engines().map(lambda engine: replace(engine, expiry="input_triggered")),
        history=st.one_of(timelines(), timelines(), timelines(), actions().flatmap(_of_either_stream)),
    )


def _is_as_defined(case: PlanCase) -> None:
    models = {name: StreamModel(case.slack) for name in ("s", "r")}
    with running(case.engine, models) as run:
        for name in models:
            run.db.execute(DDL.format(name=name, slack=case.slack))
        run.db.execute(f"CREATE QUERY q AS {case.plan.sql}")
        for stream, action in case.history:
            run.do(action, stream)
        changes, frontier = changes_of(run.db.query("q").changes()), run.db.query("q").frontier
    assert_netted(changes)
    world, last = World(models), min(frontier, LAST)
    expected = answers(case.plan, world, FIRST, last)
    assert contents_at(changes, FIRST - 1) == expected[START].bag
    for t in range(FIRST, last + 1):
        assert contents_at(changes, t) == expected[t].bag, t
        if expected[t].is_settled:
            assert contents_at(changes, t) == case.plan.exactly(world, t), t
    late = [t for t in range(FIRST, last + 1) if expected[t].bag != case.plan.exactly(world, t)]
    event(f"late at some instant: {bool(late)}")


@given(case=plan_cases(plans()))
@settings(max_examples=examples(60))
def test_random_plans_are_exactly_as_late_as_they_are_defined(case: PlanCase) -> None:
    _is_as_defined(case)


@given(case=plan_cases(st.sampled_from(FIXED)))
@settings(max_examples=examples(50))
def test_set_operations_are_exactly_as_late_as_they_are_defined(case: PlanCase) -> None:
    _is_as_defined(case)


@pytest.mark.parametrize("plan", FIXED, ids=lambda plan: type(plan).__name__)
def test_what_has_learnt_the_time_is_exact(plan: Plan) -> None:
    """The definition itself: a row of each stream at the end reaches every operator, and then nothing is late."""
    late = 0
    for offset in range(6):
        world = World({name: StreamModel(0) for name in ("s", "r")})
        last = 14 + offset
        world.streams["s"].insert(sorted_by_time([(0, "a", 1), (1, "a", 1), (offset, "b", 2), (last, "c", 2), (last, "e", 2)]))
        world.streams["r"].insert(sorted_by_time([(offset, "a", 1), (3, "b", 2), (8, "a", 1), *2 * [(last, "c", 2)], (last, "d", 2)]))
        found = answers(plan, world, FIRST, LAST)
        assert found[last].is_settled
        for t in range(FIRST, LAST + 1):
            if found[t].is_settled:
                assert found[t].bag == plan.exactly(world, t), t
        late += sum(found[t].bag != plan.exactly(world, t) for t in range(FIRST, LAST + 1))
    assert late


WITHOUT_PARTNERS = {
    "anti join": "SELECT a.k, a.v FROM s {0} AS a LEFT ANTI JOIN r {1} AS b ON a.k = b.k",
    "semi join": "SELECT a.k, a.v FROM s {0} AS a LEFT SEMI JOIN r {1} AS b ON a.k = b.k",
    "left join": "SELECT a.k, a.v, b.v AS w FROM s {0} AS a LEFT JOIN r {1} AS b ON a.k = b.k",
    "full join": "SELECT a.k, a.v, b.k AS k2, b.v AS w FROM s {0} AS a FULL JOIN r {1} AS b ON a.k = b.k AND a.v = b.v",
    "not exists": "SELECT a.k, a.v FROM s {0} AS a WHERE NOT EXISTS (SELECT 1 FROM r {1} AS b WHERE b.k = a.k)",
    "not in": "SELECT a.k, a.v FROM s {0} AS a WHERE a.v NOT IN (SELECT b.v FROM r {1} AS b WHERE b.v IS NOT NULL)",
}


@given(
    name=st.sampled_from(sorted(WITHOUT_PARTNERS)),
    windows=st.tuples(*2 * [st.sampled_from([window for window in WINDOWS if "SLIDE" not in window.sql])]),
    engine=engines().map(lambda engine: replace(engine, expiry="input_triggered")),
    history=timelines(),
)
@settings(max_examples=examples(40))
def test_rows_without_partners_are_late_at_most(
    name: str, windows: tuple[WindowModel, WindowModel], engine: Engine, history: list[tuple[str, Action]]
) -> None:
    """Nothing is taken back that is not shown.  Rows with and without partners tell every operator the time at last: then it is exact."""
    sql, models = WITHOUT_PARTNERS[name].format(*(window.sql for window in windows)), {n: StreamModel(0) for n in ("s", "r")}
    telling = [("s", [(LAST, "both", 99), (LAST, "one", 98)]), ("r", [(LAST, "both", 99), (LAST, "other", 97)])]
    with running(engine, models) as run:
        for stream in models:
            run.db.execute(DDL.format(name=stream, slack=0))
        run.db.execute(f"CREATE QUERY q AS {sql}")
        run.db.execute(f"CREATE QUERY exactly AS {sql} WITH EXPIRY negative")
        for stream, action in [*history, *((stream, ("insert", rows)) for stream, rows in telling), ("s", ("advance", LAST))]:
            run.do(action, stream)
        run.db.flush()
        changes, exact = (changes_of(run.db.query(query).changes()) for query in ("q", "exactly"))
    for t in range(FIRST, LAST):
        contents_at(changes, t)  # refuses what is taken back and not there
    assert contents_at(changes, LAST) == contents_at(exact, LAST)
