"""Workers that lose their caches whenever they have been replayed: there is no tick, but no query is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from inline import InlineRunner, open_inline
from millstream.core.errors import ClusterFailed
from millstream.runtime.messages import StageResult, StageTask


class Forgetful(InlineRunner):
    forgets = False

    def run_stage(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        try:
            return super().run_stage(tasks)
        finally:
            if self.forgets:
                self.lose_caches()


def test_the_query_goes_on_when_workers_stay(tmp_path: Path) -> None:
    runner = Forgetful()
    with open_inline(tmp_path / "db", runner=runner) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
        q = db.execute("CREATE QUERY q AS SELECT sum(v) AS total FROM s")
        db.insert("s", [(1, 10), (2, 20)])
        db.flush()
        runner.forgets = True
        runner.lose_caches()
        db.insert("s", [(3, 30), (4, 40)])
        with pytest.raises(ClusterFailed, match='caches of query "q" are lost as often as they are replayed'):
            db.flush()
        assert q.stats()["error"] is None
        runner.forgets = False
        db.advance(4)
        db.flush()
        assert q.result().to_pylist() == [{"total": 100}]


def test_a_database_can_be_closed_without_them(tmp_path: Path) -> None:
    runner = Forgetful()
    db = open_inline(tmp_path / "db", runner=runner)
    db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
    db.execute("CREATE QUERY q AS SELECT sum(v) AS total FROM s")
    db.insert("s", [(1, 10), (2, 20)])
    db.flush()
    runner.forgets = True
    db.close()
    with open_inline(tmp_path / "db") as db:
        db.advance(2)
        db.flush()
        assert db.query("q").result().to_pylist() == [{"total": 30}]
