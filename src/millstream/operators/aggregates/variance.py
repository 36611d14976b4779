"""VAR_SAMP, VAR_POP, STDDEV_SAMP and STDDEV_POP of doubles, from exact sums: kernels/moments.py.

NULL where there is no value, for a sample also where there is only one; NaN while a value is not finite or is beyond 1e150.
Those of the same column share the sums.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import canonical_doubles, frozen, valid_mask
from millstream.kernels.compiled import Ints
from millstream.kernels.moments import current_spreads, squares, track_spreads
from millstream.operators.aggregates.aggregate import Changes, Values, grown
from millstream.operators.aggregates.multisets import SharingAgg
from millstream.operators.aggregates.totals import Doubles, FloatSums
from millstream.operators.operator import Arrays, prefixed, without_prefix

Spreads = tuple[Doubles, Ints]
"""n * (sum of squares) - (sum)^2, and n."""


class Moments:
    """Exact sums of the values and of their squares, for all groups."""

    def __init__(self) -> None:
        self._sums, self._squares = FloatSums(), FloatSums()
        self._odds: Ints = np.zeros(0, np.int64)
        self._added: Changes | None = None
        self._spreads: Spreads

    def add(self, changes: Changes, argument: pa.Array) -> Spreads:
        """Before and after each slot.  Applies the same changes only once."""
        if changes is not self._added:
            self._added, self._spreads = changes, self._track(changes, argument)
        return self._spreads

    def _track(self, changes: Changes, argument: pa.Array) -> Spreads:
        values, square, missing = (frozen(part.view(np.int64)) for part in squares(arrow_buffers.doubles(argument)))
        out, counts, progress = np.empty(2 * changes.slots, np.float64), np.empty(2 * changes.slots, np.int64), np.zeros(2, np.int64)
        while not track_spreads(
            changes.code, changes.slot, changes.sign, values, square, missing, valid_mask(argument), self._sums.sums, self._sums.wide,
            self._squares.sums, self._squares.wide, self._odds, progress, out, counts,
        ):  # fmt: skip
            self._sums.make_room()
            self._squares.make_room()
        return out, counts

    def result(self, codes: Ints) -> Spreads:
        return current_spreads(codes, self._sums.sums, self._sums.wide, self._squares.sums, self._squares.wide, self._odds)

    def reserve(self, capacity: int) -> None:
        self._sums.reserve(capacity)
        self._squares.reserve(capacity)
        self._odds = grown(self._odds, capacity)

    def save(self, codes: Ints) -> Arrays:
        sums, squares_ = prefixed(self._sums.save(codes), "sums"), prefixed(self._squares.save(codes), "squares")
        return {**sums, **squares_, "odds": self._odds[codes]}

    def load(self, arrays: Arrays) -> None:
        self._sums.load(without_prefix(arrays, "sums"))
        self._squares.load(without_prefix(arrays, "squares"))
        self._odds[: len(arrays["odds"])] = arrays["odds"]

    def state_rows(self) -> int:
        return 0


class VarianceAgg(SharingAgg[Moments]):
    invertible = True

    def __init__(self, type_: pa.DataType, shared: Moments, *, owner: bool, sample: bool, root: bool) -> None:
        super().__init__(type_, shared, owner=owner)
        self._sample, self._root = sample, root

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        return self._values(self._shared.add(changes, arguments[0]))

    def result(self, codes: Ints, rows: Ints) -> Values:
        return self._values(self._shared.result(codes))

    def _values(self, spreads: Spreads) -> Values:
        spread, n = spreads
        others = n - 1 if self._sample else n
        variance = spread / np.maximum(n.astype(np.float64) * others, 1.0)
        found = canonical_doubles(np.sqrt(variance) if self._root else variance)
        return Values.of(self.type, found.view(np.int64), (others > 0).astype(np.uint8))
