"""Where rows that end by themselves are taken back: below the first operator that wants every change told, or the answer.

Below it rows carry the instant at which they end (windows say it, a pair of a join ends with the first of its rows), so nothing was
computed for their end.  Here they wait for it:

    a change with sign a that ends at T   =   that change, and one with sign -a at T

which also holds for a row that somebody takes back before its time.  When the end is told is the strategy's matter:

    time_message      whoever lets rows end says so, once for each instant at which some do
    piggyback         the same, but messages that other rows follow are taken off the queue, and the rows say it
    input_triggered   nobody says it: a row that arrives at T tells that all is over that ends at or before T, and not before.
                      So rows are taken back at the instant of the next arrival, which may be late or never

A row that comes as EXACT means that whoever sent what waits here will take it back itself, from there on.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.instant import EXACT, GONE_NEVER, NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, merge_by_instant
from millstream.kernels import arrow_buffers
from millstream.operators.net import netted
from millstream.operators.operator import Arrays
from millstream.operators.pending import PendingRows


class ExpireOp:
    """Told how far time has come, so not an `Operator`, but the same contract."""

    def __init__(self, schema: Schema, *, by_input: bool) -> None:
        self.schema = schema
        self._by_input = by_input
        self._waiting = PendingRows(schema)
        self._late: list[Instants] = []

    def step(self, batch: SignedBatch, told: Micros) -> SignedBatch:
        """`told`: everything that ends up to there is over.  With `by_input` the arrivals themselves say it."""
        if self._by_input:
            batch = netted(batch)  # a row that comes and goes at once tells nothing
        until = batch.ends
        mortal = until < GONE_NEVER
        if mortal.any():
            self._waiting.add(SignedBatch(until, -batch.sign, batch.rows).filter(mortal))
        arrivals = batch.instant[batch.sign > 0]
        if self._by_input:
            told = int(arrivals[-1]) if len(arrivals) else NEVER_BEFORE
        ended = self._waiting.release(told)
        if (ended.sign > 0).any():
            ended = netted(ended)  # what was taken back before its time does not end, and nobody may have told of it
        if self._by_input and len(ended):
            learned = arrivals[np.searchsorted(arrivals, ended.instant)]
            self._late.append(ended.instant[ended.instant < learned])
            ended = SignedBatch(learned, ended.sign, ended.rows)
        if (until == EXACT).any():
            self._waiting = PendingRows(self.schema)
        return merge_by_instant([ended, SignedBatch(batch.instant, batch.sign, batch.rows)])

    def take_late(self) -> list[Instants]:
        """When the rows ended whose end was learned later, since the last call."""
        found, self._late = self._late, []
        return found

    def save(self) -> Arrays:
        waiting = self._waiting.all()
        return {"until": waiting.instant, "sign": waiting.sign, "rows": arrow_buffers.to_bytes(waiting.rows.columns)}

    def load(self, arrays: Arrays) -> None:
        rows = pa.RecordBatch.from_arrays(arrow_buffers.from_bytes(arrays["rows"]), schema=self.schema.to_arrow())
        self._waiting.add(SignedBatch(arrays["until"], arrays["sign"], rows))

    def state_rows(self) -> int:
        return len(self._waiting)
