"""Figure 8: n one-predicate queries in one engine against n engines with one query each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from papers.fjords.engines import measured
from papers.fjords.plots import Line, panels
from papers.fjords.trace import trace

COUNTS = (1, 2, 5, 10, 20, 50)
DESIGNS = ("single", "multi")
VARIANTS = ("no filter", "null filter", "filter")


@dataclass(frozen=True)
class Cost:
    design: str
    variant: str
    queries: int
    total_ms: float
    per_query_ms: float


def sql(variant: str, number: int, of: int) -> str:
    """Each its own predicate: about a tenth to nine tenths of the rows qualify.  The null filter looks, and lets everything pass."""
    where = {
        "no filter": "",
        "null filter": f" WHERE speed > {-1 - number}",
        "filter": f" WHERE speed > {np.interp((number + 0.5) / of, [0, 1], [40, 72]):.3f}",
    }[variant]
    return f"SELECT ts, lane, station, speed, flow FROM traffic{where}"


def queries(design: str, variant: str, count: int) -> list[list[str]]:
    texts = [sql(variant, i, count) for i in range(count)]
    return [texts] if design == "single" else [[text] for text in texts]


def compute(counts: Sequence[int] = COUNTS, records: int | None = None, rounds: int = 3) -> list[Cost]:
    """All in turn, several rounds of them, so that a busy minute of the machine spoils no case in all of its rounds."""
    rows = trace(records) if records else trace()
    measured(queries("single", "filter", 1), rows, rounds=1)  # loads what is compiled
    cases = [(design, variant, count) for variant in VARIANTS for count in counts for design in DESIGNS]
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for case in cases:
            least[case] = min(least[case], 1000 * measured(queries(*case), rows, rounds=1))
    return [Cost(*case, total, total / case[2]) for case, total in least.items()]


def draw(points: Sequence[Cost]) -> Figure:
    def lines(value: str) -> list[Line]:
        return [
            Line(
                f"{design}, {variant}",
                [(p.queries, getattr(p, value)) for p in points if (p.design, p.variant) == (design, variant)],
                VARIANTS.index(variant), dashed=design == "multi",
            )
            for variant in VARIANTS
            for design in DESIGNS
        ]  # fmt: skip

    axes = [("all queries (ms)", lines("total_ms")), ("for each query (ms)", lines("per_query_ms"))]
    return panels("Figure 8: one engine with n queries, or n engines; 10,767 records", "queries", axes, logarithmic=True)
