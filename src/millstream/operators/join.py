"""Inner join on equal keys: pairs of rows, one of each side, exact at every instant.

A bag that changes is a sum of its changes, and a join is linear in both of its sides.  So the changes of both sides are taken one
after the other in the order of time, and each meets what the other side holds at that moment:

    a change of a row, with sign a, and b copies of a row on the other side make b changes of the pair, with sign a

Each side keeps its rows, equal ones once with a count, linked by key.  A step costs its changes and the pairs it makes, however
many rows of one key come and go in it.  The output is not netted: a row may leave as its partner comes.

Where rows end by themselves (see signed_batch.py), a join need not be told: it takes them out when their time has come, without
looking for their partners again, and says of each pair when the first of its rows ends.  For whoever waits for such ends there
are messages: the instants at which some pairs have ended.  Who holds pairs until they end holds all of them, so a join whose
pairs get too many (`most_ending`) goes over to taking each pair back itself, for good; its pairs are then marked as EXACT.

All pairs of a step may be far more than a condition on them lets through, or than an aggregate makes of them.  So `pieces` gives
them a bounded number at a time, for whoever above does not need them all at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.core.instant import EXACT, GONE_NEVER, NEVER_BEFORE, Micros
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import Instants, SignedBatch, Signs, merge_by_instant
from millstream.kernels import join_lists
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Ints
from millstream.kernels.join_lists import (
    ALIVE,
    COPIES,
    COUNT,
    ENDED,
    LEFTS,
    PARTNER,
    PLACES,
    PLACES_WITH_ENDS,
    RESULTS,
    RIGHTS,
    TOLD,
    UNTIL,
)
from millstream.kernels.key_table import KeyTable
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.operators.pending import PendingRows
from millstream.operators.row_table import RowTable
from millstream.plan.logical import JoinKey

_EVERYWHERE = pa.scalar(0, pa.int64())
"""The key of all rows where a join has no keys."""

MOST_PAIRS = 1 << 18
"""In one piece."""
MOST_ENDING = 1 << 22
"""Pairs that somebody else holds until they end."""
_UNTIL = Field("until", pa.int64())
_CODES = Schema((Field("row", pa.int64()), Field("key", pa.int64())))


class JoinOp:
    """Two inputs, so not an `Operator`, but the same contract.  The columns of a key have the same type on both sides."""

    def __init__(
        self, left: Schema, right: Schema, keys: Sequence[JoinKey], output: Schema, *,
        with_ends: bool = False, tells_ends: bool = False, most_ending: int | None = None, gives: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """`with_ends`: rows may end by themselves, and pairs say when they do; a `most_ending` of None is without a limit.

        The output has the columns `gives` of the sides, or all of them.
        """
        names = [*left.names, *right.names]
        self._gives = [names.index(name) for name in gives] if gives is not None else list(range(len(names)))
        self._from_left = sorted({place for place in self._gives if place < len(left)})
        self._from_right = sorted({place - len(left) for place in self._gives if place >= len(left)})
        made = [*self._from_left, *(place + len(left) for place in self._from_right)]
        self._order = [made.index(place) for place in self._gives]
        assert len(output) == len(self._gives)
        self.schema = output
        self._with_ends, self._tells_ends, self._most_ending = with_ends, tells_ends, most_ending
        self._ending = 0  # pairs that somebody holds until they end
        self._is_exact = not with_ends
        self._messages: Instants = np.empty(0, np.int64)
        self._keys = KeyTable([left[key.left].type for key in keys] or [_EVERYWHERE.type])
        null_safe = [key.null_safe for key in keys]
        self._left = _Side(left, [key.left for key in keys], null_safe, with_ends=with_ends)
        self._right = _Side(right, [key.right for key in keys], null_safe, with_ends=with_ends)

    def step(self, left: SignedBatch, right: SignedBatch, upto: Micros = NEVER_BEFORE) -> SignedBatch:
        """Up to which instant matters only where rows end by themselves."""
        (all_pairs,) = self.pieces(left, right, upto, sys.maxsize)
        return all_pairs

    def pieces(self, left: SignedBatch, right: SignedBatch, upto: Micros, most_pairs: int) -> Iterator[SignedBatch]:
        """The changes of a step, some at a time, in order; an instant may go on in the next piece.  To be read to the end."""
        one, other = self._left.keyed(left, self._keys), self._right.keyed(right, self._keys)
        self._reserve_keys()
        if self._with_ends:
            self._maybe_become_exact(one, other)
            one, other = (
                self._left.with_ends(one, upto, is_change=self._is_exact),
                self._right.with_ends(other, upto, is_change=self._is_exact),
            )
        silent = self._with_ends and not self._is_exact
        messages = np.empty(len(one.row) + len(other.row) if silent else 0, np.int64)
        changes = (
            one.row, one.key, one.instant, one.sign, self._left.counts, self._left.keys,
            other.row, other.key, other.instant, other.sign, self._right.counts, self._right.keys,
        )  # fmt: skip
        place, more = join_lists.first_place(), True
        while more:
            noted = place[TOLD]
            meet = join_lists.meet if place[PARTNER] < 0 else join_lists.meet_long
            left_row, right_row, instant, sign = meet(*changes, place, most_pairs, silent, messages)
            made = [*self._left.columns(left_row, self._from_left), *self._right.columns(right_row, self._from_right)]
            columns = [made[place] for place in self._order]
            until = self._until(left_row, right_row) if self._with_ends else None
            more = place[LEFTS] < len(one.row) or place[RIGHTS] < len(other.row)
            if not more:
                self._forget(one, other)
                self._ending += int(place[ALIVE])
            if self._tells_ends:
                self._messages = messages[noted : place[TOLD]]
            yield SignedBatch(instant, sign, pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()), until)

    def take_messages(self) -> Instants:
        """The instants at which pairs have ended up to the last piece, each once, for who wants to be told."""
        taken, self._messages = self._messages, self._messages[:0]
        return taken

    def save(self) -> Arrays:
        arrays: Arrays = {"ending": np.array([self._ending, self._is_exact])} if self._with_ends else {}
        return arrays | prefixed(self._left.save(), "left") | prefixed(self._right.save(), "right")

    def load(self, arrays: Arrays) -> None:
        self._left.load(without_prefix(arrays, "left"), self._keys)
        self._right.load(without_prefix(arrays, "right"), self._keys)
        self._reserve_keys()
        if self._with_ends:
            self._ending, self._is_exact = int(arrays["ending"][0]), bool(arrays["ending"][1])

    def state_rows(self) -> int:
        return self._left.rows + self._right.rows

    def _maybe_become_exact(self, one: _Keyed, other: _Keyed) -> None:
        if self._is_exact or self._most_ending is None:
            return
        seen = np.zeros(self._keys.capacity, np.int64)
        if self._ending + join_lists.most_pairs(one.key, other.key, self._left.keys, self._right.keys, seen) > self._most_ending:
            self._is_exact = True

    def _until(self, left: Ints, right: Ints) -> Instants:
        if self._is_exact:
            return np.full(len(left), EXACT, np.int64)
        until: Instants = np.minimum(self._left.counts[left, UNTIL], self._right.counts[right, UNTIL])
        return until

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
    def __init__(self, schema: Schema, key_columns: Sequence[str], null_safe: Sequence[bool], *, with_ends: bool) -> None:
        self._key_columns = key_columns
        self._never_null = [name for name, safe in zip(key_columns, null_safe, strict=True) if not safe]
        self._with_ends = with_ends
        # rows that end at different instants are different rows
        self._table = RowTable(Schema((*schema.fields, _UNTIL)) if with_ends else schema)
        self._to_end = PendingRows(_CODES)
        self.counts: Ints = np.full((0, PLACES_WITH_ENDS if with_ends else PLACES), -1, np.int64)
        self.keys: Ints = np.full((0, 2), -1, np.int64)

    @property
    def rows(self) -> int:
        return len(self._table)

    def keyed(self, batch: SignedBatch, table: KeyTable) -> _Keyed:
        """The changes that can have a partner."""
        batch, _ = batch.split_by_null(self._never_null)
        key = frozen(table.encode(self._key_values(batch.rows)))
        row = frozen(self._encode(batch))
        return _Keyed(row, key, frozen(batch.instant), frozen(batch.sign))

    def with_ends(self, changes: _Keyed, upto: Micros, *, is_change: bool) -> _Keyed:
        """The changes, and the ends of rows up to this instant; whether these are changes like others."""
        until = self.counts[changes.row, UNTIL]
        codes = pa.RecordBatch.from_arrays([pa.array(changes.row), pa.array(changes.key)], schema=_CODES.to_arrow())
        mortal = until < GONE_NEVER
        self._to_end.add(SignedBatch(until, -changes.sign, codes).filter(mortal))
        ended = _netted(self._to_end.release(upto))
        if not len(ended):
            return changes
        if not is_change:
            ended = SignedBatch(ended.instant, ended.sign * np.int8(-ENDED), ended.rows)
        both = merge_by_instant([ended, SignedBatch(changes.instant, changes.sign, codes)])
        row, key = (frozen(column.to_numpy()) for column in both.rows.columns)
        return _Keyed(row, key, frozen(both.instant), frozen(both.sign))

    def forget(self, changes: _Keyed) -> None:
        """Rows that are not there any more."""
        self._table.release(join_lists.unlinked(changes.row, self.counts))

    def columns(self, codes: Ints, places: Sequence[int]) -> list[pa.Array]:
        return self._table.columns(codes, places) if places else []

    def reserve_keys(self, capacity: int) -> None:
        if capacity > len(self.keys):
            old, self.keys = self.keys, np.full((capacity, 2), -1, np.int64)
            self.keys[:, COPIES] = 0
            self.keys[: len(old)] = old

    def save(self) -> Arrays:
        codes = self._table.live_codes()
        arrays: Arrays = {"counts": self.counts[codes, COUNT]}
        if self._with_ends:
            arrays["results"] = self.counts[codes, RESULTS]
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
        if self._with_ends:
            until = self._table.columns(codes)[-1].to_numpy()
            self.counts[codes, UNTIL], self.counts[codes, RESULTS] = until, arrays["results"]
            rows = pa.RecordBatch.from_arrays([pa.array(codes[order]), pa.array(key[order])], schema=_CODES.to_arrow())
            self._to_end.add(SignedBatch(until[order], -sign, rows).filter(until[order] < GONE_NEVER))

    def _encode(self, batch: SignedBatch) -> Ints:
        rows = batch.rows
        if self._with_ends:
            rows = pa.RecordBatch.from_arrays([*rows.columns, pa.array(batch.ends)], schema=self._table.schema.to_arrow())
        codes = self._table.encode(rows)
        self._reserve_rows()
        if self._with_ends:
            self.counts[codes, UNTIL] = batch.ends
        return codes

    def _reserve_rows(self) -> None:
        if self._table.capacity > len(self.counts):
            old, self.counts = self.counts, np.full((self._table.capacity, self.counts.shape[1]), -1, np.int64)
            self.counts[:, COUNT] = 0
            if self._with_ends:
                self.counts[:, RESULTS] = 0
            self.counts[: len(old)] = old

    def _key_values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self._key_columns] or [pa.repeat(_EVERYWHERE, rows.num_rows)]


def _netted(ended: SignedBatch) -> SignedBatch:
    """Ends of rows that are there: one that was taken back before its time does not end."""
    if not len(ended) or (ended.sign < 0).all():
        return ended
    row = ended.rows.column(0).to_numpy()
    order = np.lexsort((row, ended.instant))
    starts = np.flatnonzero(np.r_[True, (np.diff(row[order]) != 0) | (np.diff(ended.instant[order]) != 0)])
    total = np.add.reduceat(ended.sign[order].astype(np.int64), starts)
    return ended.take(np.repeat(order[starts], np.abs(total))).with_signs(np.sign(np.repeat(total, np.abs(total))).astype(np.int8))
