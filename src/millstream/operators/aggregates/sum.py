"""SUM: NULL when no value is present, and where the result type cannot hold it (Spark's try_sum)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import canonical_doubles
from millstream.kernels.compiled import Ints
from millstream.kernels.decimal_sum import decimal_sums
from millstream.kernels.integer_sum import COUNT, HIGH, LOW, sum_integers
from millstream.operators.aggregates.aggregate import Changes, Values
from millstream.operators.aggregates.totals import DecimalTotals, Doubles, DoubleTotals, IntegerTotals, bound_of


class IntegerSumAgg(IntegerTotals):
    """SUM of integers, exact: beyond BIGINT it is NULL until enough has left again."""

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        # the most frequent aggregate has a kernel that goes straight to the result
        values, valid = arrow_buffers.words(arguments[0]), arrow_buffers.valid_mask(arguments[0])
        out, present = np.empty(2 * changes.slots, np.int64), np.empty(2 * changes.slots, np.uint8)
        sum_integers(changes.code, changes.slot, changes.sign, values, valid, self._sums, out, present)
        return Values.of(self.type, out, present)

    def _finish(self, sums: Ints) -> Values:
        present = (sums[:, COUNT] > 0) & (sums[:, HIGH] == sums[:, LOW] >> 63)
        return Values.of(self.type, np.ascontiguousarray(sums[:, LOW]), present.astype(np.uint8))


class DecimalSumAgg(DecimalTotals):
    """SUM of DECIMAL, exact: NULL while it has more digits than the result type."""

    def _finish(self, sums: Ints) -> Values:
        out, present = np.empty((len(sums), 2), np.int64), np.empty(len(sums), np.uint8)
        decimal_sums(sums, bound_of(self.type.precision), out, present)
        return Values.of(self.type, out, present)


class DoubleSumAgg(DoubleTotals):
    """SUM of FLOAT and DOUBLE: the double nearest to the exact sum, in whatever order rows came and went."""

    def _finish(self, sums: Doubles, counts: Ints) -> Values:
        return Values.of(self.type, canonical_doubles(sums).view(np.int64), (counts > 0).astype(np.uint8))
