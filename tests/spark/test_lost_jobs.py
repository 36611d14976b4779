"""A Python worker that dies in the middle of a task: in local mode Spark gives the job up at once, we run it again."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.core.errors import ClusterFailed
from millstream.spark import jobs
from millstream.spark.tick_jobs import SparkRunner


def test_a_job_whose_worker_is_killed_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    def die_once(bucket: int) -> int:
        died = tmp_path / f"died-{bucket}"
        if not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return bucket

    with closing(SparkRunner(spark, 2)) as runner:
        assert runner._run(die_once, [(0, 0), (1, 1)]) == [0, 1]
    assert (tmp_path / "died-0").exists()


def test_one_that_kills_its_worker_each_time_is_given_up(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PAUSES_S", (0.0,))

    def die(_: None) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with closing(SparkRunner(spark, 1)) as runner, pytest.raises(ClusterFailed, match="gave a job up 2 times"):
        runner._run(die, [(0, None)])
