"""Statistics never change an answer: the same history with and without somebody who reads SYS."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from property.engine_model import DDL, Action, StreamModel, actions
from property.engine_run import Engine, Run, engines, running

QUERIES = {
    "grouped": "SELECT k, sum(v) AS n, max(v) AS top FROM s [RANGE 6 MICROSECONDS] GROUP BY k",
    "joined": "SELECT s.k, r.w FROM s [RANGE 5 MICROSECONDS] AS s, r WHERE s.v = r.v",
    "of_relation": "SELECT w, count(*) AS n FROM r GROUP BY w",
    "of_query": "SELECT count(*) AS n FROM grouped",
    "emitted": "SELECT ISTREAM(v) FROM s [NOW]",
}
READERS = {
    "sys_now": "SELECT property, value FROM SYS [NOW]",
    "sys_groups": "SELECT query, count(*) AS n FROM SYS [ROWS 50] GROUP BY query",
    "sys_and_s": "SELECT s.k, y.value FROM SYS [RANGE 1 DAY] AS y, s [UNBOUNDED] AS s WHERE y.value = s.v",
}


@settings(max_examples=8)
@given(
    engines(), st.integers(0, 3), actions(most=5), st.lists(st.none() | st.integers(0, 3), min_size=6, max_size=6),
    st.sets(st.sampled_from(sorted(READERS)), min_size=1),
)  # fmt: skip
def test_statistics_change_no_answer(
    engine: Engine, slack: int, history: list[Action], related: list[int | None], readers: set[str]
) -> None:
    """`related` is what the relation gets after each action."""
    with running(engine, {"s": StreamModel(slack)}) as watched, running(engine, {"s": StreamModel(slack)}) as alone:
        for run in (watched, alone):
            run.db.execute(DDL.format(slack=slack, partition=""))
            run.db.execute("CREATE RELATION r (v INT, w INT)")
            for name in sorted(readers) if run is watched else ():
                run.db.execute(f"CREATE QUERY {name} AS {READERS[name]}")
            for name, sql in QUERIES.items():
                run.db.execute(f"CREATE QUERY {name} AS {sql}")
        for action, value in zip(history, related, strict=False):
            for run in (watched, alone):
                run.do(action, "s")
                if value is not None:
                    run.db.insert("r", [(value, value % 2)])
        for run in (watched, alone):
            run.do(("advance", 50), "s")
            run.do(("flush", None), "s")
        assert _answers(watched) == _answers(alone)
        assert watched.db.execute("SHOW STREAMS").to_pylist()[-1]["rows"] > 0, "somebody has read"


def _answers(run: Run) -> dict[str, object]:
    """Changes of one instant are in no order."""
    tables = {name: (run.db.query(name).changes(), run.db.query(name).result()) for name in QUERIES}
    return {name: [sorted(map(str, table.to_pylist())) for table in pair] for name, pair in tables.items()}
