"""Runs a piece of a test in a process of its own and kills it at a fault point, as kill -9 would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

_PRELUDE = """
import sys
import numpy as np, pyarrow as pa
from millstream.core.schema import Schema
from millstream.state.location import Location
location = Location.open(sys.argv[1], buckets=2)
"""


def run_until_killed(location: Path, fault: str, code: str) -> None:
    """The code sees `location` (open), `np`, `pa` and `Schema`; it must reach the fault point."""
    finished = subprocess.run(
        [sys.executable, "-c", _PRELUDE + textwrap.dedent(code), str(location)],
        env={**os.environ, "MILLSTREAM_FAULT": fault},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert finished.returncode == -signal.SIGKILL, f"{fault} was not reached:\n{finished.stdout}\n{finished.stderr}"
