"""MIN and MAX of anything that has an order, in Spark's order (NaN is the largest, strings go by bytes).

Not invertible: when the least value leaves, the next one must be known.  So each group keeps its values
in an ordered multiset, whose ends are known; MIN and MAX of the same column share it.  Where nothing ever leaves,
the ends alone will do (ends.py).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.extremes import NOT_NOTED, current_extremes, find_ends, track_extremes
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.aggregates.aggregate import Changes, Values, grown
from millstream.operators.aggregates.ends import Edges, Ends
from millstream.operators.aggregates.multisets import Multisets, SharingAgg
from millstream.operators.operator import Arrays


class Extremes(Multisets):
    """Both ends of the multisets of one column."""

    def __init__(self, sort_keys: SortKeys) -> None:
        super().__init__(sort_keys)
        self._ends: Ints = np.empty((0, 2), np.int64)
        self._added: Changes | None = None
        self._edges: Edges

    def add(self, changes: Changes, argument: pa.Array) -> Edges:
        """Before and after each slot.  Applies the same changes only once."""
        if changes is not self._added:
            self._added, self._edges = changes, self._track(changes, argument)
        return self._edges

    def _track(self, changes: Changes, argument: pa.Array) -> Edges:
        low, high = np.empty(2 * changes.slots, np.int64), np.empty(2 * changes.slots, np.int64)
        present = np.full(2 * changes.slots, NOT_NOTED, np.uint8)

        def track(order: Ints, keys: Ints, valid: Bytes, progress: Ints) -> int:
            return track_extremes(
                changes.code, changes.slot, changes.sign, order, keys, valid, self._nodes, self._roots, self._ends, self._path,
                *self.sort_keys.order, progress, low, high, present,
            )  # fmt: skip

        self._apply(changes, argument, track)
        return low, high, present

    def result(self, codes: Ints) -> Edges:
        return current_extremes(frozen(codes), self._roots, self._ends)

    def reserve(self, capacity: int) -> None:
        super().reserve(capacity)
        self._ends = grown(self._ends, capacity)

    def load(self, arrays: Arrays) -> None:
        super().load(arrays)
        find_ends(self._nodes, self._roots, self._ends)


class _ExtremeAgg(SharingAgg[Extremes | Ends]):
    _greatest: bool

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        return self._values(self._shared.add(changes, arguments[0]))

    def result(self, codes: Ints, rows: Ints) -> Values:
        return self._values(self._shared.result(codes))

    def _values(self, edges: Edges) -> Values:
        low, high, present = edges
        return Values(high if self._greatest else low, present, self._shared.sort_keys.values)


class MinAgg(_ExtremeAgg):
    """MIN: NULL when no value is present."""

    _greatest = False


class MaxAgg(_ExtremeAgg):
    """MAX: NULL when no value is present."""

    _greatest = True
