"""Changes that have arrived but lie beyond the frontier: another may still come before them.

Runs sorted by timestamp wait side by side; what the frontier passes is a prefix of each, so a step
costs the rows released, not the rows waiting.  Runs are merged two by two when there are many,
as in a log-structured tree, so slack and tick size do not matter either.
"""

from __future__ import annotations

import numpy as np

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch, merge_by_instant

_MOST_RUNS = 8


class PendingRows:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._runs: list[SignedBatch] = []  # oldest arrivals first: ties are released in arrival order

    def add(self, arrived: SignedBatch) -> None:
        """Rows in the order of their arrival."""
        if len(arrived):
            self._runs.append(merge_by_instant([arrived]))
        while len(self._runs) > _MOST_RUNS:
            self._merge_smallest_neighbours()

    def release(self, frontier: Micros) -> SignedBatch:
        """All rows with ts <= frontier, by (ts, arrival)."""
        released, kept = [SignedBatch.empty(self._schema)], []
        for run in self._runs:
            n = int(np.searchsorted(run.instant, frontier, side="right"))
            released.append(run.slice(0, n))
            if n < len(run):
                kept.append(run.slice(n, len(run)))
        self._runs = kept
        return merge_by_instant(released)

    def all(self) -> SignedBatch:
        """Everything that waits, by (ts, arrival)."""
        return merge_by_instant([SignedBatch.empty(self._schema), *self._runs])

    def select(self, schema: Schema) -> PendingRows:
        """The same rows with fewer columns."""
        fewer = PendingRows(schema)
        fewer._runs = [run.with_rows(run.rows.select(list(schema.names))) for run in self._runs]
        return fewer

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def _merge_smallest_neighbours(self) -> None:
        sizes = [len(self._runs[i]) + len(self._runs[i + 1]) for i in range(len(self._runs) - 1)]
        i = int(np.argmin(sizes))
        self._runs[i : i + 2] = [merge_by_instant(self._runs[i : i + 2])]
