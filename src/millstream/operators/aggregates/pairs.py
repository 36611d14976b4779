"""(group, value) as dense codes, and how often each is there: what FIRST, MODE and their like are made of.

A value may be a tuple of columns.  A value can only leave once it is there, so inside an instant what enters goes first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.signed_batch import Instants, Signs
from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.multiplicity import grown_copies, new_copies, number_copies, queue_copies, queued, without_copies
from millstream.kernels.slots import arrivals_first
from millstream.operators.aggregates.aggregate import Changes, grown
from millstream.operators.operator import Arrays


class Pairs:
    """The pairs that are there, and how often."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._table = KeyTable([pa.int64(), *types])
        self._counts: Ints = np.zeros(0, np.int64)

    def _encoded(self, groups: Ints, values: Sequence[pa.Array]) -> Ints:
        codes = self._table.encode([pa.array(groups), *values])
        self._reserve(self._table.capacity)
        return frozen(codes)

    def _reserve(self, capacity: int) -> None:
        self._counts = grown(self._counts, capacity)

    def _forget(self, pairs: Ints) -> None:
        self._table.release(without_copies(pairs, self._counts))

    def state_rows(self) -> int:
        return len(self._table)

    def save(self, codes: Ints) -> Arrays:
        """The groups with these codes will have the codes 0, 1, 2, ..."""
        live = self._table.live_codes()
        return saved_pairs(self._table, live, codes) | {"times": self._counts[live]}

    def load(self, arrays: Arrays) -> None:
        pairs = self._encoded(arrays["group"], arrow_buffers.from_bytes(arrays["values"]))
        self._counts[pairs] = arrays["times"]


def saved_pairs(table: KeyTable, pairs: Ints, groups: Ints) -> Arrays:
    """These pairs of a table whose first column is the group's code; the groups with these codes will have the codes 0, 1, 2, ..."""
    group, *values = table.decode(pairs)
    return {"group": np.searchsorted(groups, group.to_numpy(zero_copy_only=False)), "values": arrow_buffers.to_bytes(values)}


class CopyNumbers(Pairs):
    """Says of each change how many copies of its value there are, with the one that it adds or takes away."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._added: Changes | None = None
        self._numbers: Ints

    def numbers(self, changes: Changes, values: Sequence[pa.Array], counted: Bytes) -> Ints:
        """Arbitrary where a row does not count.  Applies the same changes only once."""
        if changes is not self._added:
            self._added, self._numbers = changes, self._applied(changes, values, counted)
        return self._numbers

    def _applied(self, changes: Changes, values: Sequence[pa.Array], counted: Bytes) -> Ints:
        pairs, numbers = self._encoded(changes.code, values), np.zeros(len(changes.code), np.int64)
        if not number_copies(pairs, changes.sign, arrivals_first(changes.instant, changes.sign), counted, self._counts, numbers):
            raise InternalError("a group was asked to give back a value that it never got")
        self._forget(pairs)
        return numbers


class Copies(Pairs):
    """Says of each change when the row came that it adds or takes away.  Of equal rows the oldest one leaves first."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._ends: Ints = np.zeros((0, 2), np.int64)
        self._copies = new_copies()
        super().__init__(types)
        self._added: Changes | None = None
        self._came: Ints
        self._kept = 0

    def came(self, changes: Changes, values: Sequence[pa.Array], counted: Bytes) -> Ints:
        """Arbitrary where a row does not count.  Applies the same changes only once."""
        if changes is not self._added:
            self._added, self._came = changes, self._applied(changes, values, counted)
        return self._came

    def _applied(self, changes: Changes, values: Sequence[pa.Array], counted: Bytes) -> Ints:
        pairs, order = self._encoded(changes.code, values), arrivals_first(changes.instant, changes.sign)
        came = self._queued(changes.instant, changes.sign, order, counted, pairs)
        self._forget(pairs)
        return came

    def _queued(self, instant: Instants, sign: Signs, order: Ints, counted: Bytes, pairs: Ints) -> Ints:
        came = np.empty(len(pairs), np.int64)
        self._copies = grown_copies(self._copies, int((sign > 0).sum()))
        if not queue_copies(instant, sign, order, counted, pairs, self._counts, self._ends, self._copies, came):
            raise InternalError("a group was asked to give back a row that it never got")
        self._kept += int((sign if len(counted) == 0 else sign * counted).sum())
        return came

    def _reserve(self, capacity: int) -> None:
        super()._reserve(capacity)
        self._ends = grown(self._ends, capacity)

    def state_rows(self) -> int:
        return self._kept

    def save(self, codes: Ints) -> Arrays:
        return {**super().save(codes), "came": queued(self._table.live_codes(), self._counts, self._ends, self._copies)}

    def load(self, arrays: Arrays) -> None:
        pairs = self._encoded(arrays["group"], arrow_buffers.from_bytes(arrays["values"]))
        came = frozen(arrays["came"])
        arrivals = frozen(np.ones(len(came), np.int8))
        self._queued(came, arrivals, np.empty(0, np.int64), ALL_VALID, frozen(np.repeat(pairs, arrays["times"])))
