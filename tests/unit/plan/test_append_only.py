"""Which aggregates are told that no row ever leaves their input; and that it is no reason to lose a saved state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inline import open_inline
from millstream.language.catalog import Catalog
from millstream.language.parser import parse_one
from millstream.operators.aggregate import AggregateOp
from millstream.plan.physical import AggregateExec, Fragment, PhysicalPlan, in_order, plan_id
from millstream.runtime import operator_nodes, rounds
from millstream.runtime.compile import compile_query

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
RELATION = "CREATE RELATION r (k STRING, v INT)"


def plan(sql: str) -> PhysicalPlan:
    catalog = Catalog.empty().with_stream(parse_one(STREAM)).with_relation(parse_one(RELATION))  # type: ignore[arg-type]
    return compile_query(parse_one(sql).select, catalog, sql).physical  # type: ignore[union-attr]


def told(sql: str) -> list[bool]:
    """Of each aggregate, from the bottom."""
    return [node.append_only for fragment in plan(sql).fragments for node in in_order(fragment.root) if isinstance(node, AggregateExec)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, max(v) FROM s GROUP BY k", [True]),
        ("SELECT max(v) FROM s", [True]),
        ("SELECT k, max(v) FROM s [RANGE UNBOUNDED] WHERE v > 1 GROUP BY k", [True]),
        ("SELECT k, max(v) FROM s [RANGE 1 MINUTE] GROUP BY k", [False]),
        ("SELECT k, max(v) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k", [False]),
        ("SELECT k, max(v) FROM s [ROWS 5] GROUP BY k", [False]),
        ("SELECT k, max(v) FROM r GROUP BY k", [False]),
        ("SELECT k, max(v) FROM (SELECT k, v FROM s UNION ALL SELECT k, v FROM s) GROUP BY k", [True, False]),
        ("SELECT k, max(v) FROM (SELECT k, v FROM s UNION ALL SELECT k, v FROM r) GROUP BY k", [False]),
        ("SELECT max(n) FROM (SELECT k, max(v) AS n FROM s GROUP BY k)", [True, False, False]),
        ("SELECT a.k, max(b.v) FROM s a JOIN s b ON a.v = b.v GROUP BY a.k", [True, False]),
        ("SELECT a.k, max(b.v) FROM s a JOIN r b ON a.v = b.v GROUP BY a.k", [False, False]),
    ],
)
def test_who_is_told(sql: str, expected: list[bool]) -> None:
    assert told(sql) == expected


def test_it_is_no_other_plan() -> None:
    (fragment,) = plan("SELECT k, max(v) AS m FROM s GROUP BY k").fragments
    (aggregate,) = [node for node in in_order(fragment.root) if isinstance(node, AggregateExec)]

    def named(*, append_only: bool) -> str:
        return plan_id(PhysicalPlan((Fragment(1, replace(aggregate, append_only=append_only), None),), append_only=False))

    assert named(append_only=True) == named(append_only=False)


def test_a_snapshot_of_all_values_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log no longer has what the state was made of."""
    monkeypatch.setattr(rounds, "SNAPSHOT_TICKS", 1)
    with monkeypatch.context() as before:
        before.setattr(operator_nodes, "AggregateOp", lambda schema, keys, calls, append_only: AggregateOp(schema, keys, calls))
        with open_inline(tmp_path) as db:
            db.execute(STREAM + " RETAIN 5 MICROSECONDS")
            db.execute("CREATE QUERY q AS SELECT k, min(v) AS low, max(v) AS high, max(k) AS name FROM s GROUP BY k")
            for ts, v in enumerate([7, 1, 9, 4]):
                db.insert("s", [(10 * ts, "a", v), (10 * ts + 1, "b", -v)])
                db.flush()
            db._engine.maintain()
            assert db._engine.streams["s"].log.whole_from > 0
    with open_inline(tmp_path) as db:
        db.insert("s", [(100, "a", 8), (101, "b", 0), (102, "c", 5), (103, "c", None)])
        db.advance(200)
        db.flush()
        rows = db.query("q").result().to_pylist()
        assert sorted(map(str, rows)) == [
            "{'k': 'a', 'low': 1, 'high': 9, 'name': 'a'}",
            "{'k': 'b', 'low': -9, 'high': 0, 'name': 'b'}",
            "{'k': 'c', 'low': 5, 'high': 5, 'name': 'c'}",
        ]
