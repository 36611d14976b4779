"""ORDER BY ... LIMIT: the first rows of an order, of all or of each partition, exact at every instant.

All rows are kept, in order: when one of the first leaves, the next one must be known.  A change costs O(log rows), and where it
falls among the rows shown, one look at those behind it: kernels/top_rows.py.  The output is netted.
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
from millstream.kernels.compiled import Ints
from millstream.kernels.top_rows import FILLED, UNKNOWN
from millstream.operators.aggregates.aggregate import grown
from millstream.operators.net import netted
from millstream.operators.operator import Arrays, Contents, Operator
from millstream.operators.sorted_partitions import Slots, SortedPartitions, never_there
from millstream.plan.ordering import SortKey


class TopKOp(Operator):
    def __init__(
        self, schema: Schema, partition_by: Sequence[str], order_by: Sequence[SortKey], limit: int, offset: int = 0,
        number: str | None = None,
    ) -> None:  # fmt: skip
        self.schema = Schema(schema.fields + ((Field(number, pa.int32()),) if number is not None else ()))
        self._numbered = number is not None
        self._skipped, self._stop = offset, offset + limit
        self._partitions = SortedPartitions(schema, partition_by, order_by)
        self._last: Ints = np.empty(0, np.int64)  # of each partition: the last row shown

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        if len(batch) == 0:
            return SignedBatch.empty(self.schema)
        slots = self._partitions.slots(batch)
        changed, sign = self._followed(slots)
        columns = self._partitions.store.columns(changed[:, 0])
        if self._numbered:
            columns.append(pa.array((changed[:, 2] + 1).astype(np.int32)))
        self._partitions.forget()
        out = SignedBatch(slots.instant[changed[:, 1]], sign, pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))
        return out if self._partitions.told_apart else netted(out)

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        raise InternalError("the first rows of an order are not kept apart from the others")

    def save(self) -> Arrays:
        return self._partitions.save()

    def load(self, arrays: Arrays) -> None:
        self._partitions.load(arrays)

    def state_rows(self) -> int:
        return self._partitions.rows

    def _followed(self, slots: Slots) -> tuple[Ints, Signs]:
        """Applies the changes; (row, slot, position) of what changes among the rows shown, by slot."""
        partitions, store, progress = self._partitions, self._partitions.store, np.zeros(6, np.int64)
        shown = min(self._stop - self._skipped, partitions.rows + int(np.abs(slots.delta).sum()))
        was, now = np.empty(shown, np.int64), np.empty(shown, np.int64)
        out, sign = np.empty((2 * len(slots.code) + 2 * shown, 3), np.int64), np.empty(2 * len(slots.code) + 2 * shown, np.int8)
        self._last = grown(self._last, len(partitions.roots), fill=UNKNOWN)
        while True:
            state = top_rows.follow(
                slots.start, slots.part, slots.code, slots.delta, partitions.nodes, partitions.roots, self._last, partitions.path,
                self._skipped, self._stop, self._numbered, store.arena, store.spans, progress, was, now, out, sign,
            )  # fmt: skip
            match state:
                case top_rows.DONE:
                    return out[: progress[FILLED]], sign[: progress[FILLED]]
                case top_rows.OUT_OF_NODES:
                    partitions.grow()
                case top_rows.FULL:
                    out, sign = np.concatenate([out, np.empty_like(out)]), np.concatenate([sign, np.empty_like(sign)])
                case _:
                    raise never_there()
