"""What sharing gains: Q1, a windowed average for some segments, and Q2, the same joined with incidents; 1 query and 50."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from papers.fjords.engines import measured
from papers.fjords.plots import Line, panels
from papers.fjords.trace import STATIONS, incidents, trace

COUNTS = (1, 2, 5, 10, 20, 50)
QUERIES = ("Q1", "Q2")
RELATION = ("CREATE RELATION incidents (id INT PRIMARY KEY, station INT, description STRING)", incidents())


@dataclass(frozen=True)
class Shared:
    query: str
    queries: int
    per_query_ms: float
    gain: float
    """Of the cost of a query alone, what is saved."""


def sql(query: str, number: int) -> str:
    """Queries differ in the segments that they know of (Q1) and in what they call slow (Q2)."""
    if query == "Q1":
        known = ", ".join(str((number + i) % STATIONS) for i in range(3))
        return f"SELECT station, avg(speed) AS speed FROM traffic [RANGE 10 MINUTES] WHERE station IN ({known}) GROUP BY station"
    return (
        "SELECT i.description, avg(t.speed) AS speed FROM traffic [RANGE 10 MINUTES] AS t, incidents AS i"
        f" WHERE t.station = i.station GROUP BY i.description HAVING avg(t.speed) < {30 + number}"
    )


def compute(counts: Sequence[int] = COUNTS, records: int | None = None, rounds: int = 2) -> list[Shared]:
    rows = trace(records) if records else trace()
    found = []
    for query in QUERIES:
        measured([[sql(query, 0)]], rows, RELATION, rounds=1)  # loads what is compiled
        alone = 0.0
        for count in counts:
            each = 1000 * measured([[sql(query, i) for i in range(count)]], rows, RELATION, rounds) / count
            alone = alone or each
            found.append(Shared(query, count, each, 1 - each / alone))
    return found


def draw(points: Sequence[Shared]) -> Figure:
    def lines(value: str) -> list[Line]:
        return [
            Line(query, [(p.queries, getattr(p, value)) for p in points if p.query == query], i) for i, query in enumerate(("Q1", "Q2"))
        ]

    axes = [("for each query (ms)", lines("per_query_ms")), ("saved by sharing", lines("gain"))]
    return panels("Q1 and Q2 in one engine", "queries", axes)
