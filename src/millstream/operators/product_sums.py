"""COUNT and SUM by the key of a join, over all combinations of its rows, without making these: exact at every instant.

    SELECT a.k, sum(c.v), count(*) FROM a [RANGE 5 MINUTES] JOIN b [..] ON a.k = b.k JOIN c [..] ON b.k = c.k GROUP BY a.k

All rows of a group have the same key, so each row of a side meets each of the others: the group has as many rows as the numbers of rows of
the sides multiplied, and a sum over them is the sum over one side, times the rows of the others (kernels/product_sums.py).

A step costs its changes, whatever partners they have.  A key's group lives while all sides have rows of it.  The output is netted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError, QueryFailed
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels import product_sums
from millstream.kernels.arrow_buffers import from_words, frozen, plain, valid_mask, words
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.product_sums import COUNT, COUNTS, HELD, NEVER_THERE, SUM, TOO_MANY
from millstream.operators.aggregates.aggregate import grown
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.plan.physical import ProductCall


class ProductSumsOp:
    """Several inputs, so not an `Operator`, but the same contract."""

    def __init__(self, sides: Sequence[Schema], keys: Sequence[tuple[str, ...]], calls: Sequence[ProductCall], output: Schema) -> None:
        """`keys` are the columns of each side that have to be equal; the output begins with them."""
        self.schema = output
        self._keys, self._calls = keys, calls
        self._table = KeyTable([sides[0][name].type for name in keys[0]])
        held = [call.side >= 0 for call in calls]
        places = COUNTS + len(sides) + HELD * (np.cumsum(held) - 1)
        kinds = [SUM if call.function == "sum" else COUNT for call in calls]
        self._what = np.array([*zip(kinds, [call.side for call in calls], places, strict=True)], np.int64).reshape(-1, 3)
        width = COUNTS + len(sides) + HELD * sum(held)
        self._states: Ints = np.zeros((0, -(-width // 8) * 8), np.int64)  # whole cache lines
        self._turn = 0

    def step(self, *batches: SignedBatch) -> SignedBatch:
        batches = tuple(batch.split_by_null(names)[0] for batch, names in zip(batches, self._keys, strict=True))
        many = sum(map(len, batches))
        if not many:
            return SignedBatch.empty(self.schema)
        key = np.concatenate([self._encoded(batch, names) for batch, names in zip(batches, self._keys, strict=True)])
        self._states = grown(self._states, self._table.capacity)
        instant, sign = np.concatenate([batch.instant for batch in batches]), np.concatenate([batch.sign for batch in batches])
        starts = np.cumsum([0, *map(len, batches)])
        at, signs, keys = np.empty(2 * many, np.int64), np.empty(2 * many, np.int8), np.empty(2 * many, np.int64)
        found, there = np.empty((len(self._calls), 2 * many), np.int64), np.empty((len(self._calls), 2 * many), np.uint8)
        n, self._turn, fault = product_sums.multiply(
            instant,
            key,
            sign,
            starts,
            *self._arguments(batches, starts),
            self._what,
            self._states,
            self._turn,
            at,
            signs,
            keys,
            found,
            there,
        )
        _check(fault)
        rows = self._rows(keys[:n], found[:, :n], there[:, :n])
        gone, sound = product_sums.forsaken(key, sign, len(batches), self._states)
        _check(NEVER_THERE if not sound else fault)
        self._table.release(gone)
        return SignedBatch(at[:n], signs[:n], rows)

    def contents(self) -> pa.RecordBatch:
        """The groups as they are."""
        codes = self._table.live_codes()
        found, there = np.empty((len(self._calls), len(codes)), np.int64), np.empty((len(self._calls), len(codes)), np.uint8)
        some = np.flatnonzero(product_sums.results(codes, len(self._keys), self._what, self._states, found, there))
        return self._rows(codes[some], found[:, some], there[:, some])

    def save(self) -> Arrays:
        return {"states": self._states[self._table.live_codes()]} | prefixed(self._table.save(), "keys")

    def load(self, arrays: Arrays) -> None:
        self._table.load(without_prefix(arrays, "keys"))
        self._states = grown(self._states, self._table.capacity)
        states = arrays["states"]
        self._states[: len(states)] = states
        self._turn = int(states[:, product_sums.TURN].max(initial=0))

    def state_rows(self) -> int:
        return len(self._table)

    def _rows(self, keys: Ints, words: Ints, there: Bytes) -> pa.RecordBatch:
        columns = self._table.decode(frozen(keys))
        columns += [from_words(frozen(words[i]), frozen(there[i]), call.type) for i, call in enumerate(self._calls)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow())

    def _encoded(self, batch: SignedBatch, names: Sequence[str]) -> Ints:
        return self._table.encode([batch.rows.column(name) for name in names])

    def _arguments(self, batches: Sequence[SignedBatch], starts: Ints) -> tuple[Ints, Bytes]:
        """Of each call what it adds up; nothing where the change is of another side."""
        values, valid = np.empty((len(self._calls), starts[-1]), np.int64), np.empty((len(self._calls), starts[-1]), np.uint8)
        for i, call in enumerate(self._calls):
            if call.side >= 0:
                column, mine = plain(batches[call.side].rows.column(call.column)), slice(starts[call.side], starts[call.side + 1])
                mask = valid_mask(column)
                values[i, mine] = words(column) if call.function == "sum" else 0
                valid[i, mine] = mask if len(mask) else 1
        return values, valid


def _check(fault: int) -> None:
    if fault == NEVER_THERE:
        raise InternalError("a group was asked to give back a row that it never got")
    if fault == TOO_MANY:
        raise QueryFailed(
            "rows with one key have more partners than BIGINT can count",
            hint="Give the join smaller windows, or a condition besides its key.",
        )
