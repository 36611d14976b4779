"""A Spark standalone cluster of two workers on this machine, and one driver on it, for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.cluster_process import Cluster, DriverProcess


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[DriverProcess]:
    """It holds all cores of the cluster until it is stopped."""
    driver = DriverProcess(cluster.master)
    yield driver
    driver.stop()
