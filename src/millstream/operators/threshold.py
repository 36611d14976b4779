"""WHERE v > (SELECT avg(v) ...): the rows on one side of a value that moves, exact at every instant.

Rows are kept in the order of the column that is compared, for each key apart.  A row's own change costs O(log rows); when the
value moves, only the rows between where it was and where it is change: kernels/crossings.py.  While there is no value, or
where it is NULL, no row passes; rows that cannot pass, because the column or a key is NULL, are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch, Signs
from millstream.kernels import arrow_buffers, crossings
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.crossings import FILLED, NEEDED, SAME
from millstream.kernels.order_bytes import order_bytes
from millstream.kernels.row_store import BOUND
from millstream.operators.net import netted
from millstream.operators.operator import Arrays, prefixed, without_prefix
from millstream.operators.sorted_partitions import Slots, SortedPartitions, never_there
from millstream.plan.logical import JoinKey, Match
from millstream.plan.ordering import SortKey


class ThresholdOp:
    """Two inputs, so not an `Operator`, but the same contract.  The right one is netted and has at most one row for each key."""

    def __init__(self, left: Schema, right: Schema, keys: Sequence[JoinKey], match: Match) -> None:
        assert left[match.left].type == right[match.right].type
        self.schema = left
        self._keys, self._match = tuple(keys), match
        self._above = not match.forward
        self._or_equal = match.comparison in (">", "<=")  # the rows before the cut
        self._partitions = SortedPartitions(left, [key.left for key in keys], [SortKey(match.left)])
        self._bounds: Bytes = np.zeros((1, BOUND), np.uint8)
        self._widths: Ints = np.zeros(1, np.int64)

    def step(self, left: SignedBatch, right: SignedBatch) -> SignedBatch:
        left, _ = left.split_by_null([self._match.left, *(key.left for key in self._keys if not key.null_safe)])
        right, _ = right.split_by_null([key.right for key in self._keys if not key.null_safe])
        slots = self._partitions.slots(left)
        parts = self._partitions.parts(right.rows, [key.right for key in self._keys])
        self._reserve()
        merged, bound = _with_moves(slots, parts, right)
        codes, at, sign = self._followed(merged, bound, *_laid_out(right.rows.column(self._match.right), right.sign))
        rows = pa.RecordBatch.from_arrays(self._partitions.store.columns(codes), schema=self.schema.to_arrow())
        self._partitions.forget(kept=self._widths, touched=parts)
        out = SignedBatch(merged.instant[at], sign, rows)
        return out if self._partitions.told_apart else netted(out)

    def save(self) -> Arrays:
        bounded = np.flatnonzero(self._widths)
        arrays: Arrays = {"bounds": self._bounds[bounded], "widths": self._widths[bounded]}
        if self._keys:
            arrays["keys"] = arrow_buffers.to_bytes(self._partitions.keys(bounded))
        return arrays | prefixed(self._partitions.save(), "left")

    def load(self, arrays: Arrays) -> None:
        self._partitions.load(without_prefix(arrays, "left"))
        names = [key.right for key in self._keys]
        columns = arrow_buffers.from_bytes(arrays["keys"]) if self._keys else [pa.nulls(len(arrays["widths"]))]
        parts = self._partitions.parts(pa.RecordBatch.from_arrays(columns, names or ["no key"]), names)
        self._reserve()
        self._bounds[parts], self._widths[parts] = arrays["bounds"], arrays["widths"]

    def state_rows(self) -> int:
        return self._partitions.rows + int(np.count_nonzero(self._widths))

    def _reserve(self) -> None:
        more = len(self._partitions.roots) - len(self._widths)
        if more > 0:
            self._bounds = np.concatenate([self._bounds, np.zeros((more, BOUND), np.uint8)])
            self._widths = np.append(self._widths, np.zeros(more, np.int64))

    def _followed(self, slots: Slots, bound: Ints, new_bounds: Bytes, new_widths: Ints) -> tuple[Ints, Ints, Signs]:
        """Applies the changes; the rows that begin or cease to pass, with their slots and signs."""
        partitions, store, progress = self._partitions, self._partitions.store, np.zeros(5, np.int64)
        room = 2 * len(slots.code) + 1024
        codes, at, sign = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int8)
        while True:
            state = crossings.follow(
                slots.start, slots.part, bound, slots.code, slots.delta, partitions.nodes, partitions.roots, partitions.path,
                self._bounds, self._widths, new_bounds, new_widths, self._above, self._or_equal,
                store.arena, store.spans, store.prefixes, progress, codes, at, sign,
            )  # fmt: skip
            match state:
                case crossings.DONE:
                    n = progress[FILLED]
                    return codes[:n], at[:n], sign[:n]
                case crossings.OUT_OF_NODES:
                    partitions.grow()
                case crossings.FULL:
                    room = 2 * int(progress[NEEDED])
                    codes, at, sign = np.resize(codes, room), np.resize(at, room), np.resize(sign, room)
                case _:
                    raise never_there()


def _with_moves(slots: Slots, parts: Ints, moves: SignedBatch) -> tuple[Slots, Ints]:
    """The slots, with those at which only the value moves, and for each the change that brings the new value, or SAME.

    Of two changes of one instant the later one in the order here is the one that enters.
    """
    order = np.lexsort((moves.sign, parts, moves.instant))
    instant, part = np.append(slots.instant, moves.instant[order]), np.append(slots.part, parts[order])
    together = np.lexsort((part, instant))
    new = np.ones(len(together), np.bool_)
    new[1:] = (np.diff(instant[together]) != 0) | (np.diff(part[together]) != 0)
    first, number = together[new], np.empty(len(together), np.int64)
    number[together] = np.cumsum(new) - 1
    lengths = np.zeros(len(first), np.int64)
    lengths[number[: len(slots)]] = np.diff(slots.start)
    bound = np.full(len(first), SAME, np.int64)
    bound[number[len(slots) :]] = order
    start = np.append(0, np.cumsum(lengths))
    return Slots(frozen(part[first]), instant[first], frozen(start), slots.code, slots.delta), bound


def _laid_out(values: pa.Array, sign: Signs) -> tuple[Bytes, Ints]:
    """The bytes of each value in order, and how many there are: none where it is NULL, or where it leaves."""
    there = sign > 0
    if values.null_count:
        there &= values.is_valid().to_numpy(zero_copy_only=False)
    offsets, data = order_bytes(values.filter(pa.array(there)))
    bounds, widths = np.zeros((len(values), BOUND), np.uint8), np.zeros(len(values), np.int64)
    if len(data):
        widths[there] = width = offsets[1]  # all have the same
        bounds[there, :width] = data.reshape(-1, width)
    return bounds, widths
