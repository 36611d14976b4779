"""SUM: NULL when no value is present, and where the result type cannot hold it (Spark's try_sum)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels.arrow_buffers import valid_mask, words
from millstream.kernels.compiled import Ints
from millstream.kernels.integer_sum import COUNT, HIGH, LOW, WIDTH, sum_integers
from millstream.operators.aggregates.aggregate import Aggregate, Changes, Values, grown
from millstream.operators.operator import Arrays


class IntegerSumAgg(Aggregate):
    """SUM of integers, exact: beyond BIGINT it is NULL until enough has left again."""

    invertible = True

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._sums: Ints = np.zeros((0, WIDTH), np.int64)

    def add(self, changes: Changes, argument: pa.Array | None) -> Values:
        out, valid = np.empty(2 * changes.slots, np.int64), np.empty(2 * changes.slots, np.uint8)
        sum_integers(changes.code, changes.slot, changes.sign, words(argument), valid_mask(argument), self._sums, out, valid)
        return Values.of(self.type, out, valid)

    def result(self, codes: Ints, rows: Ints) -> Values:
        sums = self._sums[codes]
        valid = (sums[:, COUNT] > 0) & (sums[:, HIGH] == sums[:, LOW] >> 63)
        return Values.of(self.type, np.ascontiguousarray(sums[:, LOW]), valid.astype(np.uint8))

    def reserve(self, capacity: int) -> None:
        self._sums = grown(self._sums, capacity)

    def save(self, codes: Ints) -> Arrays:
        return {"sums": self._sums[codes]}

    def load(self, arrays: Arrays) -> None:
        self._sums[: len(arrays["sums"])] = arrays["sums"]
