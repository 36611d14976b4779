"""MIN and MAX where rows never leave: of each group the least and the greatest value, and no others.

Takes the state of the multisets (multisets.py), too: it has the ends in it.  They cannot take this one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.ends import current_ends, track_ends, widen_ends
from millstream.kernels.extremes import NOT_NOTED
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.aggregates.aggregate import Changes, grown
from millstream.operators.operator import Arrays

Edges = tuple[Ints, Ints, Bytes]
"""Keys of the least and the greatest value, and whether there is any."""

_SLACK = 4096
"""Interned values beyond twice those in use that are not worth a sweep."""


class Ends:
    """Both ends of one column, for all groups."""

    def __init__(self, sort_keys: SortKeys) -> None:
        self.sort_keys = sort_keys
        self._ends: Ints = np.empty((0, 2), np.int64)
        self._some: Bytes = np.empty(0, np.uint8)  # whether the group has any value
        self._worth_a_sweep = _SLACK
        self._added: Changes | None = None
        self._edges: Edges

    def add(self, changes: Changes, argument: pa.Array) -> Edges:
        """Before and after each slot.  Applies the same changes only once."""
        if changes is not self._added:
            self._added, self._edges = changes, self._track(changes, argument)
        return self._edges

    def _track(self, changes: Changes, argument: pa.Array) -> Edges:
        self._maybe_sweep()
        low, high = np.empty(2 * changes.slots, np.int64), np.empty(2 * changes.slots, np.int64)
        present = np.full(2 * changes.slots, NOT_NOTED, np.uint8)
        keys, valid = self.sort_keys.keys(argument), arrow_buffers.valid_mask(argument)
        only_arrivals = track_ends(
            changes.code, changes.slot, changes.sign, keys, valid, self._ends, self._some, *self.sort_keys.order, low, high, present
        )
        if not only_arrivals:
            raise InternalError("a group whose rows never leave was asked to give one back")
        return low, high, present

    def result(self, codes: Ints) -> Edges:
        return current_ends(frozen(codes), self._ends, self._some)

    def reserve(self, capacity: int) -> None:
        self._ends, self._some = grown(self._ends, capacity), grown(self._some, capacity)

    def state_rows(self) -> int:
        return 0

    def save(self, codes: Ints) -> Arrays:
        group = np.flatnonzero(self._some[codes])
        ends = self._ends[codes[group]].T.copy()
        return {"group": group, "ends": arrow_buffers.to_bytes([self.sort_keys.values(keys) for keys in ends])}

    def load(self, arrays: Arrays) -> None:
        columns = arrow_buffers.from_bytes(arrays["ends"] if "ends" in arrays else arrays["values"])
        group = frozen(arrays["group"])
        for keys in list(map(self.sort_keys.keys, columns)):  # all of them first: they decide where the order is
            widen_ends(group, keys, self._ends, self._some, *self.sort_keys.order)

    def _maybe_sweep(self) -> None:
        """Between steps: keys given out earlier live on in the ends only."""
        if self.sort_keys.held() > self._worth_a_sweep:
            used = np.unique(self._ends[self._some != 0])
            self.sort_keys.sweep(used)
            self._worth_a_sweep = 2 * len(used) + _SLACK
