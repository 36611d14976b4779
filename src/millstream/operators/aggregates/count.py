"""COUNT(*) and COUNT(x)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels.arrow_buffers import valid_mask
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.integer_sum import count_values
from millstream.operators.aggregates.aggregate import Aggregate, Changes, Values, grown
from millstream.operators.operator import Arrays


class CountRowsAgg(Aggregate):
    """COUNT(*): AggregateOp counts the rows of every group anyway."""

    invertible = True

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        return Values.of(self.type, changes.rows)

    def result(self, codes: Ints, rows: Ints) -> Values:
        return Values.of(self.type, rows)

    def reserve(self, capacity: int) -> None:
        pass

    def save(self, codes: Ints) -> Arrays:
        return {}

    def load(self, arrays: Arrays) -> None:
        pass


class CountAgg(Aggregate):
    """COUNT(x): the rows whose x is not NULL."""

    invertible = True

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._counts: Ints = np.zeros(0, np.int64)

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        return self.counted(changes, valid_mask(arguments[0]))

    def counted(self, changes: Changes, counts: Bytes) -> Values:
        """Given which of the changes count (none said: all do)."""
        out = np.empty(2 * changes.slots, np.int64)
        count_values(changes.code, changes.slot, changes.sign, counts, self._counts, out)
        return Values.of(self.type, out)

    def result(self, codes: Ints, rows: Ints) -> Values:
        return Values.of(self.type, self._counts[codes])

    def reserve(self, capacity: int) -> None:
        self._counts = grown(self._counts, capacity)

    def save(self, codes: Ints) -> Arrays:
        return {"counts": self._counts[codes]}

    def load(self, arrays: Arrays) -> None:
        self._counts[: len(arrays["counts"])] = arrays["counts"]
