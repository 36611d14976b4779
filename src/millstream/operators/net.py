"""Netting: a row that both leaves and enters at one instant has not changed.

Rows are equal as in GROUP BY (NULL equals NULL, NaN equals NaN, -0.0 equals 0.0), whatever their
types; where they say when they end, that is part of them.  Only instants that hold both signs are
looked at, so that nothing is paid where there is nothing to net, and of those only the rows whose
numbers, dates and instants are also those of a row of the other sign: wide rows are seldom compared
in full.  Keeps no state.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels.arrow_buffers import frozen, is_word, valid_mask, words
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.netting import doubtful, mix_in, mixed_instants, survivors
from millstream.operators.operator import Contents, Operator


class NetOp(Operator):
    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        return netted(batch)

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        return input_contents()


def netted(batch: SignedBatch) -> SignedBatch:
    suspects = _suspects(batch)
    if not len(suspects):
        return batch
    keep = np.ones(len(batch), np.bool_)
    among = batch.take(suspects)
    keep[suspects] = survivors(frozen(among.instant), frozen(among.sign), *_codes(among)) == 1
    return batch if keep.all() else batch.take(np.flatnonzero(keep))


def _suspects(batch: SignedBatch) -> Ints:
    """The changes that may have one to cancel with."""
    instant, sign = frozen(batch.instant), frozen(batch.sign)
    mixed = mixed_instants(instant, sign)
    if not mixed.any():
        return np.empty(0, np.int64)
    hashes = np.zeros(len(batch), np.uint64)
    for column in batch.rows.columns:
        if is_word(column.type):
            mix_in(_words(column), hashes)
    if batch.until is not None:
        mix_in(frozen(batch.until), hashes)
    return np.flatnonzero(doubtful(instant, sign, frozen(hashes)))


def _words(column: pa.Array) -> Ints:
    """With 0 for NULL."""
    valid = valid_mask(column)
    return frozen(words(column) * valid) if len(valid) else words(column)


def _codes(batch: SignedBatch) -> tuple[Ints, int]:
    """Equal codes for equal rows, and how many there may be."""
    columns = batch.rows.columns if batch.until is None else [*batch.rows.columns, pa.array(batch.until)]
    if not columns:
        return np.zeros(len(batch), np.int64), 1
    table = KeyTable([column.type for column in columns])
    return table.encode(columns), table.capacity
