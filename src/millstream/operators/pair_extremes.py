"""MIN and MAX over the pairs of a join, by columns of one of its sides: exact at every instant, without making the pairs.

    SELECT a.g, max(b.v) FROM a [RANGE 5 MINUTES] JOIN b [RANGE 5 MINUTES] ON a.k = b.k GROUP BY a.g

Both sides say when their rows end, and rows end in the order in which they come, as out of a window.  So when a pair is made it is known
when it will end, and nearly always that it will never be the greatest of its group: another is no less and ends no sooner.  Such a pair is
forgotten at once, and nobody has to take it back (kernels/staircase.py).  And most pairs need not even be made: a row meets its partners
only while it is the greatest of its key (kernels/pair_extremes.py).

A step costs its rows, and a look at the partners of those that become the greatest of their keys, of which those of a group that came one
after the other count as one.  Where values come in random order a row in so many as a key has becomes the greatest, and then meets so
many, so the cost does not grow with the window; where they rise or fall each does, and meets a row of each group.  What is kept are the
rows of both sides and the few pairs that can still be the greatest.  A group lives while it has pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch
from millstream.kernels import pair_extremes, slots, staircase
from millstream.kernels.arrow_buffers import from_bytes, frozen, plain, to_bytes, valid_mask
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.pair_extremes import (
    CHARGED,
    CODES,
    GROUP_BITS,
    GROUP_OF,
    INSTANT,
    IS,
    NO_END,
    NOTED,
    PRESENT,
    RESULTS,
    TOP,
    TOP_ENDS,
    TOP_PRESENT,
    TOP_VALUE,
    UNTIL,
    VALUES,
    WAS,
    whole_lines,
)
from millstream.kernels.row_treap import NONE
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.aggregates.aggregate import Values, grown
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.plan.logical import AggregateCall, JoinKey

_EVERYWHERE = pa.scalar(0, pa.int64())
"""The key of all rows where a join has no keys."""
_SLACK = 1024
"""Codes beyond twice those in use that are not worth a sweep."""


class PairExtremesOp:
    """Two inputs, so not an `Operator`, but the same contract.  `groups` are columns of the first; names tell the sides apart."""

    def __init__(
        self, one: Schema, other: Schema, keys: Sequence[JoinKey], groups: Sequence[str], calls: Sequence[AggregateCall], output: Schema
    ) -> None:
        """`keys` name the columns of the first side as the left ones."""
        self.schema = output
        self._calls = [_Call(call, one if call.columns[0] in one.names else other) for call in calls]
        self._keys = _Codes([one[key.left].type for key in keys] or [_EVERYWHERE.type])
        self._groups = _Codes([one[name].type for name in groups])
        null_safe = [key.null_safe for key in keys]
        mine = [call for call in self._calls if call.column in one.names]
        theirs = [call for call in self._calls if call not in mine]
        self._one = _Side([key.left for key in keys], null_safe, groups, mine, VALUES + len(mine) + 1)
        self._other = _Side([key.right for key in keys], null_safe, (), theirs, VALUES + 3 * len(theirs))
        self._own = np.array([mine.index(call) if call in mine else -1 - theirs.index(call) for call in self._calls], np.int64)
        self._place = pair_extremes.first_place()
        self._partners = pair_extremes.no_keys(len(calls))
        self._steps = staircase.new_steps()
        self._tops: Ints = np.empty((0, TOP * len(calls)), np.int64)
        self._turns: Ints = np.empty(0, np.int64)
        self._noted: Ints = np.empty((1024, RESULTS + 4 * len(calls)), np.int64)

    def step(self, one: SignedBatch, other: SignedBatch, upto: Micros) -> SignedBatch:
        mine, theirs = (side.entering(batch, self._keys, self._groups) for side, batch in ((self._one, one), (self._other, other)))
        noted = self._followed(mine, theirs, upto, is_silent=False)
        out = self._changes(noted) if len(noted) else SignedBatch.empty(self.schema)
        self._sweep()
        return out

    def contents(self) -> pa.RecordBatch:
        """The groups that have pairs, as they are."""
        groups = self._groups.table.live_codes()
        groups = groups[groups < len(self._tops)]
        groups = groups[self._tops[groups, TOP_ENDS] != NO_END]
        columns = self._groups.table.decode(groups)
        for place, call in enumerate(self._calls):
            words, valid = (self._tops[groups, TOP * place + what] for what in (TOP_VALUE, TOP_PRESENT))
            columns.append(call.values(frozen(words), frozen(valid.astype(np.uint8))))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow())

    def save(self) -> Arrays:
        """The rows of both sides, and which of them their keys offer: what can be the greatest follows from them."""
        first, stop, other_first, other_stop = self._place[:4].tolist()
        one = self._one.save(first, stop, self._keys, self._groups)
        other = self._other.save(other_first, other_stop, self._keys, self._groups)
        offered = pair_extremes.offered(self._partners, len(self._calls), self._other.keys(other_first, other_stop), other_first)
        return {"offered": _narrow(offered)} | prefixed(one, "one") | prefixed(other, "other")

    def load(self, arrays: Arrays) -> None:
        one = self._one.load(without_prefix(arrays, "one"), self._keys, self._groups)
        other = self._other.load(without_prefix(arrays, "other"), self._keys, self._groups)
        other.rows[:, CHARGED] = arrays["offered"]
        self._followed(one, other, 0, is_silent=True)

    def state_rows(self) -> int:
        first, stop, other_first, other_stop = self._place[:4].tolist()
        return int(stop - first + other_stop - other_first) + staircase.in_use(self._steps)

    def _followed(self, mine: _Entering, theirs: _Entering, upto: Micros, *, is_silent: bool) -> Ints:
        first, stop, other_first, other_stop = self._place[:4].tolist()
        self._one.reserve(first, stop, len(mine.rows))
        self._other.reserve(other_first, other_stop, len(theirs.rows))
        self._partners = grown(self._partners, self._keys.capacity, NONE)
        self._turns = grown(self._turns, self._groups.capacity)
        self._tops = pair_extremes.more_tops(self._tops, self._groups.capacity)
        pair_extremes.next_step(self._place)
        while not pair_extremes.follow(
            mine.instant, mine.rows, self._one.ring, theirs.instant, theirs.rows, self._other.ring, self._partners,
            self._place, upto, self._own, self._steps, self._tops, self._turns, self._noted, is_silent,
        ):  # fmt: skip
            if self._place[NOTED] == len(self._noted):
                self._noted = np.concatenate([self._noted, np.empty_like(self._noted)])
            else:
                self._steps = staircase.with_room(self._steps)
        return self._noted[: self._place[NOTED]]

    def _changes(self, noted: Ints) -> SignedBatch:
        """What was, and what is, of each group at each instant that touched it, where these differ."""
        changed = np.zeros(len(noted), np.uint8)
        values = []
        for place, call in enumerate(self._calls):
            at = RESULTS + 4 * place
            words, valid = noted[:, [at, at + 2]].reshape(-1), noted[:, [at + 1, at + 3]].reshape(-1).astype(np.uint8)
            values.append(Values(frozen(words), frozen(valid), call.values))
            values[-1].mark_changed(changed)
        side, change = np.empty(2 * len(noted), np.int32), np.empty(2 * len(noted), np.int32)
        sign, at_instant = np.empty(2 * len(noted), np.int8), np.empty(2 * len(noted), np.int64)
        there, first = frozen(noted[:, [WAS, IS]].reshape(-1)), np.arange(len(noted), dtype=np.int32)
        n = slots.emit(there, changed, False, first, frozen(noted[:, INSTANT]), side, sign, at_instant, change)
        columns = self._groups.table.decode(frozen(noted[change[:n], GROUP_OF])) + [column.take(side[:n]) for column in values]
        return SignedBatch(at_instant[:n], sign[:n], pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))

    def _sweep(self) -> None:
        """Between steps: keys and groups of which no row is left."""
        first, stop, other_first, other_stop = self._place[:4].tolist()
        if self._groups.is_worth_a_sweep:
            self._groups.keep(self._one.groups(first, stop))
        if self._keys.is_worth_a_sweep:
            self._keys.keep(np.concatenate([self._one.keys(first, stop), self._other.keys(other_first, other_stop)]))


class _Call:
    """A call's values as words of which the greatest is wanted: those of MIN are turned round."""

    def __init__(self, call: AggregateCall, side: Schema) -> None:
        (self.column,) = call.columns
        self.type = side[self.column].type
        self._is_min = call.function == "min"
        self._sort_keys = SortKeys(self.type)

    def words(self, column: pa.Array) -> Ints:
        words = self._sort_keys.keys(column)
        return ~words if self._is_min else words

    def values(self, words: Ints, valid: Bytes) -> pa.Array:
        return self._sort_keys.values(~words if self._is_min else words, valid)


class _Entering(NamedTuple):
    instant: Instants
    rows: Ints


class _Codes:
    """A key table of which nobody counts who uses its codes: those that are not in use are looked for now and then."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.table = KeyTable(types)
        self._worth_a_sweep = _SLACK

    @property
    def capacity(self) -> int:
        return self.table.capacity

    @property
    def is_worth_a_sweep(self) -> bool:
        return len(self.table) > self._worth_a_sweep

    def keep(self, used: Ints) -> None:
        self.table.keep(used)
        self._worth_a_sweep = 2 * len(self.table) + _SLACK


class _Side:
    """A ring of rows of so many places."""

    def __init__(
        self, key_columns: Sequence[str], null_safe: Sequence[bool], groups: Sequence[str], calls: Sequence[_Call], places: int
    ) -> None:
        self._key_columns, self._groups, self._calls = key_columns, groups, calls
        self._never_null = [name for name, safe in zip(key_columns, null_safe, strict=True) if not safe]
        self._width = whole_lines(places)
        self._newest = NEVER_BEFORE  # the end of the last row
        self.ring: Ints = np.zeros((1, self._width), np.int64)

    def entering(self, batch: SignedBatch, keys: _Codes, groups: _Codes) -> _Entering:
        """The rows that can have a partner."""
        batch, _ = batch.split_by_null(self._never_null)
        rows = np.zeros((len(batch), self._width), np.int64)
        if not len(batch):
            return _Entering(frozen(batch.instant), rows)
        self._take_ends(batch)
        rows[:, UNTIL] = batch.ends
        rows[:, CODES] = keys.table.encode(self._key_values(batch.rows))
        if self._groups:
            rows[:, CODES] |= groups.table.encode([batch.rows.column(name) for name in self._groups]).astype(np.int64) << GROUP_BITS
        for place, call in enumerate(self._calls):
            column = plain(batch.rows.column(call.column))
            words, valid = call.words(column), valid_mask(column)
            rows[:, VALUES + place] = words * valid if len(valid) else words
            rows[:, PRESENT] |= valid.astype(np.int64) << place if len(valid) else 1 << place
        return _Entering(frozen(batch.instant), rows)

    def reserve(self, first: int, stop: int, room: int) -> None:
        self.ring = pair_extremes.ring(first, stop, self._width, self.ring, room)

    def keys(self, first: int, stop: int) -> Ints:
        """Of each row that is there, like its group."""
        return frozen(self._there(first, stop, CODES) & ((1 << GROUP_BITS) - 1))

    def groups(self, first: int, stop: int) -> Ints:
        return frozen(self._there(first, stop, CODES) >> GROUP_BITS)

    def save(self, first: int, stop: int, keys: _Codes, groups: _Codes) -> Arrays:
        """Without what points from row to row."""
        arrays: Arrays = {
            "until": self._there(first, stop, UNTIL),
            "present": _narrow(self._there(first, stop, PRESENT)),
            "values": self._there(first, stop, slice(VALUES, VALUES + len(self._calls))),
            "keys": to_bytes(keys.table.decode(self.keys(first, stop))),
        }
        return arrays | ({"groups": to_bytes(groups.table.decode(self.groups(first, stop)))} if self._groups else {})

    def load(self, arrays: Arrays, keys: _Codes, groups: _Codes) -> _Entering:
        """To enter again, all at one instant."""
        rows = np.zeros((len(arrays["until"]), self._width), np.int64)
        rows[:, UNTIL], rows[:, PRESENT] = arrays["until"], arrays["present"]
        rows[:, VALUES : VALUES + len(self._calls)] = arrays["values"]
        rows[:, CODES] = keys.table.encode(from_bytes(arrays["keys"]))
        if self._groups:
            rows[:, CODES] |= groups.table.encode(from_bytes(arrays["groups"])).astype(np.int64) << GROUP_BITS
        self._newest = int(rows[-1, UNTIL]) if len(rows) else NEVER_BEFORE
        return _Entering(np.zeros(len(rows), np.int64), rows)

    def _there(self, first: int, stop: int, places: int | slice) -> Ints:
        """These places of the rows that are there."""
        at, many = first & (len(self.ring) - 1), stop - first
        return np.concatenate([self.ring[at : at + many, places], self.ring[: max(0, at + many - len(self.ring)), places]])

    def _take_ends(self, batch: SignedBatch) -> None:
        ends = batch.ends
        if (batch.sign < 0).any() or (ends <= batch.instant).any() or ends[0] < self._newest or (ends[1:] < ends[:-1]).any():
            raise InternalError("rows that end by themselves do not come as out of a window")
        self._newest = int(ends[-1])

    def _key_values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self._key_columns] or [pa.repeat(_EVERYWHERE, rows.num_rows)]


def _narrow(bits: Ints) -> Bytes | Ints:
    """The same in a byte each, if there is nothing beyond: most have few calls."""
    return bits.astype(np.uint8) if not len(bits) or bits.max() < 256 else bits.copy()
