"""Aggregates with OVER: those of GROUP BY, with a frame as the group (kernels/over_walks.py).

all rows           the group is the partition; its value before and after a slot is that of every row
from the first on  also the partition: rows leave and enter at its end until it is the frame
any other          the group is an interval of targets, and is forgotten
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.core.signed_batch import Signs
from millstream.kernels import over_walks
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.row_store import RowStore
from millstream.kernels.slots import Places
from millstream.operators.aggregates import aggregates_for
from millstream.operators.aggregates.aggregate import Changes, Results, Values, grown
from millstream.operators.over_targets import Flags, Seen
from millstream.operators.sorted_partitions import Slots
from millstream.plan.logical import AggregateCall
from millstream.plan.ordering import OverCall


@dataclass(frozen=True)
class Summed:
    """A column of results."""

    results: Results
    place: Places  # of each target's result

    def differs(self, was: Ints, now: Ints) -> Flags:
        if not isinstance(self.results, Values):
            return np.ones(len(was), np.bool_)
        before, after, words, valid = self.place[was], self.place[now], self.results.words, self.results.valid
        differs: Flags = words[before] != words[after] if words.ndim == 1 else (words[before] != words[after]).any(axis=1)
        if len(valid) == 0:
            return differs
        here, there = valid[before] != 0, valid[after] != 0
        return np.asarray((differs & here) | (here != there))

    def take(self, targets: Ints) -> pa.Array:
        return self.results.take(self.place[targets])

    @property
    def is_exact(self) -> bool:
        """Not everything differs."""
        return isinstance(self.results, Values)


class Aggregates:
    """Some calls over the same frames."""

    def __init__(self, calls: Sequence[OverCall], schema: Schema, store: RowStore) -> None:
        self._calls = tuple(
            AggregateCall(call.name, call.function, call.argument, call.type, call.more, call.distinct, call.fractions) for call in calls
        )  # fmt: skip
        self._schema, self._store = schema, store
        self._aggregates = aggregates_for(self._calls, schema)

    def reserve(self, groups: int) -> None:
        for aggregate in self._aggregates:
            aggregate.reserve(groups)

    def add(self, changes: Changes, codes: Ints) -> dict[str, Results]:
        """The changes of these rows; results before and after each slot, by name of the call."""
        names = dict.fromkeys(name for call in self._calls for name in call.columns)
        read = {name: self._store.column(codes, self._schema.names.index(name)) for name in names}
        return {
            call.name: aggregate.add(changes, [read[name] for name in call.columns])
            for call, aggregate in zip(self._calls, self._aggregates, strict=True)
        }  # fmt: skip

    def add_slots(self, slots: Slots, rows: Ints) -> dict[str, Results]:
        """The same for partitions as groups."""
        times = np.abs(slots.delta)
        slot = np.repeat(np.repeat(np.arange(len(slots), dtype=np.int32), np.diff(slots.start)), times)
        sign = frozen(np.repeat(np.sign(slots.delta), times).astype(np.int8))
        changes = Changes(frozen(slot.astype(np.int64)), frozen(slots.part[slot]), frozen(slot), sign, len(slots), rows)
        return self.add(changes, np.repeat(slots.code, times))


class WholeFrames:
    """Aggregates over all rows of a partition."""

    def __init__(self, calls: Sequence[OverCall], schema: Schema, store: RowStore) -> None:
        self._aggregates = Aggregates(calls, schema, store)
        self._rows: Ints = np.zeros(0, np.int64)
        self._results: dict[str, Results] = {}

    def reserve(self, partitions: int) -> None:
        self._rows = grown(self._rows, partitions)
        self._aggregates.reserve(partitions)

    def step(self, slots: Slots) -> Bytes:
        """Whether a result changes, for each slot."""
        changed = np.zeros(len(slots), np.uint8)
        rows = np.empty(2 * len(slots), np.int64)
        over_walks.count_rows(slots.start, slots.part, slots.delta, self._rows, rows)
        self._results = self._aggregates.add_slots(slots, frozen(rows))
        for results in self._results.values():
            results.mark_changed(changed)
        return changed

    def summed(self, seen: Seen) -> dict[str, Summed]:
        place = (2 * seen.slot + (seen.sign > 0)).astype(np.int32)
        return {name: Summed(results, place) for name, results in self._results.items()}


Walk = Callable[[Ints, Signs, Ints, Places, Ints, Places], tuple[int, int]]


class RunningFrames:
    """Aggregates over frames that begin with the first row."""

    def __init__(self, calls: Sequence[OverCall], spec: int, schema: Schema, store: RowStore) -> None:
        self._aggregates, self._spec = Aggregates(calls, schema, store), spec
        self.reserve = self._aggregates.reserve

    def load(self, slots: Slots) -> None:
        rows = np.empty(2 * len(slots), np.int64)
        over_walks.count_rows(slots.start, slots.part, slots.delta, np.zeros(int(slots.part.max(initial=0)) + 1, np.int64), rows)
        self._aggregates.add_slots(slots, frozen(rows))

    def summed(self, seen: Seen, slots: Slots) -> dict[str, Summed]:
        def walk(*out: Any) -> tuple[int, int]:
            return over_walks.walk_totals(seen.frames, self._spec, seen.intervals, seen.context, slots.part, *out)

        return _walked(self._aggregates, walk, seen)


class BoundedFrames:
    """Aggregates over any other frames."""

    def __init__(self, calls: Sequence[OverCall], spec: int, schema: Schema, store: RowStore) -> None:
        self._calls, self._spec, self._schema, self._store = calls, spec, schema, store

    def summed(self, seen: Seen) -> dict[str, Summed]:
        def walk(*out: Any) -> tuple[int, int]:
            return over_walks.slide_frames(seen.targets, seen.frames, self._spec, seen.intervals, seen.context, *out)

        aggregates = Aggregates(self._calls, self._schema, self._store)
        aggregates.reserve(len(seen.intervals))
        return _walked(aggregates, walk, seen)


def _walked(aggregates: Aggregates, walk: Walk, seen: Seen) -> dict[str, Summed]:
    most = 2 * (len(seen.context) + len(seen.intervals))
    row, sign = np.empty(most, np.int64), np.empty(most, np.int8)
    group, slot, rows = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(2 * most, np.int64)
    place = np.empty(len(seen.targets), np.int32)
    n, slots = walk(row, sign, group, slot, rows, place)
    changes = Changes(
        frozen(slot[:n].astype(np.int64)), frozen(group[:n]), frozen(slot[:n]), frozen(sign[:n]), slots, frozen(rows[: 2 * slots])
    )  # fmt: skip
    return {name: Summed(results, place) for name, results in aggregates.add(changes, row[:n]).items()}
