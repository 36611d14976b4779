"""Rows that have arrived but lie beyond the frontier: another may still come before them.

Runs sorted by timestamp wait side by side; what the frontier passes is a prefix of each, so a step
costs the rows released, not the rows waiting.  Runs are merged two by two when there are many,
as in a log-structured tree, so slack and tick size do not matter either.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch

_MOST_RUNS = 8


class PendingRows:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._runs: list[tuple[Instants, pa.RecordBatch]] = []  # oldest arrivals first: ties are released in arrival order

    def add(self, ts: Instants, rows: pa.RecordBatch) -> None:
        if len(ts):
            self._runs.append(_sorted(ts, rows))
        while len(self._runs) > _MOST_RUNS:
            self._merge_smallest_neighbours()

    def release(self, frontier: Micros) -> SignedBatch:
        """All rows with ts <= frontier, by (ts, arrival)."""
        released, kept = [], []
        for ts, rows in self._runs:
            n = int(np.searchsorted(ts, frontier, side="right"))
            if n:
                released.append((ts[:n], rows.slice(0, n)))
            if n < len(ts):
                kept.append((ts[n:], rows.slice(n)))
        self._runs = kept
        if not released:
            return SignedBatch.empty(self._schema)
        return SignedBatch.arrivals(*_merged(released))

    def __len__(self) -> int:
        return sum(len(ts) for ts, _ in self._runs)

    def _merge_smallest_neighbours(self) -> None:
        sizes = [len(self._runs[i][0]) + len(self._runs[i + 1][0]) for i in range(len(self._runs) - 1)]
        i = int(np.argmin(sizes))
        self._runs[i : i + 2] = [_merged(self._runs[i : i + 2])]


def _sorted(ts: Instants, rows: pa.RecordBatch) -> tuple[Instants, pa.RecordBatch]:
    if (ts[1:] >= ts[:-1]).all():
        return ts, rows
    order = np.argsort(ts, kind="stable")
    return ts[order], rows.take(pa.array(order))


def _merged(runs: list[tuple[Instants, pa.RecordBatch]]) -> tuple[Instants, pa.RecordBatch]:
    if len(runs) == 1:
        return runs[0]
    return _sorted(np.concatenate([ts for ts, _ in runs]), pa.concat_batches([rows for _, rows in runs]))
