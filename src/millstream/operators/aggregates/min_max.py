"""MIN and MAX of anything that has an order, in Spark's order (NaN is the largest, strings go by bytes).

Not invertible: when the least value leaves, the next one must be known.  So each group keeps its values
in an ordered multiset; MIN and MAX of the same column share it.  A value can only leave once it is there,
so inside an instant what enters goes first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.extremes import NEVER_THERE, NOT_NOTED, OUT_OF_NODES, current_extremes, restore, track_extremes
from millstream.kernels.ordered_multiset import dump, grown_nodes, keys_in_use, new_nodes, new_path
from millstream.kernels.slots import arrivals_first
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.aggregates.aggregate import Aggregate, Changes, Values, grown
from millstream.operators.operator import Arrays

_SLACK = 4096
"""Interned values beyond twice those in use that are not worth a sweep."""


class Extremes:
    """The ordered multisets of one column, for all groups."""

    def __init__(self, type_: pa.DataType) -> None:
        self.sort_keys = SortKeys(type_)
        self._nodes = new_nodes()
        self._roots: Ints = np.empty(0, np.int64)
        self._path = new_path()
        self._added: Changes | None = None
        self._edges: tuple[Ints, Ints, Bytes]
        self._kept = 0  # values in all multisets
        self._worth_a_sweep = _SLACK

    def add(self, changes: Changes, argument: pa.Array) -> tuple[Ints, Ints, Bytes]:
        """(least, greatest, whether there is any) before and after each slot.  Applies the same changes only once."""
        if changes is not self._added:
            self._added, self._edges = changes, self._track(changes, argument)
        return self._edges

    def _track(self, changes: Changes, argument: pa.Array) -> tuple[Ints, Ints, Bytes]:
        self._maybe_sweep()
        keys, valid = self.sort_keys.keys(argument), arrow_buffers.valid_mask(argument)
        low, high = np.empty(2 * changes.slots, np.int64), np.empty(2 * changes.slots, np.int64)
        present = np.full(2 * changes.slots, NOT_NOTED, np.uint8)
        order, progress = arrivals_first(changes.instant, changes.sign), np.zeros(1, np.int64)
        while True:
            state = track_extremes(
                changes.code, changes.slot, changes.sign, order, keys, valid, self._nodes, self._roots, self._path,
                *self.sort_keys.order, progress, low, high, present,
            )  # fmt: skip
            if state != OUT_OF_NODES:
                break
            self._nodes = grown_nodes(self._nodes)
        if state == NEVER_THERE:
            raise InternalError("a group was asked to give back a value that it never got")
        self._kept += int((changes.sign * valid if len(valid) else changes.sign).sum())
        return low, high, present

    def result(self, codes: Ints) -> tuple[Ints, Ints, Bytes]:
        return current_extremes(self._nodes, self._roots[codes])

    def reserve(self, capacity: int) -> None:
        self._roots = grown(self._roots, capacity, fill=-1)

    def state_rows(self) -> int:
        return self._kept

    def save(self, codes: Ints) -> Arrays:
        group, keys, times = dump(self._nodes, self._roots[codes]).T.copy()
        return {"group": group, "values": arrow_buffers.to_bytes([self.sort_keys.values(keys)]), "times": times}

    def load(self, arrays: Arrays) -> None:
        keys, done = self.sort_keys.keys(arrow_buffers.from_bytes(arrays["values"])[0]), 0
        group, times = frozen(arrays["group"]), frozen(arrays["times"])
        while (done := restore(self._nodes, self._roots, group, keys, times, *self.sort_keys.order, done)) < len(keys):
            self._nodes = grown_nodes(self._nodes)
        self._kept = int(times.sum())

    def _maybe_sweep(self) -> None:
        """Between steps: keys given out earlier live on in the trees only."""
        if self.sort_keys.held() > self._worth_a_sweep:
            used = np.unique(keys_in_use(self._nodes))
            self.sort_keys.sweep(used)
            self._worth_a_sweep = 2 * len(used) + _SLACK


class _ExtremeAgg(Aggregate):
    invertible = False
    _greatest: bool

    def __init__(self, type_: pa.DataType, extremes: Extremes, *, owner: bool) -> None:
        super().__init__(type_)
        self._extremes = extremes
        self._owner = owner  # one of those that share the multisets keeps them

    def add(self, changes: Changes, argument: pa.Array | None) -> Values:
        return self._values(self._extremes.add(changes, argument))

    def result(self, codes: Ints, rows: Ints) -> Values:
        return self._values(self._extremes.result(codes))

    def reserve(self, capacity: int) -> None:
        if self._owner:
            self._extremes.reserve(capacity)

    def save(self, codes: Ints) -> Arrays:
        return self._extremes.save(codes) if self._owner else {}

    def load(self, arrays: Arrays) -> None:
        if self._owner:
            self._extremes.load(arrays)

    def state_rows(self) -> int:
        return self._extremes.state_rows() if self._owner else 0

    def _values(self, edges: tuple[Ints, Ints, Bytes]) -> Values:
        low, high, present = edges
        return Values(high if self._greatest else low, present, self._extremes.sort_keys.values)


class MinAgg(_ExtremeAgg):
    """MIN: NULL when no value is present."""

    _greatest = False


class MaxAgg(_ExtremeAgg):
    """MAX: NULL when no value is present."""

    _greatest = True
