"""DISTINCT, INTERSECT ALL and EXCEPT ALL where operators learn the time from what arrives (WITH EXPIRY input_triggered).

There rows say when they end, and so do the rows of the answer.  Which copies of a row these are is kept explicitly, as a matching of the
copies on both sides (kernels/matched_copies.py):

    INTERSECT   pairs; a pair ends with the first of the two
    EXCEPT      the copies on the left without a partner
    DISTINCT    one copy, with its own end

A row that comes at T tells that all is over that ends at or before T.  Copies that have ended then leave the matching, and what is shown
instead comes out at T: another pair, another copy.  What was shown and has ended does not come out again, for who reads it takes it out by
itself; what has to go before its end is taken back.  A row that is taken back at T tells nothing of the time, except of its own copies: who
takes the place of one of them must not have ended itself.

    changes, and values of which copies have ended ─► (instant, value) slots ─► matching ─► what is shown anew or taken back

A step costs the changes, and the copies that have ended, each O(log copies of its row).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import GONE_NEVER
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import Instants, SignedBatch
from millstream.kernels import matched_copies
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.matched_copies import ABSENT, DISTINCT, EXCEPT, INTERSECT, LEFT, PARTNER, ROOTS, SIDE, VALUE
from millstream.kernels.row_treap import HIGH, NONE
from millstream.operators.net import netted
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.operators.pending import PendingRows
from millstream.plan.logical import SetKind

_KINDS: dict[SetKind, int] = {"distinct": DISTINCT, "intersect": INTERSECT, "except": EXCEPT}
_VALUE = Schema((Field("value", pa.int64()),))


class SetOperationOp:
    """One input or two, so not an `Operator`, but the same contract.  Rows are equal as in GROUP BY."""

    def __init__(self, schema: Schema, kind: SetKind) -> None:
        self.schema = schema
        self._kind = _KINDS[kind]
        self._values = KeyTable([field.type for field in schema])
        self._copies = matched_copies.new_copies()
        self._roots: Ints = np.empty((0, ROOTS), np.int64)
        self._to_end = PendingRows(_VALUE)

    def step(self, *batches: SignedBatch) -> SignedBatch:
        if not any(map(len, batches)):
            return SignedBatch.empty(self.schema)
        batches = tuple(map(netted, batches))  # what comes and goes at once tells nothing
        codes = [self._values.encode(batch.rows.columns) for batch in batches]
        self._reserve()
        value, instant = np.concatenate(codes), np.concatenate([batch.instant for batch in batches])
        sign, end = np.concatenate([batch.sign for batch in batches]), np.concatenate([batch.ends for batch in batches])
        side = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
        ended, ended_at = self._ended(value, instant, sign > 0, end)
        nothing = np.zeros(len(ended), np.int64)
        slots = _added_up(
            np.concatenate([instant, ended_at]), np.concatenate([value, ended]), np.concatenate([side, nothing]),
            np.concatenate([end, nothing]), np.concatenate([sign, nothing]),
        )  # fmt: skip
        return self._settled(np.unique(value), *slots)

    def save(self) -> Arrays:
        live = self._values.live_codes()
        place = np.empty(self._values.capacity, np.int64)
        place[live] = np.arange(len(live))
        value, left, right = self._matching()
        return {"value": place[value], "left": left, "right": right} | prefixed(self._values.save(), "values")

    def load(self, arrays: Arrays) -> None:
        self._values.load(without_prefix(arrays, "values"))
        self._reserve()
        value, left, right = (frozen(arrays[name]) for name in ("value", "left", "right"))
        self._copies = matched_copies.with_room(self._copies, 2 * len(value))
        matched_copies.restore(value, left, right, self._copies, self._roots)
        for end in (left, right):
            self._wait(value[end != ABSENT], end[end != ABSENT])

    def state_rows(self) -> int:
        """Those on the right of DISTINCT are nobody's rows."""
        return len(self._copies) - 1 - matched_copies.unused(self._copies) - (len(self._values) if self._kind == DISTINCT else 0)

    def _ended(self, value: Ints, instant: Instants, comes: npt.NDArray[np.bool_], end: Instants) -> tuple[Ints, Instants]:
        """The values of which copies have ended, and when the operator learns it.  That they are looked at once too often does no harm."""
        self._wait(value[comes], end[comes])
        arrivals = np.unique(instant[comes])
        if not len(arrivals):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        ended = self._to_end.release(int(arrivals[-1]))
        return ended.rows.column(0).to_numpy(), arrivals[np.searchsorted(arrivals, ended.instant)]

    def _wait(self, value: Ints, end: Instants) -> None:
        mortal = end < GONE_NEVER
        rows = pa.RecordBatch.from_arrays([pa.array(value[mortal])], schema=_VALUE.to_arrow())
        self._to_end.add(SignedBatch.arrivals(end[mortal], rows))

    def _settled(self, came: Ints, instant: Instants, value: Ints, side: Ints, end: Instants, delta: Ints) -> SignedBatch:
        """Applies the changes; `came`: the values that have a code because of this step, or had one before."""
        touched = np.unique(value)
        known = (self._roots[touched] != NONE).any(axis=1) | np.isin(touched, came)
        comes = int(delta[delta > 0].sum())
        self._copies = matched_copies.with_room(self._copies, 2 * comes if self._kind == DISTINCT else comes)
        found, sound = matched_copies.settle(self._kind, instant, value, side, end, delta, self._copies, self._roots)
        if not sound:
            raise InternalError("a set operation was asked to give back a row that it never got")
        changes = self._changes(*found.T)
        self._values.release(touched[known & (self._roots[touched] == NONE).all(axis=1)])
        return changes

    def _changes(self, instant: Instants, value: Ints, end: Instants, sign: Ints) -> SignedBatch:
        """What is both shown and taken back has not changed."""
        instant, value, _, end, net = _added_up(instant, value, np.zeros_like(value), end, sign)
        copies = np.repeat(np.arange(len(net)), np.abs(net))
        rows = pa.RecordBatch.from_arrays(self._values.decode(value[copies]), schema=self.schema.to_arrow())
        return SignedBatch(instant[copies], np.sign(net[copies]).astype(np.int8), rows, end[copies])

    def _matching(self) -> tuple[Ints, Instants, Instants]:
        """All pairs and free copies: their values and ends, ABSENT for a partner that is not there."""
        copies = self._copies
        shown = np.flatnonzero((copies[:, VALUE] != NONE) & ((copies[:, SIDE] == LEFT) | (copies[:, PARTNER] == NONE)))
        end, partner, is_left = copies[shown, HIGH], copies[shown, PARTNER], copies[shown, SIDE] == LEFT
        right = np.where(partner != NONE, copies[partner, HIGH], ABSENT)
        return copies[shown, VALUE], np.where(is_left, end, ABSENT), np.where(is_left, right, end)

    def _reserve(self) -> None:
        if self._values.capacity > len(self._roots):
            old, self._roots = self._roots, np.full((self._values.capacity, ROOTS), NONE, np.int64)
            self._roots[: len(old)] = old


def _added_up(instant: Instants, value: Ints, side: Ints, end: Instants, sign: Ints) -> tuple[Instants, Ints, Ints, Instants, Ints]:
    """Changes in the order of these columns, those that agree in all of them added up."""
    order = np.lexsort((end, side, value, instant))
    columns = [column[order] for column in (instant, value, side, end)]
    new = np.ones(len(order), np.bool_)
    if len(order):
        new[1:] = np.any([np.diff(column) != 0 for column in columns], axis=0)
    starts = np.flatnonzero(new)
    delta = np.add.reduceat(sign[order].astype(np.int64), starts) if len(starts) else np.empty(0, np.int64)
    instant, value, side, end = (frozen(column[starts]) for column in columns)
    return instant, value, side, end, frozen(delta)
