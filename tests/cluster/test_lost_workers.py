"""kill -9 of workers in the middle of a tick: nothing is lost, the stream goes on, and caches are made again elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import workload
from cluster.cluster_process import WORKERS, Cluster, DriverError, DriverProcess, executor_of, kill
from inline import open_inline

KILLED_AT, LAST = 5, 10


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By plain calls in this process: no Spark, nobody killed."""
    with open_inline(tmp_path_factory.mktemp("undisturbed") / "db") as db:
        workload.create(db)
        for number in range(LAST + 1):
            workload.insert(db, number)
            db.flush()
        told = workload.changes(db)
    assert all(len(lines) > 500 for lines in told.values()), {name: len(lines) for name, lines in told.items()}
    return told


def one_python_process(processes: list[int]) -> list[int]:
    return processes[:1]


def all_python_processes(processes: list[int]) -> list[int]:
    return processes


def one_executor(processes: list[int]) -> list[int]:
    return [executor_of(processes[1])]


def all_executors(processes: list[int]) -> list[int]:
    return sorted(set(map(executor_of, processes)))


@pytest.mark.parametrize("victims", [one_python_process, all_python_processes, one_executor, all_executors])
def test_goes_on_exactly(
    driver: DriverProcess, undisturbed: dict[str, list[str]], tmp_path: Path, victims: Callable[[list[int]], list[int]]
) -> None:
    driver("open", location=str(tmp_path / "db"))
    driver("feed", first=0, last=KILLED_AT - 1)
    before, replays = driver("processes"), driver("replays")
    doomed = victims(before)
    driver("feed", first=KILLED_AT, last=KILLED_AT, on_batch=lambda _: kill(*doomed))
    driver("feed", first=KILLED_AT + 1, last=LAST)
    assert driver("changes") == undisturbed
    assert set(driver("states")) == {"running"}
    assert driver("replays") > replays
    assert driver("processes") != before
    driver("close")


def test_a_worker_that_dies_and_comes_back(
    cluster: Cluster, driver: DriverProcess, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    """Its bucket moves to the other worker; when it is back, buckets are spread again."""
    driver("open", location=str(tmp_path / "db"))
    driver("feed", first=0, last=2)
    assert len(set(map(executor_of, driver("processes")))) == 2
    doomed = cluster.worker("worker-1")
    driver("feed", first=3, last=3, on_batch=lambda _: kill(doomed))
    driver("await_executors", count=1)
    driver("feed", first=4, last=5)
    (left,) = set(map(executor_of, driver("processes")))
    assert left in cluster.executors("worker-2")
    cluster.start()
    driver("await_executors", count=2)
    driver("feed", first=6, last=LAST)
    assert driver("changes") == undisturbed
    assert len(set(map(executor_of, driver("processes")))) == 2
    driver("close")


def test_without_workers_answers_wait_and_say_so(
    cluster: Cluster, driver: DriverProcess, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    driver("open", location=str(tmp_path / "db"))
    driver("feed", first=0, last=2)
    driver.warnings.clear()
    kill(*map(cluster.worker, WORKERS))
    driver("feed", first=3, last=LAST, on_warning=lambda text: cluster.start() if "no executor of Spark is left" in text else None)
    assert any("no executor of Spark is left" in text for text in driver.warnings)
    assert driver("changes") == undisturbed
    driver("close")


def test_closing_without_workers_does_not_wait(cluster: Cluster, driver: DriverProcess, tmp_path: Path) -> None:
    driver("open", location=str(tmp_path / "db"))
    driver("feed", first=0, last=2)
    driver.warnings.clear()
    kill(*map(cluster.worker, WORKERS))
    driver("close")
    assert any("closed without snapshots" in text for text in driver.warnings)
    cluster.start()


def test_spark_that_is_stopped_is_said_to_be(cluster: Cluster, driver: DriverProcess, tmp_path: Path) -> None:
    """The last test of this driver."""
    driver("open", location=str(tmp_path / "db"))
    driver("feed", first=0, last=0)
    driver("stop_spark")
    with pytest.raises(DriverError, match="Spark has stopped") as raised:
        driver("feed", first=1, last=1)
    assert raised.value.code == "CLUSTER_FAILED"
    assert set(driver("states")) == {"running"}
    driver("close")
