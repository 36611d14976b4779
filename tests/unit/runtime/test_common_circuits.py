"""Fragments in one circuit: who is in it, what fails with whom, and that nothing of it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.signed_batch import SignedBatch
from millstream.operators.aggregate import AggregateOp
from millstream.operators.row_wise import FilterOp
from millstream.runtime import rounds
from millstream.runtime.common_circuit import CommonCircuit
from millstream.runtime.source_store import SourceStore
from millstream.state.snapshot import load_arrays

SECOND = 1_000_000
HAVING = "SELECT k, sum(v) AS n FROM s [RANGE 10 SECONDS] GROUP BY k HAVING sum(v) > {}"
AGGREGATE = "Aggregate by (k): sum(v) AS _agg0, holds one row per group"


class Run:
    def __init__(self, path: Path, rows_a_step: int = 1000, **options: Any) -> None:
        self.runner = InlineRunner(rows_a_step)
        self.db = open_inline(path, buckets=1, runner=self.runner, **options)
        self.now = 0

    def setup(self, *thresholds: int) -> None:
        self.db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
        for threshold in thresholds:
            self.db.execute(f"CREATE QUERY q{threshold} AS {HAVING.format(threshold)}")
        self.tick(2)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 1
            instants = [self.now * SECOND - early for early in (600_000, 300_000, 0)]
            self.db.insert("s", [(at, k, v) for at in instants for k, v in [("a", 1), ("b", self.now), (None, None)]])
            self.db.advance(self.now * SECOND)
            self.db.flush()

    @property
    def circuits(self) -> list[CommonCircuit]:
        return list({cache.common: None for cache in self.runner._workers[0]._caches._caches.values()})

    def shared(self) -> dict[str, tuple[str, ...]]:
        return {part.part: part.queries for part in self.db.sharing() if part.kind == "operator"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "db")


def changes(db: Database, name: str) -> list[Any]:
    return sorted(map(repr, db.query(name).changes().to_pylist()))


def test_an_aggregate_runs_once_for_all_who_have_it(run: Run) -> None:
    run.setup(1, 3, 5)
    assert run.shared() == {AGGREGATE: ("q1", "q3", "q5")}
    (circuit,) = run.circuits
    assert sum(isinstance(node.state, AggregateOp) for node in circuit.circuit.nodes) == 1
    assert [store.queries for store in run.db.stores()] == [("q1", "q3", "q5")]
    assert run.db.stores()[0].windows == 1


def test_what_is_common_to_more_is_told_apart(run: Run) -> None:
    run.setup(1, 3)
    run.db.execute(f"CREATE QUERY again AS {HAVING.format(3)}")
    run.tick(2)
    filtered, aggregate = sorted(run.shared().items(), key=lambda item: len(item[1]))
    assert aggregate == (AGGREGATE, ("again", "q1", "q3"))
    assert filtered[1] == ("again", "q3")


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    run = Run(tmp_path, share_subplans=False)
    run.setup(1, 3)
    assert run.shared() == {}
    assert len(run.circuits) == 2


def test_whoever_is_dropped_takes_its_operators_along(run: Run) -> None:
    run.setup(1, 3)
    (circuit,) = run.circuits
    nodes = len(circuit.circuit.nodes)
    run.db.execute("CREATE QUERY longer AS SELECT k, sum(v) AS n FROM s [RANGE 60 SECONDS] GROUP BY k")
    run.db.execute("CREATE QUERY more AS SELECT k, max(v) AS n FROM s [RANGE 10 SECONDS] GROUP BY k")
    run.tick(20)
    assert len(circuit.circuit.nodes) > nodes
    assert run.db.stores()[0].windows == 2
    run.db.execute("DROP QUERY longer")
    run.db.execute("DROP QUERY more")
    run.tick()
    assert (len(circuit.circuit.nodes), len(circuit.members)) == (nodes, 2)
    assert len(circuit.circuit.nodes) == len({node for outlet in circuit.circuit.outlets for node in outlet.nodes})
    assert run.db.stores()[0].rows < 9 * 15  # ten seconds, and some that are gone
    run.db.execute("DROP QUERY q1")
    run.db.execute("DROP QUERY q3")
    run.db._engine.maintain()
    assert not run.circuits
    assert not run.runner._workers[0]._stores.sizes(0)


def test_one_that_waits_is_let_go_with_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again for it."""
    run, alone = Run(tmp_path / "db"), Run(tmp_path / "alone", share_subplans=False)
    for each in (run, alone):
        each.setup(1, 3, 5)
    monkeypatch.setattr(SourceStore, "extend", None)
    for each in (run, alone):
        each.db.execute("ALTER QUERY q3 PAUSE")
        each.tick(12)  # what it holds leaves before it is with the others again
    assert run.shared() == {AGGREGATE: ("q1", "q5")}
    for each in (run, alone):
        each.db.execute("ALTER QUERY q3 RESUME")
        each.tick(12)
    assert run.shared() == {AGGREGATE: ("q1", "q3", "q5")}
    for name in ("q1", "q3", "q5"):
        assert changes(run.db, name) == changes(alone.db, name)


def test_one_that_comes_and_goes_is_left_alone_for_longer(run: Run) -> None:
    """Its state is copied each time."""
    run.setup(1, 3, 5)
    alone = []
    for _ in range(4):
        run.db.execute("ALTER QUERY q3 PAUSE")
        run.tick()
        run.db.execute("ALTER QUERY q3 RESUME")
        alone.append(0)
        while run.shared() != {AGGREGATE: ("q1", "q3", "q5")}:
            run.tick()
            alone[-1] += 1
    assert alone[0] == 2  # it catches up, then it is there
    assert alone == sorted(alone)
    assert 2 < alone[-1] < 20


def test_one_that_misses_rows_is_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window by count holds a row that the log has dropped: whoever comes later does not know of it."""
    monkeypatch.setattr(rounds, "SNAPSHOT_TICKS", 1)
    sql = "SELECT k, sum(v) AS n FROM s [PARTITION BY k ROWS 2] GROUP BY k HAVING sum(v) > {}"
    runs = [Run(tmp_path / str(share), share_subplans=share) for share in (True, False)]
    for each in runs:
        each.db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts RETAIN 2 SECONDS")
        for least in (0, 1):
            each.db.execute(f"CREATE QUERY early{least} AS {sql.format(least)}")
        each.db.insert("s", [(0, "rare", 7)])
        each.tick(8)
        each.db._engine.maintain()
        each.db.execute(f"CREATE QUERY late AS {sql.format(2)}")
        each.tick(2)
        each.db.insert("s", [(each.now * SECOND + 1, "rare", 5)])
        each.tick(2)
    assert runs[0].db.query("late").is_partial
    assert [part.queries for part in runs[0].db.sharing() if part.kind == "operator"] == [("early0", "early1")]
    assert {"k": "rare", "n": 5} in runs[0].db.query("late").result().to_pylist()
    assert {"k": "rare", "n": 12} in runs[0].db.query("early0").result().to_pylist()
    for name in ("early0", "early1", "late"):
        assert changes(runs[0].db, name) == changes(runs[1].db, name)


def test_one_that_goes_ahead_leaves_the_others_where_they_are(run: Run) -> None:
    run.setup(1, 3, 5)
    run.now += 1
    run.db.insert("s", [(run.now * SECOND, "a", 7)])
    run.db.advance(run.now * SECOND)
    run.db.execute("ALTER QUERY q3 SET WINDOW [RANGE 5 SECONDS]")  # brings it up to the frontier first
    assert sorted(len(circuit.members) for circuit in run.circuits)[-1] == 2
    run.tick(2)
    assert run.shared()[AGGREGATE] == ("q1", "q5")


@pytest.mark.parametrize("rows_a_step", [1, 1000])
def test_an_operator_that_one_has_alone_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_a_step: int) -> None:
    run, alone = Run(tmp_path / "db", rows_a_step), Run(tmp_path / "alone", rows_a_step, share_subplans=False)
    for each in (run, alone):
        each.setup(1, 3, 5)
    step = FilterOp.step

    def failing(self: FilterOp, batch: SignedBatch, frontier: int) -> SignedBatch:
        if self._predicate_sql == broken:
            raise ValueError("broken on purpose")
        return step(self, batch, frontier)

    broken = next(node.state._predicate_sql for node in run.circuits[0].circuit.outlets[0].nodes if isinstance(node.state, FilterOp))
    with monkeypatch.context() as patch:
        patch.setattr(FilterOp, "step", failing)
        for each in (run, alone):
            each.tick()
    for each in (run, alone):
        each.tick(3)
    assert run.shared() == {AGGREGATE: ("q3", "q5")}
    for name in ("q3", "q5"):
        assert changes(run.db, name) == changes(alone.db, name)
    assert "broken on purpose" in run.db.query("q1").stats()["error"]


def test_an_operator_that_several_have_fails_for_them_and_nobody_else(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.setup(1, 3)
    run.db.execute("CREATE QUERY other AS SELECT k, max(v) AS n FROM s [RANGE 10 SECONDS] GROUP BY k")
    run.tick(2)
    assert len(run.circuits) == 1
    (broken,) = [node.state for node in run.circuits[0].circuit.outlets[0].nodes if isinstance(node.state, AggregateOp)]
    step = AggregateOp.step

    def failing(self: AggregateOp, batch: SignedBatch, frontier: int) -> SignedBatch:
        if self is broken:
            raise ValueError("broken on purpose")
        return step(self, batch, frontier)

    monkeypatch.setattr(AggregateOp, "step", failing)
    run.tick(3)
    errors = {name: run.db.query(name).stats()["error"] for name in ("q1", "q3", "other")}
    assert errors["other"] is None
    assert all("broken on purpose" in str(errors[name]) for name in ("q1", "q3"))
    assert {row["k"]: row["n"] for row in run.db.query("other").result().to_pylist()} == {"a": 1, "b": run.now, None: None}


def test_snapshots_are_those_of_queries_alone(tmp_path: Path) -> None:
    found = []
    for share in (True, False):
        run = Run(tmp_path / str(share), share_subplans=share)
        run.setup(1, 3)
        run.db.execute("CREATE QUERY j AS SELECT a.k, count(*) AS n FROM s [RANGE 10 SECONDS] a, s [ROWS 3] b WHERE a.k = b.k GROUP BY a.k")
        run.tick(3)
        run.db.close()
        files = sorted((tmp_path / str(share)).rglob("*.npz"))
        found.append({(path.parent.name, path.stem.split("-")[-2]): load_arrays(path) for path in files})
    on, off = found
    assert on.keys() == off.keys()
    assert len(on) == 4
    for key, arrays in on.items():
        assert arrays.keys() == off[key].keys()
        assert all(np.array_equal(array, off[key][name]) for name, array in arrays.items())


def test_statistics_tell_each_query_of_what_it_shares(tmp_path: Path) -> None:
    told = []
    for share in (True, False):
        run = Run(tmp_path / str(share), share_subplans=share)
        run.setup(1, 3)
        run.tick(4)
        stats = [run.db.query(name).stats() for name in ("q1", "q3")]
        told.append([[(each["rows_in"], each["state_rows"])] + [
            (operator["operator"], operator["rows_in"], operator["rows_out"], operator["state_rows"], operator["queues"][0]["put"])
            for operator in each["operators"]
        ] for each in stats])  # fmt: skip
        run.db.close()
    assert told[0] == told[1]


def test_a_whole_fragment_is_sent_once(tmp_path: Path) -> None:
    """Of a plan in two stages: what one has sent the other need not send."""
    sql = "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k) GROUP BY n HAVING count(*) > {}"
    run = Run(tmp_path)
    run.db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts")
    for least in (0, 1):
        run.db.execute(f"CREATE QUERY c{least} AS {sql.format(least)}")
    run.tick(3)
    assert len(run.circuits) == 2
    assert all(len(circuit.members) == 2 for circuit in run.circuits)
    assert sorted(len(circuit._sent) for circuit in run.circuits) == [0, 1]
    assert run.db.query("c0").result().to_pylist() == [{"n": 9, "c": 3}]


def test_explain_says_what_is_there_already(run: Run) -> None:
    run.setup(1, 3)
    text = run.db.explain(HAVING.format(7))
    (line,) = [line for line in text.splitlines() if "shared with" in line]
    assert line.strip() == f"{AGGREGATE}, shared with q1, q3"
    assert "shared with" not in run.db.explain("SELECT k, sum(v) FROM s [RANGE 11 SECONDS] GROUP BY k")
