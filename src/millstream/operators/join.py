"""Inner join on equal keys: pairs of rows, one of each side, exact at every instant.

A bag that changes is a sum of its changes, and a join is linear in both of its sides.  So a change of the left at t1 and a change
of the right at t2, with signs a and b, make a change of the pair at max(t1, t2) with sign a * b, and what a step adds is

    left changes with right rows of before   at the left's instant
    right changes with left rows of before   at the right's instant
    left changes with right changes          at the later of the two

Each side keeps its rows, equal ones once with a count, linked by key.  A step costs its changes and the pairs it makes.
The output is not netted: a row may leave as its partner comes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, Signs, merge_by_instant
from millstream.kernels import join_lists
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Ints
from millstream.kernels.join_lists import COPIES, COUNT, HEAD
from millstream.kernels.key_table import KeyTable
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.operators.row_table import RowTable
from millstream.plan.logical import JoinKey

_EVERYWHERE = pa.scalar(0, pa.int64())
"""The key of all rows where a join has no keys."""


class JoinOp:
    """Two inputs, so not an `Operator`, but the same contract.  The columns of a key have the same type on both sides."""

    def __init__(self, left: Schema, right: Schema, keys: Sequence[JoinKey], output: Schema) -> None:
        assert len(output) == len(left) + len(right)
        self.schema = output
        self._keys = KeyTable([left[key.left].type for key in keys] or [_EVERYWHERE.type])
        null_safe = [key.null_safe for key in keys]
        self._left = _Side(left, [key.left for key in keys], null_safe)
        self._right = _Side(right, [key.right for key in keys], null_safe)
        self._latest: Ints = np.empty(0, np.int64)

    def step(self, left: SignedBatch, right: SignedBatch) -> SignedBatch:
        left_changes, right_changes = self._left.keyed(left, self._keys), self._right.keyed(right, self._keys)
        self._reserve_keys()
        found = [
            self._joined(left_changes.with_rows_of(self._right)),
            self._joined(right_changes.with_rows_of(self._left), swap=True),
            self._joined(left_changes.with_changes(right_changes, self._latest)),
        ]
        self._left.apply(left_changes)
        self._right.apply(right_changes)
        self._forget(np.concatenate([left_changes.key, right_changes.key]))
        return merge_by_instant([_by_instant(part) for part in found])

    def save(self) -> Arrays:
        return prefixed(self._left.save(), "left") | prefixed(self._right.save(), "right")

    def load(self, arrays: Arrays) -> None:
        self._left.load(without_prefix(arrays, "left"), self._keys)
        self._right.load(without_prefix(arrays, "right"), self._keys)
        self._reserve_keys()

    def state_rows(self) -> int:
        return self._left.rows + self._right.rows

    def _joined(self, pairs: _Pairs, *, swap: bool = False) -> SignedBatch:
        first, second = (pairs.matched, pairs.own) if swap else (pairs.own, pairs.matched)
        rows = pa.RecordBatch.from_arrays([*first, *second], schema=self.schema.to_arrow())
        return SignedBatch(pairs.instant, pairs.sign, rows)

    def _reserve_keys(self) -> None:
        self._left.reserve_keys(self._keys.capacity)
        self._right.reserve_keys(self._keys.capacity)
        if self._keys.capacity > len(self._latest):
            self._latest = np.full(self._keys.capacity, -1, np.int64)

    def _forget(self, keys: Ints) -> None:
        """Keys that no row of either side has any more."""
        touched = np.unique(keys)
        gone = (self._left.keys[touched, HEAD] < 0) & (self._right.keys[touched, HEAD] < 0)
        self._keys.release(touched[gone])


class _Pairs:
    """Pairs that a step found: the columns of the side that changed, those of the other side, and when."""

    def __init__(self, own: list[pa.Array], matched: list[pa.Array], instant: Instants, sign: Signs) -> None:
        self.own, self.matched, self.instant, self.sign = own, matched, instant, sign


class _Keyed:
    """Changes of one side that have a key, with its code."""

    def __init__(self, batch: SignedBatch, key: Ints) -> None:
        self.batch, self.key = batch, key
        self.instant, self.sign = frozen(batch.instant), frozen(batch.sign)

    def with_rows_of(self, other: _Side) -> _Pairs:
        n = join_lists.count_matches(self.key, other.keys)
        change, match, sign = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8)
        join_lists.find_matches(self.key, self.sign, other.counts, other.keys, change, match, sign)
        return _Pairs(self.columns(change), other.columns(match), self.batch.instant[change], sign)

    def with_changes(self, other: _Keyed, latest: Ints) -> _Pairs:
        """`latest` is room for one number per key, -1 before and after."""
        earlier = np.empty(len(other.key), np.int64)
        join_lists.chain_by_key(other.key, latest, earlier)
        n = join_lists.count_pairs(self.key, latest, earlier)
        left, right, instant, sign = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8)
        join_lists.find_pairs(
            self.key, self.instant, self.sign, other.instant, other.sign, latest, earlier, left, right, instant, sign
        )  # fmt: skip
        join_lists.unchain(other.key, latest)
        return _Pairs(self.columns(left), other.columns(right), instant, sign)

    def columns(self, places: Ints) -> list[pa.Array]:
        columns: list[pa.Array] = self.batch.rows.take(pa.array(places)).columns
        return columns


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
        for name in self._never_null:
            column = batch.rows.column(name)
            if column.null_count:
                batch = batch.take(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)))
        return _Keyed(batch, frozen(table.encode(self._key_values(batch.rows))))

    def apply(self, changes: _Keyed) -> None:
        codes = frozen(self._encode(changes.batch.rows))
        join_lists.apply_changes(codes, changes.key, changes.sign, self.counts, self.keys)
        self._table.release(join_lists.unlinked(codes, self.counts))

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


def _by_instant(changes: SignedBatch) -> SignedBatch:
    if (changes.instant[1:] >= changes.instant[:-1]).all():
        return changes
    return changes.take(np.argsort(changes.instant, kind="stable"))
