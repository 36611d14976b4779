"""COLLECT_LIST: all values in the order in which they came, ties by value; or in the order of other columns, WITHIN GROUP.
COLLECT_SET: every value once, in the values' order.

NULLs are left out; nothing collected is an empty array.  An answer is as long as the list, and so is the cost of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.collected import NOT_NOTED, OUT_OF_ROOM, current_lists, gather_lists, last_turns, mark_changed_lists, track_lists
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.order_bytes import order_bytes, side_by_side
from millstream.kernels.pair_keys import PairKeys
from millstream.kernels.slots import Places
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.aggregates.aggregate import Aggregate, Changes
from millstream.operators.aggregates.multisets import Multisets
from millstream.operators.aggregates.pairs import Copies
from millstream.operators.operator import Arrays, prefixed, without_prefix


@dataclass(frozen=True)
class ListValues:
    """A column of arrays: ranges of words.  Equal words = equal elements."""

    type: pa.DataType
    words: Ints
    starts: Ints
    lengths: Ints
    build: Callable[[Ints], pa.Array]

    def mark_changed(self, changed: Bytes) -> None:
        mark_changed_lists(self.words, self.starts, self.lengths, changed)

    def take(self, places: Places | None) -> pa.Array:
        places = np.arange(len(self.starts), dtype=np.int32) if places is None else places
        offsets, words = gather_lists(self.words, self.starts, self.lengths, places)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), self.build(words), type=self.type)


class _Lists(Multisets):
    def __init__(self, sort_keys: SortKeys, *, once: bool) -> None:
        super().__init__(sort_keys)
        self._once = once

    def track(self, changes: Changes, argument: pa.Array) -> tuple[Ints, Ints, Ints]:
        """Elements of the lists before and after each slot: where each begins and how long it is."""
        starts, lengths = np.zeros(2 * changes.slots, np.int64), np.full(2 * changes.slots, NOT_NOTED, np.int64)
        elements, used = np.empty(4 * changes.slots + 64, np.int64), np.zeros(1, np.int64)
        last = ALL_VALID

        def track(order: Ints, keys: Ints, valid: Bytes, progress: Ints) -> int:
            nonlocal elements, last
            last = last if len(last) else last_turns(changes.slot, order, changes.slots)
            while True:
                state = track_lists(
                    changes.code, changes.slot, changes.sign, order, last, keys, valid, self._nodes, self._roots, self._path,
                    *self.sort_keys.order, progress, self._once, elements, used, starts, lengths,
                )  # fmt: skip
                if state != OUT_OF_ROOM:
                    return state
                elements = np.concatenate([elements, np.empty_like(elements)])

        self._apply(changes, argument, track)
        return elements[: used[0]], starts, lengths

    def current(self, codes: Ints) -> tuple[Ints, Ints, Ints]:
        return current_lists(self._nodes, self._roots[codes], self._path, self._once)


class CollectSetAgg(Aggregate):
    invertible = False

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._lists = _Lists(SortKeys(type_.value_type), once=True)

    def add(self, changes: Changes, arguments: list[pa.Array]) -> ListValues:
        return self._values(*self._lists.track(changes, arguments[0]))

    def result(self, codes: Ints, rows: Ints) -> ListValues:
        return self._values(*self._lists.current(codes))

    def _values(self, elements: Ints, starts: Ints, lengths: Ints) -> ListValues:
        return ListValues(self.type, frozen(elements), starts, lengths, self._lists.sort_keys.values)

    def reserve(self, capacity: int) -> None:
        self._lists.reserve(capacity)

    def save(self, codes: Ints) -> Arrays:
        return self._lists.save(codes)

    def load(self, arrays: Arrays) -> None:
        self._lists.load(arrays)

    def state_rows(self) -> int:
        return self._lists.state_rows()


class _PairListAgg(Aggregate):
    """Values in the order of something else, ties by value."""

    invertible = False

    def __init__(self, type_: pa.DataType, by: pa.DataType) -> None:
        super().__init__(type_)
        self._keys = PairKeys(by, type_.value_type)
        self._lists = _Lists(self._keys, once=False)

    def _listed(self, changes: Changes, by: pa.Array, value: pa.Array) -> ListValues:
        mask = value.is_null() if value.null_count else None
        return self._values(*self._lists.track(changes, pa.StructArray.from_arrays([by, value], fields=list(self._keys.type), mask=mask)))

    def result(self, codes: Ints, rows: Ints) -> ListValues:
        return self._values(*self._lists.current(codes))

    def _values(self, elements: Ints, starts: Ints, lengths: Ints) -> ListValues:
        # what a value is ordered by is not part of the answer: equal values have equal words
        equal = SortKeys(self.type.value_type)
        if len(elements) < self._keys.held():
            words = equal.keys(self._keys.seconds(elements, ALL_VALID))
        else:  # most values stand in many of the lists: each is looked at once
            words = frozen(equal.keys(self._keys.all_seconds())[elements])
        return ListValues(self.type, words, starts, lengths, equal.values)

    def reserve(self, capacity: int) -> None:
        self._lists.reserve(capacity)

    def save(self, codes: Ints) -> Arrays:
        return self._lists.save(codes)

    def load(self, arrays: Arrays) -> None:
        self._lists.load(arrays)

    def state_rows(self) -> int:
        return self._lists.state_rows()


class CollectListAgg(_PairListAgg):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_, pa.int64())
        self._copies = Copies([type_.value_type])

    def add(self, changes: Changes, arguments: list[pa.Array]) -> ListValues:
        came = self._copies.came(changes, arguments, arrow_buffers.valid_mask(arguments[0]))
        return self._listed(changes, pa.array(came), arguments[0])

    def save(self, codes: Ints) -> Arrays:
        return prefixed(super().save(codes), "order") | prefixed(self._copies.save(codes), "copies")

    def load(self, arrays: Arrays) -> None:
        super().load(without_prefix(arrays, "order"))
        self._copies.load(without_prefix(arrays, "copies"))


class CollectOrderedAgg(_PairListAgg):
    """The columns behind the first are what the list is sorted by; `directions` has for each whether it descends and whether NULLs
    come first."""

    def __init__(self, type_: pa.DataType, directions: Sequence[tuple[bool, bool]]) -> None:
        super().__init__(type_, pa.binary())
        self._directions = tuple(directions)

    def add(self, changes: Changes, arguments: list[pa.Array]) -> ListValues:
        value, *by = arguments
        parts = [
            order_bytes(key, descending=descending, nulls_first=nulls_first)
            for key, (descending, nulls_first) in zip(by, self._directions, strict=True)
        ]
        offsets, data = side_by_side(parts, len(value))
        return self._listed(changes, arrow_buffers.from_byte_ranges(frozen(offsets), frozen(data), ALL_VALID, pa.binary()), value)
