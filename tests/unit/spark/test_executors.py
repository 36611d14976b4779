"""Which executor has which bucket, waiting for executors, and jobs that are run again: with a Spark context that is made up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.errors import ClusterFailed, ConfigInvalid
from millstream.spark import anchors, jobs
from millstream.spark.anchors import REST_S, Anchors
from millstream.spark.executors import assigned, await_executors
from millstream.spark.jobs import Jobs

NAMES = [f"e{i}" for i in range(6)]


# --- places -----------------------------------------------------------------------------------


@given(
    before=st.dictionaries(st.integers(0, 15), st.sampled_from(NAMES)),
    buckets=st.integers(1, 16),
    executors=st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
)
def test_buckets_are_spread_evenly_and_few_move(before: dict[int, str], buckets: int, executors: list[str]) -> None:
    after = assigned(before, buckets, executors)
    assert sorted(after) == list(range(buckets))
    loads = [list(after.values()).count(executor) for executor in executors]
    assert sum(loads) == buckets
    assert max(loads) - min(loads) <= 1
    kept = sum(before.get(bucket) == executor for bucket, executor in after.items())
    assert kept == most_kept(before, buckets, executors)


def most_kept(before: dict[int, str], buckets: int, executors: list[str]) -> int:
    """Of all even spreads: the fullest executors may hold one bucket more."""
    held = sorted((sum(before.get(bucket) == executor for bucket in range(buckets)) for executor in executors), reverse=True)
    share, rest = divmod(buckets, len(executors))
    return sum(min(count, share + (place < rest)) for place, count in enumerate(held))


def test_nothing_moves_while_nothing_changes() -> None:
    before = assigned({}, 7, ["a", "b", "c"])
    assert assigned(before, 7, ["a", "b", "c"]) == before


class Places(Anchors):
    """Anchors that are names of executors, and a cluster that the test changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster: tuple[str, ...] = ()
        self.now = 0.0
        monkeypatch.setattr(anchors, "executor_ids", lambda _: self.cluster)
        monkeypatch.setattr(anchors, "executor_hosts", lambda _: dict.fromkeys(self.cluster, "host"))
        monkeypatch.setattr(anchors.time, "monotonic", lambda: self.now)
        super().__init__(context(Ids("")))

    def _anchor(self, executor: str | None) -> Any:
        return executor


def test_buckets_move_at_once_where_they_must_and_later_where_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(monkeypatch)
    assert places.for_buckets(2) == [None, None]
    places.cluster = ("1", "2")
    assert places.for_buckets(2) == ["1", "2"]
    places.cluster = ("2",)
    assert places.for_buckets(2) == ["2", "2"]
    places.cluster, places.now = ("2", "3"), REST_S / 2
    assert places.for_buckets(2) == ["2", "2"]
    places.now = REST_S
    assert sorted(places.for_buckets(2)) == ["2", "3"]
    assert len(places.for_buckets(5)) == 5
    assert len(places.for_buckets(2)) == 2


# --- waiting ----------------------------------------------------------------------------------


class Ids:
    """What Spark says at each look, the last for ever."""

    def __init__(self, *looks: str) -> None:
        self._looks = list(looks)
        self.seen = 0

    def __call__(self) -> SimpleNamespace:
        told = self._looks[min(self.seen, len(self._looks) - 1)]
        self.seen += 1
        return SimpleNamespace(mkString=lambda _: told)


def context(ids: Callable[[], Any], *, master: str = "spark://h:7077", stopped: bool = False, **settings: str) -> Any:
    jvm_context = SimpleNamespace(getExecutorIds=ids, isStopped=lambda: stopped)
    tags: list[str] = []
    cancelled: list[str] = []
    return SimpleNamespace(
        master=master,
        getConf=lambda: SimpleNamespace(get=lambda key, default: settings.get(key.replace(".", "_"), default)),
        _jsc=SimpleNamespace(sc=lambda: jvm_context),
        addJobTag=tags.append,
        removeJobTag=tags.remove,
        cancelJobsWithTag=cancelled.append,
        tags=tags,
        cancelled=cancelled,
    )


def test_waits_until_executors_stop_coming() -> None:
    ids = Ids("", "", "0", "0,1")
    await_executors(context(ids), settle_s=0.15)
    assert ids.seen > 4


def test_waits_for_as_many_as_were_asked_for_and_no_longer() -> None:
    ids = Ids("", "0", "0,1")
    await_executors(context(ids, spark_executor_instances="2"), settle_s=1000.0)
    assert ids.seen == 3


def test_says_that_no_executor_came() -> None:
    with pytest.raises(ConfigInvalid, match='no executor has come from "spark://h:7077"'):
        await_executors(context(Ids("")), wait_s=0.0)


@pytest.mark.parametrize("settings", [{"master": "local[*]"}, {"spark_dynamicAllocation_enabled": "true"}])
def test_does_not_wait_where_there_is_nothing_to_wait_for(settings: dict[str, str]) -> None:
    ids = Ids("")
    await_executors(context(ids, **settings))
    assert ids.seen == 0


# --- jobs -------------------------------------------------------------------------------------


LOST = "Job aborted due to stage failure: ... ExecutorLostFailure (executor 3 exited caused by one of the running tasks)"


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PAUSES_S", (0.0, 0.0, 0.0))


def failing(times: int, text: str) -> tuple[Callable[[], str], list[int]]:
    tries: list[int] = []

    def job() -> str:
        tries.append(len(tries))
        if len(tries) <= times:
            raise RuntimeError(text)
        return "answer"

    return job, tries


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("text", [LOST, "Python worker exited unexpectedly (crashed)", "TaskResultLost (result lost from block manager)"])
def test_a_job_that_was_lost_is_run_again(text: str) -> None:
    job, tries = failing(3, text)
    assert Jobs(context(Ids("0"))).run(job) == "answer"
    assert len(tries) == 4


@pytest.mark.usefixtures("no_pauses")
def test_but_not_for_ever() -> None:
    job, tries = failing(100, LOST)
    with pytest.raises(ClusterFailed, match=r"gave a job up 4 times: .*ExecutorLostFailure"):
        Jobs(context(Ids("0"))).run(job)
    assert len(tries) == 4


def test_what_the_job_itself_does_wrong_is_not_tried_again() -> None:
    job, tries = failing(1, "Traceback (most recent call last): ZeroDivisionError")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        Jobs(context(Ids("0"))).run(job)
    assert len(tries) == 1


def test_says_what_the_executors_lack() -> None:
    job, _ = failing(1, "ModuleNotFoundError: No module named 'millstream'")
    with pytest.raises(ClusterFailed, match='no Python module "millstream"') as raised:
        Jobs(context(Ids("0"))).run(job)
    assert "docs/cluster.md" in str(raised.value.hint)


def test_says_that_spark_has_stopped() -> None:
    job, tries = failing(1, LOST)
    with pytest.raises(ClusterFailed, match="Spark has stopped"):
        Jobs(context(Ids("0"), stopped=True)).run(job)
    assert len(tries) == 1


def test_closing_cancels_a_job_that_waits_for_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLL_S", 0.01)
    cancelled = threading.Event()
    spark = context(Ids(""))
    spark.cancelJobsWithTag = lambda tag: cancelled.set()
    running = Jobs(spark)

    def job() -> None:
        running.close()
        assert cancelled.wait(10)
        raise RuntimeError("cancelled part of cancelled job tag")

    with pytest.raises(ClusterFailed, match="closed while no executor"):
        running.run(job)
    assert spark.tags == []


def test_a_job_without_executors_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLL_S", 0.01)
    monkeypatch.setattr(jobs, "PATIENCE_S", 0.0)
    said = threading.Event()
    monkeypatch.setattr(jobs.log, "warning", lambda text, *_: said.set() if "no executor" in text else None)
    assert Jobs(context(Ids(""))).run(lambda: said.wait(10))
