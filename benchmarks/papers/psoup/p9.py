"""Figure 9: the time to take a tuple in, against the number of standing clauses, with and without the predicate index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from millstream.psoup.query import Variant
from papers.psoup.plots import Line, panels
from papers.psoup.workloads import Generator, fastest, soup_of

CLAUSES = tuple(2**power for power in range(7, 13))
WINDOW = 1000
VARIANTS: tuple[Variant, ...] = ("partial", "complete")
BATCHES = (1, 500)
"""The paper takes tuples in one by one; our engine would never."""


@dataclass(frozen=True)
class Insertion:
    variant: str
    shared: bool
    clauses: int
    batch: int
    us_a_tuple: float


def insertion(variant: Variant, clauses: int, batch: int, *, shared: bool, tuples: int | None = None) -> Insertion:
    """The window is full before the clock starts."""
    generator = Generator()
    soup = soup_of(variant, WINDOW, shared=shared)
    soup.insert("r", generator.tuples(WINDOW), np.arange(WINDOW))
    for place in range(clauses):
        soup.register(generator.selection("inequality", 1 + place % 4, WINDOW))
    tuples = tuples if tuples is not None else max(batch, 8)
    now = WINDOW

    def work() -> None:
        nonlocal now
        for _ in range(tuples // batch):
            soup.insert("r", generator.tuples(batch), np.arange(now, now + batch))
            now += batch

    return Insertion(variant, shared, clauses, batch, 1e6 * fastest(work, 3) / tuples)


def compute(clauses: Sequence[int] = CLAUSES, batches: Sequence[int] = BATCHES) -> list[Insertion]:
    return [
        insertion(variant, many, batch, shared=shared)
        for batch in batches
        for variant in VARIANTS
        for shared in (True, False)
        for many in clauses
    ]


def draw(points: Sequence[Insertion]) -> Figure:
    def lines(batch: int) -> list[Line]:
        return [
            Line(
                f"{variant}, {'shared' if shared else 'unshared'}",
                [(p.clauses, p.us_a_tuple) for p in points if (p.variant, p.shared, p.batch) == (variant, shared, batch)],
                variant, dashed=not shared,
            )
            for variant in VARIANTS
            for shared in (True, False)
        ]  # fmt: skip

    batches = sorted({p.batch for p in points})
    axes = [(f"us a tuple, {'one by one' if batch == 1 else f'{batch} at once'}", lines(batch)) for batch in batches]
    return panels("Figure 9: inequality selections, window of 1,000 tuples", "standing clauses", axes)
