"""Queues of signed batches: what one operator has sent and another has not taken yet.

Changes are in the order of their instants.  `upto` says how far the sender has come: everything at or before it has been put.  An
operator with several inputs works on an instant when all of them have reached it; one that looks at rows one by one need not wait.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch, concat


class Queue:
    def __init__(self, schema: Schema) -> None:
        self._batches: deque[SignedBatch] = deque()
        self._nothing = SignedBatch.empty(schema)
        self.upto: Micros = NEVER_BEFORE
        self.rows = 0
        self.most_rows = 0

    def put(self, batch: SignedBatch, upto: Micros) -> None:
        if len(batch):
            self._batches.append(batch)
            self.rows += len(batch)
            self.most_rows = max(self.most_rows, self.rows)
        self.upto = upto

    def take(self, upto: Micros) -> SignedBatch:
        """All that waits at or before this instant."""
        taken: list[SignedBatch] = []
        while self._batches and self._batches[0].instant[-1] <= upto:
            taken.append(self._batches.popleft())
        if self._batches and self._batches[0].instant[0] <= upto:
            batch = self._batches.popleft()
            cut = int(np.searchsorted(batch.instant, upto, side="right"))
            taken.append(batch.slice(0, cut))
            self._batches.appendleft(batch.slice(cut, len(batch)))
        self.rows -= sum(map(len, taken))
        return concat(taken) if taken else self._nothing

    def take_all(self) -> SignedBatch:
        taken = list(self._batches)
        self._batches.clear()
        self.rows = 0
        return concat(taken) if taken else self._nothing

    def instant_of(self, row: int) -> Micros | None:
        """Of the row so far behind the first one; None if fewer wait."""
        for batch in self._batches:
            if row < len(batch):
                return int(batch.instant[row])
            row -= len(batch)
        return None
