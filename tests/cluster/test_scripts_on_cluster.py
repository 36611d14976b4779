"""A fixed part of the stream scripts on the cluster, all restarts among them; `make nightly` runs all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.cluster_process import DriverProcess
from script_files import PATHS, runs_on_cluster


@pytest.mark.parametrize("path", [path for path in PATHS if runs_on_cluster(path)], ids=lambda path: str(path.with_suffix("")))
def test_script(driver: DriverProcess, path: Path) -> None:
    assert driver("script", path=str(path)) is None
