"""Figure 8: the time of an answer to a join of two streams by an inequality, against the size of its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from millstream.psoup.query import VARIANTS, Variant
from papers.psoup.plots import Line, panels
from papers.psoup.workloads import Generator, response_ms, soup_of

WINDOWS = (64, 128, 256, 576, 1024)
QUERIES = 16
BATCH = 64


@dataclass(frozen=True)
class Response:
    variant: str
    window: int
    response_ms: float
    rows: float


def response(variant: Variant, window: int, queries: int = QUERIES, rounds: int = 5) -> Response:
    """Half of the window's tuples are of each stream, in turns."""
    generator = Generator()
    soup = soup_of(variant, window, ("r", "s"))
    numbers = [soup.register(generator.join(window)) for _ in range(queries)]
    for start in range(0, window, BATCH):
        many = min(BATCH, window - start)
        for place, stream in enumerate(("r", "s")):
            soup.insert(stream, generator.tuples(many // 2), np.arange(start + place, start + many, 2))
    rows = float(np.mean([soup.invoke(number).num_rows for number in numbers]))
    return Response(variant, window, response_ms(soup, numbers, rounds), rows)


def compute(windows: Sequence[int] = WINDOWS) -> list[Response]:
    return [response(variant, window) for window in windows for variant in VARIANTS]


def draw(points: Sequence[Response]) -> Figure:
    lines = [Line(variant, [(p.window, p.response_ms) for p in points if p.variant == variant], variant) for variant in VARIANTS]
    return panels("Figure 8: joins of two streams by an inequality", "tuples in the window", [("ms an answer", lines)])
