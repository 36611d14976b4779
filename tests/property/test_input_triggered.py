"""WITH EXPIRY input_triggered: late exactly as its definition says, at every instant, and never wrong in content.

The definition.  Rows (of windows, filtered and projected; pairs of joins of these) have an instant at which they come and one at which they
end: that of the first of their rows.  An operator that wants every change told, or the answer itself, knows the time from the
rows that come to it.  So at any instant it works on the rows that have come and had not ended when the last of them came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from property.engine_model import QUERIES, WINDOWS, Action, Bag, Row, StreamModel, WindowModel, actions
from property.engine_run import Engine, engines, running
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
    "distinct keys of pairs": of_pairs(
        "SELECT DISTINCT s.k FROM s {0} AS s JOIN r {1} AS r ON s.k = r.k", lambda found: Counter({(one[1],) for one, _ in found})
    ),
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
@settings(max_examples=150)
def test_is_exactly_as_late_as_it_is_defined(case: Case) -> None:
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
