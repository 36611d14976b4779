"""All figures again: data as CSV and plots as PNG, in results/.

    python -m papers.incremental.run [--only f9a]

The clock counts what operators handle and all rows come from fixed seeds, so the numbers are the same on every machine.
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

from papers.incremental import f7, f8, f9, f10, fifo

RESULTS = Path(__file__).parent / "results"
Drawings = dict[str, Callable[[Any], Figure]]

FIGURES: list[tuple[Callable[[], Sequence[Any]], Drawings]] = [
    (f7.compute, {"f7": f7.draw}),
    (f8.compute_ratios, {"f8a": f8.draw_ratios}),
    (f8.compute_capacities, {"f8b": f8.draw_capacities}),
    (f9.compute, {"f9a": f9.draw_delays, "f9b": f9.draw_ratios}),
    (f10.compute, {"f10": f10.draw}),
    (fifo.compute, {"fifo": fifo.draw}),
]


def main() -> None:
    names = [name for _, drawings in FIGURES for name in drawings]
    parser = argparse.ArgumentParser(description="The figures of the paper on incremental sliding windows.")
    parser.add_argument("--only", choices=names, help="one figure, with those that share its data")
    only = parser.parse_args().only
    for compute, drawings in FIGURES:
        if only is None or only in drawings:
            began = time.perf_counter()
            _write(compute(), drawings)
            print(f"{', '.join(drawings)}: {time.perf_counter() - began:.0f} s")


def _write(points: Sequence[Any], drawings: Drawings) -> None:
    RESULTS.mkdir(exist_ok=True)
    rows = [{key: f"{value:.6g}" if isinstance(value, float) else value for key, value in asdict(point).items()} for point in points]
    name = next(iter(drawings)) if len(drawings) == 1 else next(iter(drawings))[:-1]
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for each, draw in drawings.items():
        draw(points).savefig(RESULTS / f"{each}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
