"""Jobs of Python tasks: results in the order of the tasks, each task with its own environment, large ones too, errors with their cause."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.spark.anchors import Anchors
from millstream.spark.python_job import Function, PythonJobs, PythonTask


def applied(function: Callable[[], Any]) -> Function:
    """Cloudpickle takes a function that is made here along: the workers do not know this module."""

    def call(_: int, anchor: Iterable[str]) -> Iterator[Any]:
        for _each in anchor:
            pass
        yield function()

    return call


def run(spark: SparkSession, functions: list[Callable[[], Any]], environments: list[dict[str, str]] | None = None) -> list[Any]:
    anchors = Anchors(spark.sparkContext).for_buckets(len(functions))
    environments = environments or [{} for _ in functions]
    tasks = [PythonTask(anchor, own, applied(function)) for anchor, own, function in zip(anchors, environments, functions, strict=True)]
    return PythonJobs(spark.sparkContext).run(tasks)


def constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def test_results_come_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    assert run(spark, [constant(place) for place in range(5)]) == list(range(5))


def test_a_result_may_be_empty_or_none(spark: SparkSession) -> None:
    assert run(spark, [constant(None), constant([]), constant(b"")]) == [None, [], b""]


def test_each_task_has_its_own_environment(spark: SparkSession) -> None:
    own = [{"MILLSTREAM_BUCKET": f"test.{place}"} for place in range(3)]
    found = run(spark, [lambda: (os.environ["MILLSTREAM_BUCKET"], os.getpid())] * 3, own)
    assert [name for name, _ in found] == ["test.0", "test.1", "test.2"]
    assert len({process for _, process in found}) == 3
    assert "MILLSTREAM_BUCKET" not in spark.sparkContext.environment


def test_tasks_and_results_of_megabytes(spark: SparkSession) -> None:
    large = [os.urandom(3 << 20), os.urandom(10)]
    assert run(spark, [constant(each) for each in large]) == large


def test_an_error_tells_its_cause(spark: SparkSession) -> None:
    def fails() -> None:
        raise ValueError("the reason that the task had")

    with pytest.raises(Exception, match="the reason that the task had"):
        run(spark, [constant(1), fails])


def test_a_process_that_ends_is_told_as_lost(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        run(spark, [lambda: os._exit(3)])
