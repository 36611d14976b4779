"""A disk without space, and one that is read-only in parts: every refusal is a clear error, nothing is half done, and it goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crash.harness import TESTS


def in_a_mount_namespace(*command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(["unshare", "-rm", *command], capture_output=True, text=True, timeout=500, env={**os.environ, "PYTHONPATH": path})


def test_no_space_and_no_right_to_write(tmp_path: Path) -> None:
    if in_a_mount_namespace("mount", "-t", "tmpfs", "tmpfs", str(tmp_path)).returncode != 0:
        pytest.skip("this machine does not let us mount a small file system in a namespace of our own")
    finished = in_a_mount_namespace(sys.executable, "-m", "crash.full_disk", str(tmp_path))
    assert finished.returncode == 0, finished.stdout + finished.stderr[-6000:]
    assert "Traceback" not in finished.stderr
    assert finished.stdout.splitlines()[-1] == "end"
