"""Figure 7: the time of an answer to a selection, against the size of its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from millstream.psoup.marks import Structure
from millstream.psoup.query import VARIANTS, Variant
from papers.psoup.plots import Line, panels
from papers.psoup.workloads import Generator, Kind, response_ms, soup_of

WINDOWS = tuple(2**power for power in range(7, 17))
KINDS: tuple[Kind, ...] = ("equality", "interval")
BITMAP: Structure = "bitmap"
"""What the paper's partial variant looks at, whatever would be smaller."""
QUERIES = 128
BATCH = 4096


@dataclass(frozen=True)
class Response:
    kind: str
    variant: str
    structure: str
    window: int
    response_ms: float
    rows: float
    """Mean size of an answer."""


def response(
    kind: Kind, variant: Variant, window: int, structure: Structure = "smaller", queries: int = QUERIES, rounds: int = 5
) -> Response:
    generator = Generator()
    soup = soup_of(variant, window, structure=structure)
    numbers = [soup.register(generator.selection(kind, 1 + place % 4, window)) for place in range(queries)]
    for start in range(0, window, BATCH):
        many = min(BATCH, window - start)
        soup.insert("r", generator.tuples(many), np.arange(start, start + many))
    rows = float(np.mean([soup.invoke(number).num_rows for number in numbers]))
    return Response(kind, variant, structure, window, response_ms(soup, numbers, rounds), rows)


def compute(windows: Sequence[int] = WINDOWS) -> list[Response]:
    points = []
    for kind in KINDS:
        for window in windows:
            points += [response(kind, variant, window) for variant in VARIANTS]
            points.append(response(kind, "partial", window, BITMAP))
    return points


def draw(points: Sequence[Response]) -> Figure:
    def lines(kind: str) -> list[Line]:
        ways = [("none", "smaller"), ("partial", "smaller"), ("partial", BITMAP), ("complete", "smaller")]
        return [
            Line(
                variant if structure == "smaller" else f"{variant}, always a bitmap",
                [(p.window, p.response_ms) for p in points if (p.kind, p.variant, p.structure) == (kind, variant, structure)],
                variant, dashed=structure == BITMAP,
            )
            for variant, structure in ways
        ]  # fmt: skip

    axes = [(f"{kind} predicates: ms an answer", lines(kind)) for kind in KINDS]
    return panels("Figure 7: selections of 1 to 4 predicates", "tuples in the window", axes)
