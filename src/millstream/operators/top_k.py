"""ORDER BY ... LIMIT: the first rows of an order, of all or of each partition, exact at every instant.

All rows are kept: when one of the first leaves, the next one must be known.  In order are only those near the first, the others are
cold (kernels/cold_rows.py): most changes are counted and cost nothing else.  One among the rows shown costs a look at those behind
it: kernels/top_rows.py.  The output is netted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import Micros
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch, Signs
from millstream.kernels import top_rows
from millstream.kernels.cold_rows import grown_rows, grown_zones
from millstream.kernels.compiled import Ints
from millstream.kernels.join_lists import COUNT
from millstream.kernels.ordered_multiset import dump
from millstream.kernels.top_rows import FILLED, LOOKED, UNKNOWN
from millstream.operators.aggregates.aggregate import grown
from millstream.operators.net import netted
from millstream.operators.operator import Arrays, Contents, Operator
from millstream.operators.sorted_partitions import Slots, SortedPartitions, as_if_new, never_there
from millstream.plan.ordering import SortKey

_SLACK = 64
_ALL = 1 << 60


class TopKOp(Operator):
    def __init__(
        self, schema: Schema, partition_by: Sequence[str], order_by: Sequence[SortKey], limit: int, offset: int = 0,
        number: str | None = None, *, in_order: int | None = None,
    ) -> None:  # fmt: skip
        """`in_order`: so many rows of a partition that has many stand in order, at least those up to the last one shown."""
        self.schema = Schema(schema.fields + ((Field(number, pa.int32()),) if number is not None else ()))
        self._numbered = number is not None
        self._skipped, self._stop = offset, offset + limit
        self._in_order = min(2 * self._stop + _SLACK if in_order is None else in_order, _ALL) if self._stop > 0 else _ALL
        self._partitions = SortedPartitions(schema, partition_by, order_by)
        self._cold: Ints = np.empty((0, 4), np.int64)  # of each row, and of each partition: kernels/cold_rows.py
        self._zones: Ints = np.empty((0, 8), np.int64)
        self.looked = 0  # how many cold rows have been looked at
        self._last: Ints = np.empty(0, np.int64)  # of each partition: the last row shown

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        if len(batch) == 0:
            return SignedBatch.empty(self.schema)
        slots = self._partitions.slots(batch)
        changed, sign = self._followed(slots)
        columns = self._partitions.store.columns(changed[:, 0])
        if self._numbered:
            columns.append(pa.array((changed[:, 2] + 1).astype(np.int32)))
        self._partitions.forget(apart=self._cold_codes)
        out = SignedBatch(slots.instant[changed[:, 1]], sign, pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))
        return out if self._partitions.told_apart else netted(out)

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        raise InternalError("the first rows of an order are not kept apart from the others")

    def save(self) -> Arrays:
        _, codes, times = dump(self._partitions.nodes, self._partitions.roots).T
        cold = self._cold_codes()
        return self._partitions.saved(np.append(codes, cold), np.append(times, self._cold[cold, COUNT]))

    def load(self, arrays: Arrays) -> None:
        codes, parts, times = self._partitions.saved_rows(arrays)
        order = np.argsort(parts, kind="stable")
        self._followed(as_if_new(parts[order], codes[order], times[order]))

    def state_rows(self) -> int:
        return self._partitions.rows

    def _cold_codes(self) -> Ints:
        return np.flatnonzero(self._cold[:, COUNT])

    def _followed(self, slots: Slots) -> tuple[Ints, Signs]:
        """Applies the changes; (row, slot, position) of what changes among the rows shown, by slot."""
        partitions, store, progress = self._partitions, self._partitions.store, np.zeros(7, np.int64)
        shown = min(self._stop - self._skipped, partitions.rows + int(np.abs(slots.delta).sum()))
        was, now = np.empty(shown, np.int64), np.empty(shown, np.int64)
        out, sign = np.empty((2 * len(slots.code) + 2 * shown, 3), np.int64), np.empty(2 * len(slots.code) + 2 * shown, np.int8)
        self._last = grown(self._last, len(partitions.roots), fill=UNKNOWN)
        self._cold, self._zones = grown_rows(self._cold, len(store.spans)), grown_zones(self._zones, len(self._last), self._in_order)
        while True:
            state = top_rows.follow(
                slots.start, slots.part, slots.code, slots.delta, partitions.nodes, partitions.roots, self._cold, self._zones,
                self._last, partitions.path, self._skipped, self._stop, self._in_order, self._numbered,
                store.arena, store.spans, progress, was, now, out, sign,
            )  # fmt: skip
            match state:
                case top_rows.DONE:
                    self.looked += int(progress[LOOKED])
                    return out[: progress[FILLED]], sign[: progress[FILLED]]
                case top_rows.OUT_OF_NODES:
                    partitions.grow()
                case top_rows.FULL:
                    out, sign = np.concatenate([out, np.empty_like(out)]), np.concatenate([sign, np.empty_like(sign)])
                case _:
                    raise never_there()
