"""Inner join on equal keys: pairs of rows, one of each side, exact at every instant.

A bag that changes is a sum of its changes, and a join is linear in both of its sides.  So the changes of both sides are taken one
after the other in the order of time, and each meets what the other side holds at that moment:

    a change of a row, with sign a, and b copies of a row on the other side make b changes of the pair, with sign a

Each side keeps its rows, equal ones once with a count, linked by key.  A step costs its changes and the pairs it makes, however
many rows of one key come and go in it.  The output is not netted: a row may leave as its partner comes.

All pairs of a step may be far more than a condition on them lets through, or than an aggregate makes of them.  So `pieces` gives
them a bounded number at a time, for whoever above does not need them all at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, Signs
from millstream.kernels import join_lists
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Ints
from millstream.kernels.join_lists import COPIES, COUNT, LEFTS, PARTNER, RIGHTS
from millstream.kernels.key_table import KeyTable
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.operators.row_table import RowTable
from millstream.plan.logical import JoinKey

_EVERYWHERE = pa.scalar(0, pa.int64())
"""The key of all rows where a join has no keys."""

MOST_PAIRS = 1 << 18
"""In one piece."""


class JoinOp:
    """Two inputs, so not an `Operator`, but the same contract.  The columns of a key have the same type on both sides."""

    def __init__(self, left: Schema, right: Schema, keys: Sequence[JoinKey], output: Schema) -> None:
        assert len(output) == len(left) + len(right)
        self.schema = output
        self._keys = KeyTable([left[key.left].type for key in keys] or [_EVERYWHERE.type])
        null_safe = [key.null_safe for key in keys]
        self._left = _Side(left, [key.left for key in keys], null_safe)
        self._right = _Side(right, [key.right for key in keys], null_safe)

    def step(self, left: SignedBatch, right: SignedBatch) -> SignedBatch:
        (all_pairs,) = self.pieces(left, right, sys.maxsize)
        return all_pairs

    def pieces(self, left: SignedBatch, right: SignedBatch, most_pairs: int) -> Iterator[SignedBatch]:
        """The changes of a step, some at a time, in order; an instant may go on in the next piece.  To be read to the end."""
        one, other = self._left.keyed(left, self._keys), self._right.keyed(right, self._keys)
        self._reserve_keys()
        changes = (
            one.row, one.key, one.instant, one.sign, self._left.counts, self._left.keys,
            other.row, other.key, other.instant, other.sign, self._right.counts, self._right.keys,
        )  # fmt: skip
        place, more = join_lists.first_place(), True
        while more:
            meet = join_lists.meet if place[PARTNER] < 0 else join_lists.meet_long
            left_row, right_row, instant, sign = meet(*changes, place, most_pairs)
            columns = [*self._left.columns(left_row), *self._right.columns(right_row)]
            more = place[LEFTS] < len(one.row) or place[RIGHTS] < len(other.row)
            if not more:
                self._forget(one, other)
            yield SignedBatch(instant, sign, pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))

    def save(self) -> Arrays:
        return prefixed(self._left.save(), "left") | prefixed(self._right.save(), "right")

    def load(self, arrays: Arrays) -> None:
        self._left.load(without_prefix(arrays, "left"), self._keys)
        self._right.load(without_prefix(arrays, "right"), self._keys)
        self._reserve_keys()

    def state_rows(self) -> int:
        return self._left.rows + self._right.rows

    def _forget(self, one: _Keyed, other: _Keyed) -> None:
        """What is not there any more after these changes."""
        self._left.forget(one)
        self._right.forget(other)
        self._keys.release(join_lists.forsaken(one.key, other.key, self._left.keys, self._right.keys))

    def _reserve_keys(self) -> None:
        self._left.reserve_keys(self._keys.capacity)
        self._right.reserve_keys(self._keys.capacity)


@dataclass(frozen=True)
class _Keyed:
    """Changes of one side that have a key: the codes of their rows and keys, when, and with which sign."""

    row: Ints
    key: Ints
    instant: Instants
    sign: Signs


class _Side:
    def __init__(self, schema: Schema, key_columns: Sequence[str], null_safe: Sequence[bool]) -> None:
        self._key_columns = key_columns
        self._never_null = [name for name, safe in zip(key_columns, null_safe, strict=True) if not safe]
        self._table = RowTable(schema)
        self.counts: Ints = np.full((0, 4), -1, np.int64)
        self.keys: Ints = np.full((0, 2), -1, np.int64)

    @property
    def rows(self) -> int:
        return len(self._table)

    def keyed(self, batch: SignedBatch, table: KeyTable) -> _Keyed:
        """The changes that can have a partner."""
        batch, _ = batch.split_by_null(self._never_null)
        key = frozen(table.encode(self._key_values(batch.rows)))
        return _Keyed(frozen(self._encode(batch.rows)), key, frozen(batch.instant), frozen(batch.sign))

    def forget(self, changes: _Keyed) -> None:
        """Rows that are not there any more."""
        self._table.release(join_lists.unlinked(changes.row, self.counts))

    def columns(self, codes: Ints) -> list[pa.Array]:
        return self._table.columns(codes)

    def reserve_keys(self, capacity: int) -> None:
        if capacity > len(self.keys):
            old, self.keys = self.keys, np.full((capacity, 2), -1, np.int64)
            self.keys[:, COPIES] = 0
            self.keys[: len(old)] = old

    def save(self) -> Arrays:
        arrays: Arrays = {"counts": self.counts[self._table.live_codes(), COUNT]}
        return arrays | prefixed(self._table.save(), "rows")

    def load(self, arrays: Arrays, table: KeyTable) -> None:
        self._table.load(without_prefix(arrays, "rows"))
        codes = self._table.live_codes()
        self._reserve_rows()
        key = table.encode(self._key_values(self._table.rows(codes)))
        self.reserve_keys(table.capacity)
        counts = arrays["counts"]
        order = np.repeat(np.arange(len(codes)), np.abs(counts))
        sign = frozen(np.sign(counts[order]).astype(np.int8))
        join_lists.apply_changes(frozen(codes[order]), frozen(key[order]), sign, self.counts, self.keys)

    def _encode(self, rows: pa.RecordBatch) -> Ints:
        codes = self._table.encode(rows)
        self._reserve_rows()
        return codes

    def _reserve_rows(self) -> None:
        if self._table.capacity > len(self.counts):
            old, self.counts = self.counts, np.full((self._table.capacity, 4), -1, np.int64)
            self.counts[:, COUNT] = 0
            self.counts[: len(old)] = old

    def _key_values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self._key_columns] or [pa.repeat(_EVERYWHERE, rows.num_rows)]
