"""MODE: the value that is there most often; of several the least, or the greatest if that is asked for.

Each copy of a value has its number among them.  Of the pairs (number, value) the one with the greatest number has the mode:

    a b a c b a     (1, a) (1, b) (2, a) (1, c) (2, b) (3, a)

A value that comes brings one pair, and one that leaves takes the one with its greatest number away.
"""

from __future__ import annotations

import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.compiled import Ints
from millstream.operators.aggregates.aggregate import Changes
from millstream.operators.aggregates.by_order import Beside
from millstream.operators.aggregates.ends import Edges
from millstream.operators.aggregates.pairs import CopyNumbers
from millstream.operators.operator import Arrays, prefixed, without_prefix


class Occurrences(Beside):
    """The mode stands beside the least number if those are turned round, so that the least value comes first, else beside the greatest."""

    def __init__(self, x: pa.DataType, *, turned: bool) -> None:
        super().__init__(x, pa.int64())
        self._numbers = CopyNumbers([x])
        self._turned = turned

    def add_pairs(self, changes: Changes, arguments: list[pa.Array]) -> Edges:
        counted = arrow_buffers.valid_mask(arguments[0])
        number = self._numbers.numbers(changes, arguments, counted)
        by = arrow_buffers.from_words(-number if self._turned else number, counted, pa.int64())
        return super().add_pairs(changes, [arguments[0], by])

    def save(self, codes: Ints) -> Arrays:
        return prefixed(super().save(codes), "order") | prefixed(self._numbers.save(codes), "copies")

    def load(self, arrays: Arrays) -> None:
        super().load(without_prefix(arrays, "order"))
        self._numbers.load(without_prefix(arrays, "copies"))
