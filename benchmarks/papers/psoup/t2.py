"""Table 2: the time of an answer against the number of predicates, each an interval, in a window of 2^15 tuples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from millstream.psoup.query import VARIANTS, Variant
from papers.psoup.plots import Line, panels
from papers.psoup.workloads import Generator, response_ms, soup_of

WINDOW = 2**15
PREDICATES = (1, 2, 4)
QUERIES = 64
BATCH = 4096


@dataclass(frozen=True)
class Response:
    variant: str
    predicates: int
    response_ms: float
    rows: float


def response(variant: Variant, predicates: int, window: int = WINDOW, queries: int = QUERIES, rounds: int = 5) -> Response:
    generator = Generator()
    soup = soup_of(variant, window)
    numbers = [soup.register(generator.selection("interval", predicates, window)) for _ in range(queries)]
    for start in range(0, window, BATCH):
        soup.insert("r", generator.tuples(BATCH), np.arange(start, start + BATCH))
    rows = float(np.mean([soup.invoke(number).num_rows for number in numbers]))
    return Response(variant, predicates, response_ms(soup, numbers, rounds), rows)


def compute(predicates: Sequence[int] = PREDICATES) -> list[Response]:
    return [response(variant, many) for variant in VARIANTS for many in predicates]


def draw(points: Sequence[Response]) -> Figure:
    lines = [Line(variant, [(p.predicates, p.response_ms) for p in points if p.variant == variant], variant) for variant in VARIANTS]
    return panels("Table 2: window of 2^15 tuples", "predicates (intervals)", [("ms an answer", lines)])
