"""Half an hour of rows, queries that come and go, and changes of relations: nothing grows that should not.

`MILLSTREAM_SOAK_MINUTES` makes it shorter or longer; below twenty minutes, files that wait ten for their readers are still piling up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import quantiles

import pytest

MINUTES = float(os.environ.get("MILLSTREAM_SOAK_MINUTES", "30"))
WORKLOAD = Path(__file__).parent / "soak_workload.py"
MOST_GROWTH = {"files": 1.25, "disk": 1.25, "driver": 1.15, "jvm": 1.25, "workers": 1.15}
"""From the middle third to the last: of the sample that nine in ten do not exceed."""


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(MINUTES * 60 + 900)
def test_nothing_grows(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(WORKLOAD), str(tmp_path / "db"), str(MINUTES)], capture_output=True, text=True, timeout=MINUTES * 60 + 600
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    *samples, last, states = [json.loads(line) for line in run.stdout.splitlines()]
    print(*(json.dumps(sample) for sample in samples[:: max(1, len(samples) // 30)]), json.dumps(last), sep="\n")
    assert last["sums"] > 0
    assert set(states["states"].values()) == {"running"}
    third = len(samples) // 3
    for what, most in MOST_GROWTH.items():
        before, after = (_high(sample[what] for sample in part) for part in (samples[third : 2 * third], samples[2 * third :]))
        assert after <= most * before, f"{what}: {before:,} in the middle third, {after:,} in the last"


def _high(values: Iterable[float]) -> float:
    """Merging files takes memory for a moment; what counts is what stays."""
    return quantiles(values, n=10)[-1]
