"""AVG: the exact sum divided by the number of values; NULL when there is none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels.arrow_buffers import canonical_doubles
from millstream.kernels.compiled import Ints
from millstream.kernels.decimal_sum import decimal_averages
from millstream.kernels.integer_sum import integer_averages
from millstream.operators.aggregates.aggregate import Values
from millstream.operators.aggregates.totals import DecimalTotals, Doubles, DoubleTotals, IntegerTotals, bound_of

_MOST_DIGITS = 38


class IntegerAvgAgg(IntegerTotals):
    """AVG of integers, a DOUBLE."""

    def _finish(self, sums: Ints) -> Values:
        out, present = np.empty(len(sums), np.float64), np.empty(len(sums), np.uint8)
        integer_averages(sums, out, present)
        return Values.of(self.type, out.view(np.int64), present)


class DecimalAvgAgg(DecimalTotals):
    """AVG of DECIMAL(p, s), rounded HALF_UP.  As in Spark, NULL while the sum does not fit DECIMAL(p + 10, s)."""

    def __init__(self, type_: pa.DataType, argument: pa.DataType) -> None:
        super().__init__(type_)
        self._sum_bound = bound_of(min(argument.precision + 10, _MOST_DIGITS))
        self._factor = 10 ** (type_.scale - argument.scale)

    def _finish(self, sums: Ints) -> Values:
        out, present = np.zeros((len(sums), 2), np.int64), np.empty(len(sums), np.uint8)
        decimal_averages(sums, self._sum_bound, self._factor, bound_of(self.type.precision), out, present)
        return Values.of(self.type, out, present)


class DoubleAvgAgg(DoubleTotals):
    """AVG of FLOAT and DOUBLE."""

    def _finish(self, sums: Doubles, counts: Ints) -> Values:
        averages = canonical_doubles(sums / np.maximum(counts, 1))
        return Values.of(self.type, averages.view(np.int64), (counts > 0).astype(np.uint8))
