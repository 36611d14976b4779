"""As-of join: each left row with the nearest right row of equal keys, exact at every instant.

At every instant a left row's partner is, among the right rows with equal keys whose match value is not beyond the left one's, the nearest;
of several with the same match value the greatest, by the columns that `tie_sql` puts in order.  Both sides keep their rows, equal ones
once with a count, and for each key in match order (kernels/row_treap.py).  A left change costs O(log n), a right change also the left
rows that get another partner by it, whatever else is there.

Match values become two words each, such that the nearest is always the last that is not after the left one's:

    a >= b    as they are
    a <= b    both turned round: the least becomes the greatest
    a > b     the left one less by one: there is nothing between two words
    a < b     both

Left rows that can have no partner, because a key or the match value is NULL, are not kept: they stand beside NULLs, or nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch, merge_by_instant
from millstream.kernels import arrow_buffers, asof_matching
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.asof_matching import COUNT, KEY, LEFTS, MARK, RIGHTS
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.interner import Interner
from millstream.kernels.key_table import KeyTable
from millstream.kernels.row_treap import HIGH, LOW, NONE, TIE, WORDS
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.evaluator import Evaluator
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.operators.row_table import RowTable
from millstream.plan.logical import JoinKey, Match

_EVERYWHERE = pa.scalar(0, pa.int64())
"""The key of all rows where a join has no keys."""
_SIGN = np.int64(-(2**63))
_SLACK = 4096
"""Interned ties beyond twice the right rows that are not worth a sweep."""


class AsOfJoinOp:
    """Two inputs, so not an `Operator`, but the same contract.  The columns of a key, and those of the match, have the same type."""

    def __init__(
        self, left: Schema, right: Schema, keys: Sequence[JoinKey], match: Match, tie_sql: str | None, output: Schema,
        evaluator: Evaluator, *, keeps_left: bool,
    ) -> None:  # fmt: skip
        assert len(output) == len(left) + len(right)
        self.schema = output
        self._keeps_left = keeps_left
        self._key_table = KeyTable([left[key.left].type for key in keys] or [_EVERYWHERE.type])
        null_safe = [key.null_safe for key in keys]
        self._left = _Side(left, [key.left for key in keys], null_safe, match.left, forward=match.forward, less_by_one=match.strict)
        self._right = _Side(right, [key.right for key in keys], null_safe, match.right, forward=match.forward, less_by_one=False)
        self._ties = _Ties(tie_sql, evaluator) if tie_sql is not None else None
        self._keys: Ints = np.empty((0, 2), np.int64)

    def step(self, left: SignedBatch, right: SignedBatch) -> SignedBatch:
        left, lone = self._left.split(left)
        right, _ = self._right.split(right)
        left_codes, right_codes = self._encoded(left.rows, right.rows)
        changes = self._matched(left, left_codes, right, right_codes)
        self._forget(left_codes, right_codes)
        return merge_by_instant([changes, self._padded(lone)]) if self._keeps_left else changes

    def save(self) -> Arrays:
        return prefixed(self._left.save(), "left") | prefixed(self._right.save(), "right")

    def load(self, arrays: Arrays) -> None:
        left, right = self._left.load(without_prefix(arrays, "left")), self._right.load(without_prefix(arrays, "right"))
        left_codes, right_codes = self._encoded(left.rows, right.rows)
        self._matched(left, left_codes, right, right_codes)

    def state_rows(self) -> int:
        return len(self._left.table) + len(self._right.table)

    def _encoded(self, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[Ints, Ints]:
        """The codes of the rows, with all that the kernel wants to know of each of them in place."""
        left_codes = self._left.encode(left, self._key_table, None)
        right_codes = self._right.encode(right, self._key_table, self._ties.ids(right) if self._ties is not None else None)
        if self._key_table.capacity > len(self._keys):
            old, self._keys = self._keys, np.full((self._key_table.capacity, 2), NONE, np.int64)
            self._keys[: len(old)] = old
        return left_codes, right_codes

    def _matched(self, left: SignedBatch, left_codes: Ints, right: SignedBatch, right_codes: Ints) -> SignedBatch:
        arena, spans = self._ties.order if self._ties is not None else _NO_TIES
        found, sound = asof_matching.match(
            frozen(left_codes), frozen(left.instant), frozen(left.sign), frozen(right_codes), frozen(right.instant), frozen(right.sign),
            self._left.rows, self._right.rows, self._keys, arena, spans, self._keeps_left,
        )  # fmt: skip
        if not sound:
            raise InternalError("a side of an as-of join was asked to give back a row that it never got")
        mine, theirs, sign, instant = found.T.copy()
        columns = [*self._left.table.columns(mine), *_with_nulls(self._right.table, theirs)]
        return SignedBatch(instant, sign.astype(np.int8), pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))

    def _padded(self, lone: SignedBatch) -> SignedBatch:
        missing = [pa.nulls(len(lone), field.type) for field in self.schema.fields[lone.rows.num_columns :]]
        return lone.with_rows(pa.RecordBatch.from_arrays([*lone.rows.columns, *missing], schema=self.schema.to_arrow()))

    def _forget(self, left_codes: Ints, right_codes: Ints) -> None:
        """Rows that are not there any more, and keys that no row has any more."""
        touched = np.unique(np.concatenate([self._left.rows[left_codes, KEY], self._right.rows[right_codes, KEY]]))
        self._left.forget(left_codes)
        self._right.forget(right_codes)
        gone = (self._keys[touched, LEFTS] == NONE) & (self._keys[touched, RIGHTS] == NONE)
        self._key_table.release(touched[gone])
        if self._ties is not None:
            self._ties.maybe_sweep(self._right)


class _Side:
    def __init__(
        self, schema: Schema, keys: Sequence[str], null_safe: Sequence[bool], match_column: str, *, forward: bool, less_by_one: bool
    ) -> None:
        self._key_columns = keys
        self._match_column, self._forward, self._less_by_one = match_column, forward, less_by_one
        self._never_null = [match_column, *(name for name, safe in zip(keys, null_safe, strict=True) if not safe)]
        self.table = RowTable(schema)
        self.rows: Ints = np.empty((0, WORDS), np.int64)

    def split(self, batch: SignedBatch) -> tuple[SignedBatch, SignedBatch]:
        """The changes that can have a partner, and those that cannot."""
        return batch.split_by_null(self._never_null)

    def encode(self, rows: pa.RecordBatch, key_table: KeyTable, ties: Ints | None) -> Ints:
        codes = self.table.encode(rows)
        if self.table.capacity > len(self.rows):
            old, self.rows = self.rows, np.full((self.table.capacity, WORDS), NONE, np.int64)
            self.rows[:, COUNT] = self.rows[:, MARK] = 0
            self.rows[: len(old)] = old
        self.rows[codes, KEY] = key_table.encode(self._key_values(rows))
        self.rows[codes, HIGH], self.rows[codes, LOW] = self._words(rows.column(self._match_column))
        if ties is not None:
            self.rows[codes, TIE] = ties
        return codes

    def forget(self, codes: Ints) -> None:
        self.table.release(asof_matching.gone(frozen(codes), self.rows))

    def save(self) -> Arrays:
        arrays: Arrays = {"counts": self.rows[self.table.live_codes(), COUNT]}
        return arrays | prefixed(self.table.save(), "rows")

    def load(self, arrays: Arrays) -> SignedBatch:
        """Into a fresh side: its rows, as often as they were there, as arrivals."""
        self.table.load(without_prefix(arrays, "rows"))
        copies = np.repeat(self.table.live_codes(), arrays["counts"])
        return SignedBatch.arrivals(np.zeros(len(copies), np.int64), self.table.rows(copies))

    def _key_values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self._key_columns] or [pa.repeat(_EVERYWHERE, rows.num_rows)]

    def _words(self, values: pa.Array) -> tuple[Ints, Ints]:
        values = arrow_buffers.plain(values)
        if arrow_buffers.is_wide_decimal(values.type):
            both = arrow_buffers.decimal_words(values)
            high, low = both[:, 1], both[:, 0] ^ _SIGN  # the low word has no sign of its own
        else:
            high, low = SortKeys(values.type).keys(values), np.zeros(len(values), np.int64)
        if self._forward:
            high, low = ~high, ~low
        if self._less_by_one:
            high, low = high - (low == _SIGN), low - 1  # wraps round where it borrows
        return high, low


class _Ties:
    """The order among right rows of equal match value: byte strings that compare as the rows do."""

    def __init__(self, sql: str, evaluator: Evaluator) -> None:
        self._columns = [("tie", sql, pa.binary())]
        self._evaluator = evaluator
        self._interner = Interner()
        self._worth_a_sweep = _SLACK

    @property
    def order(self) -> tuple[Bytes, Ints]:
        return self._interner.arena, self._interner.spans

    def ids(self, rows: pa.RecordBatch) -> Ints:
        return self._interner.intern(*arrow_buffers.byte_ranges(self._evaluator.project(rows, self._columns).column(0)), ALL_VALID)

    def maybe_sweep(self, side: _Side) -> None:
        if len(self._interner) > self._worth_a_sweep:
            used = side.rows[side.table.live_codes(), TIE]
            self._interner.sweep(used)
            self._worth_a_sweep = 2 * len(used) + _SLACK


_NO_TIES = (Interner().arena, Interner().spans)


def _with_nulls(table: RowTable, codes: Ints) -> list[pa.Array]:
    """The columns behind the codes, NULL where there is none."""
    there = codes != NONE
    if there.all():
        return table.columns(codes)
    places = pa.array(np.cumsum(there) - 1, mask=~there)
    return [column.take(places) for column in table.columns(codes[there])]
