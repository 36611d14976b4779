"""All figures again: data as CSV and plots as PNG, in results/.

    python -m papers.fjords.run [--only f8]

Figures 8, 9 and Q2 are measured, by the time of the processor; figure 11 is computed and the same on every machine.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from papers.fjords import f8, f9, f11, q2

RESULTS = Path(__file__).parent / "results"
FIGURES: dict[str, tuple[Callable[[], Sequence[Any]], Callable[[Any], Figure] | None]] = {
    "f8": (f8.compute, f8.draw),
    "f9": (f9.compute, f9.draw),
    "q2": (q2.compute, q2.draw),
    "f11": (f11.compute, f11.draw),
    "f11_demand": (f11.compute_demanded, None),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="The figures of the paper on Fjords.")
    parser.add_argument("--only", choices=list(FIGURES), help="one figure")
    only = parser.parse_args().only
    for name, (compute, draw) in FIGURES.items():
        if only in (None, name):
            began = time.perf_counter()
            _write(name, compute(), draw)
            print(f"{name}: {time.perf_counter() - began:.0f} s")


def _write(name: str, points: Sequence[Any], draw: Callable[[Any], Figure] | None) -> None:
    RESULTS.mkdir(exist_ok=True)
    rows = [{key: f"{value:.6g}" if isinstance(value, float) else value for key, value in asdict(point).items()} for point in points]
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if draw is not None:
        draw(points).savefig(RESULTS / f"{name}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
