"""All figures again: data as CSV and plots as PNG, in results/.

    python -m papers.psoup.run [--only p9]

Times are processor time (figure 11: the shortest by the wall clock) of this machine; tuples and queries come from fixed seeds.
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

from papers.psoup import p7, p8, p9, p11, t2

RESULTS = Path(__file__).parent / "results"
FIGURES: dict[str, tuple[Callable[[], Sequence[Any]], Callable[[Any], Figure]]] = {
    "p7": (p7.compute, p7.draw), "p8": (p8.compute, p8.draw), "t2": (t2.compute, t2.draw), "p9": (p9.compute, p9.draw),
    "p11": (p11.compute, p11.draw),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="The figures of the PSoup paper.")
    parser.add_argument("--only", choices=FIGURES)
    only = parser.parse_args().only
    for name, (compute, draw) in FIGURES.items():
        if only in (None, name):
            began = time.perf_counter()
            _write(name, compute(), draw)
            print(f"{name}: {time.perf_counter() - began:.0f} s")


def _write(name: str, points: Sequence[Any], draw: Callable[[Any], Figure]) -> None:
    RESULTS.mkdir(exist_ok=True)
    rows = [{key: f"{value:.4g}" if isinstance(value, float) else value for key, value in asdict(point).items()} for point in points]
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(points).savefig(RESULTS / f"{name}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
