"""MIN_BY and MAX_BY: the value beside the least or the greatest of another; FIRST and LAST: beside the instant at which it came.

    min_by(x, y)   the second of the least (y, x);        a row whose y is NULL does not count
    first(x)       the second of the least (instant, x);  a NULL counts like any value

Ties are decided by x, NULL before all, so an answer depends on nothing but the rows and when they came.
FIRST and LAST may have a second column, which says which rows count.
"""

from __future__ import annotations

import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.pair_keys import PairKeys
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.aggregates.aggregate import Changes, Values
from millstream.operators.aggregates.ends import Edges
from millstream.operators.aggregates.min_max import Extremes
from millstream.operators.aggregates.multisets import SharingAgg
from millstream.operators.aggregates.pairs import Copies
from millstream.operators.operator import Arrays, prefixed, without_prefix


class Beside(Extremes):
    """The least and the greatest (y, x) of each group, for the sake of x."""

    sort_keys: PairKeys

    def __init__(self, x: pa.DataType, y: pa.DataType) -> None:
        super().__init__(PairKeys(y, x))

    def add_pairs(self, changes: Changes, arguments: list[pa.Array]) -> Edges:
        x, y = arguments
        mask = y.is_null() if y.null_count else None
        return self.add(changes, pa.StructArray.from_arrays([y, x], fields=list(self.sort_keys.type), mask=mask))


class InTime(Beside):
    """The same with the instant at which x came for y."""

    def __init__(self, x: pa.DataType) -> None:
        super().__init__(x, pa.int64())
        self._copies = Copies([x])

    def add_pairs(self, changes: Changes, arguments: list[pa.Array]) -> Edges:
        counted = _true(arguments[1]) if len(arguments) > 1 else ALL_VALID
        came = self._copies.came(changes, arguments[:1], counted)
        return super().add_pairs(changes, [arguments[0], arrow_buffers.from_words(came, counted, pa.int64())])

    def save(self, codes: Ints) -> Arrays:
        return prefixed(super().save(codes), "order") | prefixed(self._copies.save(codes), "copies")

    def load(self, arrays: Arrays) -> None:
        super().load(without_prefix(arrays, "order"))
        self._copies.load(without_prefix(arrays, "copies"))


class _BesideAgg(SharingAgg[Beside]):
    _greatest: bool

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Values:
        return self._values(self._shared.add_pairs(changes, arguments))

    def result(self, codes: Ints, rows: Ints) -> Values:
        return self._values(self._shared.result(codes))

    def _values(self, edges: Edges) -> Values:
        low, high, present = edges
        found = self._shared.sort_keys.seconds(high if self._greatest else low, present)
        equal = SortKeys(found.type)  # equal values have equal words, whatever they stood beside
        return Values(equal.keys(found), arrow_buffers.valid_mask(found), equal.values)


class MinByAgg(_BesideAgg):
    """MIN_BY and FIRST: NULL when no row counts."""

    _greatest = False


class MaxByAgg(_BesideAgg):
    """MAX_BY and LAST: NULL when no row counts."""

    _greatest = True


def _true(condition: pa.Array) -> Bytes:
    return frozen(arrow_buffers.words(condition.fill_null(fill_value=False)).astype("uint8"))
