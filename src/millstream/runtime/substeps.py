"""A step cut into smaller ones along the line of time, so that a worker's memory grows with the cut, not with the tick.

Any cut gives the same changes, since operators are exact at every instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from millstream.core.instant import Micros
from millstream.core.signed_batch import SignedBatch

MOST_ROWS = 1 << 17
"""About this many rows go into one step, more if they share an instant."""


def substeps(batches: Sequence[SignedBatch], frontier: Micros, rows: int) -> Iterator[tuple[list[SignedBatch], Micros]]:
    """The inputs of consecutive steps, each with the frontier it leads to; the last leads to `frontier`.

    >>> from millstream.core.schema import Schema
    >>> one = SignedBatch.empty(Schema(()))
    >>> [upto for _, upto in substeps([one], 7)]
    [7]
    """
    starts = [0] * len(batches)
    for upto in _cuts(batches, frontier, rows):
        stops = [int(np.searchsorted(batch.instant, upto, side="right")) for batch in batches]
        yield [batch.slice(start, stop) for batch, start, stop in zip(batches, starts, stops, strict=True)], upto
        starts = stops


def _cuts(batches: Sequence[SignedBatch], frontier: Micros, rows: int) -> list[Micros]:
    longest = max((batch.instant for batch in batches), key=len, default=np.empty(0, np.int64))
    steps = sum(map(len, batches)) // rows
    if steps <= 1:
        return [frontier]
    cuts = np.unique(longest[np.linspace(0, len(longest) - 1, steps + 1).astype(np.int64)[1:-1]]).tolist()
    return [*(cut for cut in cuts if cut < frontier), frontier]
