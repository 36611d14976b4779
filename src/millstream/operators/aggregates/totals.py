"""Exact running totals, which SUM and AVG both are made of: one base class per kind of number.

A subclass says, in `_finish`, what becomes of totals; for slots and for whole groups alike.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.kernels import arrow_buffers, decimal_sum, float_sum, integer_sum
from millstream.kernels.arrow_buffers import valid_mask
from millstream.kernels.compiled import Ints
from millstream.operators.aggregates.aggregate import Aggregate, Changes, Values, grown
from millstream.operators.operator import Arrays

Doubles = npt.NDArray[np.float64]


class _FlatTotals(Aggregate):
    """Totals whose accumulator is one row of words per group."""

    invertible = True
    _width: int

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._sums: Ints = np.zeros((0, self._width), np.int64)

    @abstractmethod
    def _finish(self, sums: Ints) -> Values:
        """Results of rows of accumulators."""

    def result(self, codes: Ints, rows: Ints) -> Values:
        return self._finish(self._sums[codes])

    def reserve(self, capacity: int) -> None:
        self._sums = grown(self._sums, capacity)

    def save(self, codes: Ints) -> Arrays:
        return {"sums": self._sums[codes]}

    def load(self, arrays: Arrays) -> None:
        self._sums[: len(arrays["sums"])] = arrays["sums"]


class IntegerTotals(_FlatTotals):
    """Of integers: kernels/integer_sum.py."""

    _width = integer_sum.WIDTH

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        values, valid, out = (
            arrow_buffers.words(arguments[0]),
            valid_mask(arguments[0]),
            np.empty((2 * changes.slots, self._width), np.int64),
        )
        integer_sum.track_integer_sums(changes.code, changes.slot, changes.sign, values, valid, self._sums, out)
        return self._finish(out)


class DecimalTotals(_FlatTotals):
    """Of DECIMAL: kernels/decimal_sum.py."""

    _width = decimal_sum.WIDTH

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        values, valid, out = (
            arrow_buffers.decimal_words(arguments[0]),
            valid_mask(arguments[0]),
            np.empty((2 * changes.slots, self._width), np.int64),
        )
        decimal_sum.sum_decimals(changes.code, changes.slot, changes.sign, values, valid, self._sums, out)
        return self._finish(out)


class FloatSums:
    """The fixed-point numbers of kernels/float_sum.py, one per group."""

    def __init__(self) -> None:
        self.sums: Ints = np.zeros((0, float_sum.WIDTH), np.int64)
        self.wide = float_sum.new_wide()

    def reserve(self, capacity: int) -> None:
        self.sums = grown(self.sums, capacity)

    def make_room(self) -> None:
        """For more wide numbers."""
        self.wide = float_sum.grown_wide(self.wide)

    def save(self, codes: Ints) -> Arrays:
        sums = self.sums[codes]
        return {"sums": sums, "wide": self.wide[sums[_is_wide(sums), float_sum.ROW]]}

    def load(self, arrays: Arrays) -> None:
        sums, wide = arrays["sums"].copy(), arrays["wide"]
        self.wide = float_sum.wide_of(wide)
        sums[_is_wide(sums), float_sum.ROW] = np.arange(1, len(wide) + 1)
        self.sums[: len(sums)] = sums


class DoubleTotals(Aggregate):
    """Of FLOAT and DOUBLE: kernels/float_sum.py."""

    invertible = True

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._sums = FloatSums()
        self._odds: Ints = np.zeros((0, float_sum.ODD_WIDTH), np.int64)

    @abstractmethod
    def _finish(self, sums: Doubles, counts: Ints) -> Values:
        """Results of sums over so many values."""

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        bits, valid, progress = arrow_buffers.doubles(arguments[0]).view(np.int64), valid_mask(arguments[0]), np.zeros(2, np.int64)
        out, counts = np.empty(2 * changes.slots, np.float64), np.empty(2 * changes.slots, np.int64)
        while not float_sum.sum_doubles(
            changes.code, changes.slot, changes.sign, bits, valid, self._sums.sums, self._odds, self._sums.wide, progress, out, counts
        ):
            self._sums.make_room()
        return self._finish(out, counts)

    def result(self, codes: Ints, rows: Ints) -> Values:
        return self._finish(*float_sum.current_sums(codes, self._sums.sums, self._odds, self._sums.wide))

    def reserve(self, capacity: int) -> None:
        self._sums.reserve(capacity)
        self._odds = grown(self._odds, capacity)

    def save(self, codes: Ints) -> Arrays:
        return {**self._sums.save(codes), "odds": self._odds[codes]}

    def load(self, arrays: Arrays) -> None:
        self._sums.load(arrays)
        self._odds[: len(arrays["odds"])] = arrays["odds"]


def _is_wide(sums: Ints) -> npt.NDArray[np.bool_]:
    wide: npt.NDArray[np.bool_] = sums[:, float_sum.PLACE] == float_sum.WIDE
    return wide


def bound_of(digits: int) -> Ints:
    """10^digits as two words, low word first: every DECIMAL of so many digits is below."""
    return np.array([10**digits % 2**64, 10**digits // 2**64], np.uint64).view(np.int64)
