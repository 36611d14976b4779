"""What was measured: a line on the screen, and all of it in results/comparison.json, from which the tables and the pages are made."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from comparison.measure import Run
from report import RESULTS, machine

KEPT = RESULTS / "comparison.json"


@dataclass(frozen=True)
class Outcome:
    system: str
    workload: str
    rows: int = 0
    """That were run over between the two sizes."""
    rows_a_second: float = 0.0
    cpu_us_a_row: float = 0.0
    start_s: float = 0.0
    """What the small run took beyond its rows."""
    peak_mb: float = 0.0
    failure: str | None = None

    @classmethod
    def between(cls, system: str, workload: str, low: int, small: Run, high: int, large: Run) -> Outcome:
        rows, seconds = high - low, large.wall - small.wall
        cpu = large.cpu - small.cpu
        if seconds <= 0 or cpu > 1.1 * seconds * (os.cpu_count() or 1):
            return cls.failed(system, workload, f"{rows:,} rows more took {seconds:.1f} s, and {cpu:.1f} s of processor: too noisy to tell")
        return cls(
            system,
            workload,
            rows,
            rows / seconds,
            cpu / rows * 1e6,
            small.wall - seconds / rows * low,
            large.peak_bytes / 1e6,
        )

    @classmethod
    def failed(cls, system: str, workload: str, why: str) -> Outcome:
        return cls(system, workload, failure=why)


def show(outcome: Outcome) -> None:
    if outcome.failure:
        print(f"  {outcome.system:12} FAILED: {outcome.failure.splitlines()[0]}", flush=True)
        return
    print(
        f"  {outcome.system:12} {outcome.rows_a_second:12,.0f} rows/s  {outcome.cpu_us_a_row:8.2f} us of processor a row  "
        f"{outcome.peak_mb:7,.0f} MB  {outcome.start_s:5.1f} s to start",
        flush=True,
    )


def kept(path: Path = KEPT) -> dict[str, dict[str, dict[str, object]]]:
    """By workload and system."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def keep(outcome: Outcome, version: str, path: Path = KEPT) -> None:
    """In place of what was measured of this system and workload before, unless it failed now and did not then."""
    everything = kept(path)
    before = everything.get(outcome.workload, {}).get(outcome.system)
    if outcome.failure and before and not before["failure"]:
        print(f"  {'':12} the figures of {before['date']} are kept", flush=True)
        return
    measured = {**asdict(outcome), "version": version, "date": dt.date.today().isoformat(), "machine": machine()}
    everything.setdefault(outcome.workload, {})[outcome.system] = measured
    half = path.with_suffix(".half")
    half.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
    half.rename(path)
