"""What was measured: a line on the screen, and all of it in results/comparison.json and results/delay.json, from which the tables and the
pages are made."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from comparison.measure import Run
from report import RESULTS, machine

KEPT, KEPT_DELAYS = RESULTS / "comparison.json", RESULTS / "delay.json"
OURS = "millstream"
JVM_PEERS = ("spark", "pyflink", "siddhi", "deephaven")
Measured = dict[str, dict[str, Any]]
"""What is kept of each system."""


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
    peaks: dict[int, float] = field(default_factory=dict)
    """After how many rows memory was how large: what is kept for ever grows with them."""
    runs: int = 1
    """Of which this is the one in the middle."""
    failure: str | None = None
    is_noise: bool = False
    """It failed only in that nothing can be told from this run."""

    @classmethod
    def between(cls, system: str, workload: str, low: int, small: Run, high: int, large: Run) -> Outcome:
        rows, seconds = high - low, large.wall - small.wall
        cpu = large.cpu - small.cpu
        if seconds <= 0 or not 0 < cpu <= 1.1 * seconds * (os.cpu_count() or 1):
            why = f"{rows:,} rows more took {seconds:.1f} s, and {cpu:.1f} s of processor: too noisy to tell"
            return cls(system, workload, failure=why, is_noise=True)
        return cls(
            system,
            workload,
            rows,
            rows / seconds,
            cpu / rows * 1e6,
            small.wall - seconds / rows * low,
            large.peak_bytes / 1e6,
            {low: small.peak_bytes / 1e6, high: large.peak_bytes / 1e6},
        )

    @classmethod
    def middle(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """Of several over the same sizes, by rows a second; with the most memory that any took.  One that fails fails all."""
        for each in outcomes:
            if each.failure and not each.is_noise:
                return each
        ranked = sorted((each for each in outcomes if not each.failure), key=lambda each: each.rows_a_second)
        if not ranked:
            return outcomes[0]
        peaks = {rows: max(each.peaks[rows] for each in ranked) for rows in ranked[0].peaks}
        return replace(ranked[(len(ranked) - 1) // 2], peaks=peaks, peak_mb=max(peaks.values()), runs=len(ranked))

    @classmethod
    def failed(cls, system: str, workload: str, why: str) -> Outcome:
        return cls(system, workload, failure=why)


def peak_after(peaks: Mapping[Any, float], rows: int) -> float:
    """The most memory after so many rows, or the least that is known after more."""
    return min((peak for after, peak in peaks.items() if int(after) >= rows), default=float("inf"))


def show(outcome: Outcome) -> None:
    if outcome.failure:
        print(f"  {outcome.system:12} FAILED: {outcome.failure.splitlines()[0]}", flush=True)
        return
    print(
        f"  {outcome.system:12} {outcome.rows_a_second:12,.0f} rows/s  {outcome.cpu_us_a_row:8.2f} us of processor a row  "
        f"{outcome.peak_mb:7,.0f} MB  {outcome.start_s:5.1f} s to start{f', the middle one of {outcome.runs}' if outcome.runs > 1 else ''}",
        flush=True,
    )


def kept(path: Path = KEPT) -> dict[str, Measured]:
    """By workload and system."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def keep(outcome: Outcome, version: str, path: Path = KEPT) -> None:
    """In place of what was measured of this system and workload before, unless it failed now and did not then."""
    before = kept(path).get(outcome.workload, {}).get(outcome.system)
    if outcome.failure and before and not before["failure"]:
        print(f"  {'':12} the figures of {before['date']} are kept", flush=True)
        return
    _write(path, outcome.workload, outcome.system, asdict(outcome), version)


def keep_delays(system: str, version: str, workload: str, pace: float, p50: float, p99: float, path: Path = KEPT_DELAYS) -> None:
    """Of rows that come at this pace."""
    _write(path, workload, system, {"rows_a_second": pace, "p50_s": p50, "p99_s": p99}, version)


def _write(path: Path, workload: str, system: str, figures: dict[str, Any], version: str) -> None:
    everything = kept(path)
    of = {"version": version, "date": dt.date.today().isoformat(), "machine": machine()}
    everything.setdefault(workload, {})[system] = figures | of
    half = path.with_suffix(".half")
    half.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
    half.rename(path)
