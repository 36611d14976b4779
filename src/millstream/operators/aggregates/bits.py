"""BIT_AND, BIT_OR and BIT_XOR of integers: from how many values have each bit; NULL when no value is present."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers, bit_counts
from millstream.kernels.compiled import Ints
from millstream.operators.aggregates.aggregate import Aggregate, Changes, Values, grown
from millstream.operators.operator import Arrays

OPERATIONS = {"bit_and": bit_counts.AND, "bit_or": bit_counts.OR, "bit_xor": bit_counts.XOR}


class BitAgg(Aggregate):
    invertible = True

    def __init__(self, type_: pa.DataType, function: str) -> None:
        super().__init__(type_)
        self._operation = OPERATIONS[function]
        self._counts: Ints = np.zeros((0, type_.bit_width + 1), np.int64)

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        values, valid = arrow_buffers.words(arguments[0]), arrow_buffers.valid_mask(arguments[0])
        out, present = np.empty(2 * changes.slots, np.int64), np.empty(2 * changes.slots, np.uint8)
        bit_counts.track_bits(changes.code, changes.slot, changes.sign, values, valid, self._counts, self._operation, out, present)
        return Values.of(self.type, out, present)

    def result(self, codes: Ints, rows: Ints) -> Values:
        return Values.of(self.type, *bit_counts.current_bits(codes, self._counts, self._operation))

    def reserve(self, capacity: int) -> None:
        self._counts = grown(self._counts, capacity)

    def save(self, codes: Ints) -> Arrays:
        return {"counts": self._counts[codes]}

    def load(self, arrays: Arrays) -> None:
        self._counts[: len(arrays["counts"])] = arrays["counts"]
