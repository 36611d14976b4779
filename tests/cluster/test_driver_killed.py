"""kill -9 of the driver on a cluster: the next one finds what was committed and goes on exactly there."""

from __future__ import annotations

from pathlib import Path

from cluster.cluster_process import Cluster
from inline import open_inline
from spark import crash_workload
from spark.test_restart import WORKLOAD, changelog, kill_at_batch


def test_goes_on_where_it_was_killed(cluster: Cluster, tmp_path: Path) -> None:
    with open_inline(tmp_path / "undisturbed") as db:
        undisturbed = crash_workload.run(db)
    assert len(undisturbed) > 500
    kill_at_batch(tmp_path / "db", 5, cluster.master)
    assert sorted(changelog(tmp_path / "db", WORKLOAD, cluster.master)) == sorted(undisturbed)
