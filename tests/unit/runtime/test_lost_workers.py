"""A stage whose process a function took with it goes on without that query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millstream.core.errors import FunctionFailed
from millstream.operators.call_note import write_note
from millstream.runtime.messages import FragmentResult, StageResult, StageTask
from millstream.spark.lost_workers import note_of, run_around


def stage(directory: Path, *incarnations: str) -> list[StageTask]:
    fragments: Any = tuple(SimpleNamespace(incarnation=name, number=0) for name in incarnations)
    return [StageTask("db", 1, bucket, str(directory), fragments, frozenset(incarnations)) for bucket in (0, 1)]


class Cluster:
    """Each query whose name begins with `fatal` ends bucket 1, after it has left a note."""

    def __init__(self, *, retries: bool) -> None:
        self.retries = retries
        self.runs = 0

    def run(self, tasks: Sequence[StageTask]) -> list[StageResult]:
        self.runs += 1
        fatal = next((each.incarnation for each in tasks[0].fragments if each.incarnation.startswith("fatal")), None)
        if fatal is None:
            return [self._done(task, missing=False) for task in tasks]
        write_note(note_of(tasks[1]), fatal, f"function of {fatal} failed", None)
        if not self.retries:
            raise RuntimeError("a worker has gone")
        return [self._done(task, missing=task.bucket == 1) for task in tasks]

    def _done(self, task: StageTask, *, missing: bool) -> StageResult:
        return StageResult(task.bucket, tuple(FragmentResult(each.incarnation, 0, task.bucket, missing=missing) for each in task.fragments))


def told(results: list[StageResult]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for result in (each for stage_result in results for each in stage_result.fragments):
        state = result.error.message if result.error else "missing" if result.missing else "done"
        found.setdefault(result.incarnation, set()).add(state)
    return found


def test_without_retries_the_others_run_again(tmp_path: Path) -> None:
    cluster = Cluster(retries=False)
    found = told(run_around(stage(tmp_path, "a", "fatal 1", "b", "fatal 2"), cluster.run))
    ended = "it ended its process, or had to be ended with it"
    assert found == {
        "a": {"done"}, "b": {"done"},
        "fatal 1": {f"function of fatal 1 failed: {ended}"}, "fatal 2": {f"function of fatal 2 failed: {ended}"},
    }  # fmt: skip
    assert cluster.runs == 3
    assert not list(tmp_path.iterdir())


def test_where_spark_tries_again_and_it_goes_well_no_function_is_blamed(tmp_path: Path) -> None:
    found = told(run_around(stage(tmp_path, "a", "fatal"), Cluster(retries=True).run))
    assert found == {"a": {"done", "missing"}, "fatal": {"done", "missing"}}
    assert not list(tmp_path.iterdir())


def test_a_stage_of_nothing_else(tmp_path: Path) -> None:
    (result,) = run_around(stage(tmp_path, "fatal"), Cluster(retries=False).run)
    assert isinstance(result.fragments[0].error, FunctionFailed)


def test_what_nobody_noted_is_raised(tmp_path: Path) -> None:
    def broken(tasks: Sequence[StageTask]) -> list[StageResult]:
        raise RuntimeError("Spark is gone")

    with pytest.raises(RuntimeError, match="Spark is gone"):
        run_around(stage(tmp_path, "a"), broken)
