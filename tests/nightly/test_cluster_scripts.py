"""Every stream script on a cluster of two workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.cluster_process import DriverProcess
from cluster.conftest import cluster, driver  # noqa: F401 - fixtures
from script_files import PATHS

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.with_suffix("")))
def test_script(driver: DriverProcess, path: Path) -> None:  # noqa: F811
    assert driver("script", path=str(path)) is None
