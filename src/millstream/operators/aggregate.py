"""GROUP BY: one row per group, kept exact at every instant.

    batch ─► key columns ─► group code of each change
                              └─► slot of each change: (group, instant)
                                    ├─► rows of the group before and after each slot
                                    └─► each aggregate's value before and after each slot
    each slot:  -before if the group existed, +after if it exists, nothing if both are the same row

A step costs O(changes), whatever the window holds and however many groups there are.  The output is
netted per instant.  A group lives while it has rows; with no keys there is one group, for ever.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import BEGINNING, Micros
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels import slots
from millstream.kernels.arrow_buffers import frozen, plain
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.slots import Places
from millstream.operators.aggregates import aggregates_for
from millstream.operators.aggregates.aggregate import Changes, Results, grown
from millstream.operators.operator import Arrays, Contents, Operator, prefixed, without_prefix
from millstream.plan.logical import AggregateCall

_ONLY = np.zeros(1, np.int64)
"""The code of the one group there is without keys."""


def _has_one_form(field: Field) -> bool:
    """Equal values have equal bits: not so for 0.0 and -0.0."""
    return not (pa.types.is_floating(field.type) or pa.types.is_nested(field.type))


class AggregateOp(Operator):
    def __init__(self, input_schema: Schema, keys: tuple[str, ...], calls: tuple[AggregateCall, ...], *, append_only: bool = False) -> None:
        """With `append_only` no row ever leaves the input."""
        self._input_schema = input_schema
        self._key_fields = input_schema.select(keys).fields
        self._calls = calls
        self.schema = Schema(self._key_fields + tuple(Field(call.name, call.type) for call in calls))
        self._table = KeyTable([field.type for field in self._key_fields]) if keys else None
        self._aggregates = aggregates_for(calls, input_schema, append_only=append_only)
        self._groups: Ints = np.zeros((0, 2), np.int64)
        self._slots_so_far = 1  # a group that no step has touched says 0
        self._reserve()

    # --- a step -------------------------------------------------------------------------------

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        if len(batch) == 0:
            return SignedBatch.empty(self.schema)
        batch = SignedBatch(frozen(batch.instant), frozen(batch.sign), batch.rows)
        codes = self._encode(batch.rows)
        changes, first = self._assign_slots(batch, codes)
        values = [
            aggregate.add(changes, [plain(batch.rows.column(name)) for name in call.columns])
            for aggregate, call in zip(self._aggregates, self._calls, strict=True)
        ]
        out = self._emit(batch, changes, first, values)
        self._release(changes, first)
        return out

    def _encode(self, rows: pa.RecordBatch) -> Ints:
        if self._table is None:
            return np.zeros(rows.num_rows, np.int64)
        codes = self._table.encode([rows.column(field.name) for field in self._key_fields])
        self._reserve()
        return codes

    def _assign_slots(self, batch: SignedBatch, codes: Ints) -> tuple[Changes, Places]:
        n = len(batch)
        slot, first, rows = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(2 * n, np.int64)
        count = slots.assign_slots(codes, batch.instant, batch.sign, self._groups, self._slots_so_far, slot, first, rows)
        if slots.least_after(rows, count) < 0:
            raise InternalError("a group was asked to give back a row that it never got")
        return Changes(batch.instant, codes, slot, batch.sign, count, rows[: 2 * count]), first[:count]

    def _emit(self, batch: SignedBatch, changes: Changes, first: Places, values: list[Results]) -> SignedBatch:
        changed = np.zeros(changes.slots, np.uint8)
        for column in values:
            column.mark_changed(changed)
        most = 2 * changes.slots
        side, change = np.empty(most, np.int32), np.empty(most, np.int32)
        sign, at = np.empty(most, np.int8), np.empty(most, np.int64)
        n = slots.emit(changes.rows, changed, self._table is None, first, batch.instant, side, sign, at, change)
        places = None if n == most else side[:n]
        columns = self._key_columns(batch, changes.code, change[:n]) + [column.take(places) for column in values]
        return SignedBatch(at[:n], sign[:n], pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))

    def _key_columns(self, batch: SignedBatch, codes: Ints, change: Places) -> list[pa.Array]:
        """The keys of the groups of these changes.  Copied from the batch where equal keys have equal bits."""
        if self._table is None:
            return []
        if not all(map(_has_one_form, self._key_fields)):
            return self._table.decode(codes[change])
        places = pa.array(change)
        return [plain(batch.rows.column(field.name).take(places)).cast(field.type) for field in self._key_fields]

    def _release(self, changes: Changes, first: Places) -> None:
        if self._table is not None:
            self._table.release(slots.vanished(changes.code, first, changes.rows, self._groups, self._slots_so_far))
        self._slots_so_far += changes.slots

    # --- the relation, and its state ----------------------------------------------------------

    def start(self) -> SignedBatch:
        if self._table is not None:
            return SignedBatch.empty(self.schema)
        over_nothing = AggregateOp(self._input_schema, (), self._calls)
        return SignedBatch.arrivals(np.array([BEGINNING]), over_nothing._rows(_ONLY))

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        return self._rows(self._live())

    def save(self) -> Arrays:
        live = self._live()
        arrays: Arrays = {"rows": self._groups[live, slots.ROWS]}
        if self._table is not None:
            arrays |= prefixed(self._table.save(), "keys")
        for i, aggregate in enumerate(self._aggregates):
            arrays |= prefixed(aggregate.save(live), str(i))
        return arrays

    def load(self, arrays: Arrays) -> None:
        if self._table is not None:
            self._table.load(without_prefix(arrays, "keys"))
            self._reserve()
        self._groups[: len(arrays["rows"]), slots.ROWS] = arrays["rows"]
        for i, aggregate in enumerate(self._aggregates):
            aggregate.load(without_prefix(arrays, str(i)))

    def state_rows(self) -> int:
        return len(self._live()) + sum(aggregate.state_rows() for aggregate in self._aggregates)

    def _live(self) -> Ints:
        return _ONLY if self._table is None else self._table.live_codes()

    def _rows(self, codes: Ints) -> pa.RecordBatch:
        rows = self._groups[codes, slots.ROWS]
        keys = self._table.decode(codes) if self._table is not None else []
        columns = keys + [aggregate.result(codes, rows).take(None) for aggregate in self._aggregates]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow())

    def _reserve(self) -> None:
        capacity = 1 if self._table is None else self._table.capacity
        if capacity > len(self._groups):
            self._groups = grown(self._groups, capacity)
            for aggregate in self._aggregates:
                aggregate.reserve(capacity)
