"""PERCENTILE: the value at a fraction of the way through a group's values, between two of them if it falls there.
PERCENTILE_APPROX: a value of the group, the least that so large a part of them does not exceed; here it is exact.

Percentiles of the same column share its ordered multisets, which count what is below: a rank is found in O(log n).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels.arrow_buffers import ALL_VALID, canonical_doubles
from millstream.kernels.collected import last_turns
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.ranks import NOT_NOTED, current_ranks, track_ranks
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.aggregates.aggregate import Changes, Values
from millstream.operators.aggregates.multisets import Multisets, SharingAgg

Around = tuple[Ints, Ints, Ints]
"""Keys of the values before and behind each fraction, and how many values there are."""


class Ranks(Multisets):
    """The multisets of one column, asked at the fractions of all aggregates that share them."""

    def __init__(self, sort_keys: SortKeys) -> None:
        super().__init__(sort_keys)
        self._fractions: list[float] = []
        self._discrete: list[bool] = []
        self._added: Changes | None = None
        self._around: Around

    def want(self, fractions: tuple[float, ...], *, discrete: bool) -> slice:
        """Before the first step: where the answers for these fractions will stand."""
        self._fractions += fractions
        self._discrete += [discrete] * len(fractions)
        return slice(len(self._fractions) - len(fractions), len(self._fractions))

    def add(self, changes: Changes, argument: pa.Array) -> Around:
        """Before and after each slot.  Applies the same changes only once."""
        if changes is not self._added:
            self._added, self._around = changes, self._track(changes, argument)
        return self._around

    def _track(self, changes: Changes, argument: pa.Array) -> Around:
        shape = (2 * changes.slots, len(self._fractions))
        low, high, counts = np.empty(shape, np.int64), np.empty(shape, np.int64), np.full(2 * changes.slots, NOT_NOTED, np.int64)
        fractions, discrete = np.array(self._fractions), np.array(self._discrete, np.uint8)
        last = ALL_VALID

        def track(order: Ints, keys: Ints, valid: Bytes, progress: Ints) -> int:
            nonlocal last
            last = last if len(last) else last_turns(changes.slot, order, changes.slots)
            return track_ranks(
                changes.code, changes.slot, changes.sign, order, keys, valid, self._nodes, self._roots, self._path,
                *self.sort_keys.order, progress, last, fractions, discrete, low, high, counts,
            )  # fmt: skip

        self._apply(changes, argument, track)
        return low, high, counts

    def result(self, codes: Ints) -> Around:
        return current_ranks(self._nodes, self._roots[codes], np.array(self._fractions), np.array(self._discrete, np.uint8))


class PercentileAgg(SharingAgg[Ranks]):
    """One fraction, or, where the type is an array, an array of answers; NULL when no value is present."""

    def __init__(self, type_: pa.DataType, shared: Ranks, fractions: tuple[float, ...], *, owner: bool, discrete: bool) -> None:
        super().__init__(type_, shared, owner=owner)
        self._fractions = np.array(fractions)
        self._discrete = discrete
        self._places = shared.want(fractions, discrete=discrete)

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        return self._values(*self._shared.add(changes, arguments[0]))

    def result(self, codes: Ints, rows: Ints) -> Values:
        return self._values(*self._shared.result(codes))

    def _values(self, low: Ints, high: Ints, counts: Ints) -> Values:
        words = np.ascontiguousarray(low[:, self._places])
        if not self._discrete:
            words = self._between(words, np.ascontiguousarray(high[:, self._places]), counts)
        present = (counts > 0).astype(np.uint8)
        if not pa.types.is_list(self.type):
            return Values(np.ascontiguousarray(words[:, 0]), present, self._elements)
        return Values(words, present, self._arrays)

    def _between(self, low: Ints, high: Ints, counts: Ints) -> Ints:
        """Keys of the doubles between two, as far along as the fraction falls."""
        below, above = (self._shared.sort_keys.values(keys.reshape(-1)).to_numpy().reshape(keys.shape) for keys in (low, high))
        position = (counts[:, None] - 1) * self._fractions
        with np.errstate(invalid="ignore", over="ignore"):
            mixed = (np.ceil(position) - position) * below + (position - np.floor(position)) * above
        found = np.where(low == high, below, mixed)
        return self._shared.sort_keys.keys(pa.array(canonical_doubles(found).reshape(-1))).reshape(low.shape)

    def _elements(self, words: Ints, valid: Bytes) -> pa.Array:
        return self._shared.sort_keys.values(words, valid)

    def _arrays(self, words: Ints, valid: Bytes) -> pa.Array:
        there = valid != 0 if len(valid) else np.ones(len(words), np.bool_)
        offsets = np.zeros(len(words) + 1, np.int32)
        np.cumsum(there * words.shape[1], out=offsets[1:])
        elements = self._shared.sort_keys.values(np.ascontiguousarray(words[there]).reshape(-1))
        return pa.ListArray.from_arrays(pa.array(offsets), elements, type=self.type, mask=pa.array(~there))
