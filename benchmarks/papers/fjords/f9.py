"""Figure 9: how many tuples a second one source can deliver to n selections together, and to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from papers.fjords import f8
from papers.fjords.engines import measured
from papers.fjords.plots import Line, panels
from papers.fjords.trace import trace

COUNTS = (1, 2, 5, 10, 20, 50, 100, 200)


@dataclass(frozen=True)
class Throughput:
    """Tuples a second of processor time, looked at by all queries together and by each."""

    queries: int
    aggregate: float
    per_query: float


def compute(counts: Sequence[int] = COUNTS, records: int | None = None, rounds: int = 2) -> list[Throughput]:
    rows = trace(records) if records else trace()
    measured(f8.queries("single", "filter", 1), rows, rounds=1)  # loads what is compiled
    found = []
    for count in counts:
        rate = rows.num_rows / measured(f8.queries("single", "filter", count), rows, rounds=rounds)
        found.append(Throughput(count, count * rate, rate))
    return found


def draw(points: Sequence[Throughput]) -> Figure:
    axes = [
        ("tuples/s, all queries together", [Line("aggregate", [(p.queries, p.aggregate) for p in points], 0)]),
        ("tuples/s of each query", [Line("per query", [(p.queries, p.per_query) for p in points], 1)]),
    ]
    return panels("Figure 9: one source, n selections", "queries", axes, logarithmic=True)
