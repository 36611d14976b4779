"""DISTINCT inside an aggregate: any aggregate that passes over NULL, fed only when a value appears or vanishes.

    count(DISTINCT x)    change ─► multiplicity of (group, x) ─► 0 to 1, 1 to 0: as it is; else: as if x were NULL ─► count

Aggregates with the same arguments share the multiplicities; those with a condition besides, where only some rows count, have counts of
their own there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Ints
from millstream.operators.aggregates.aggregate import Aggregate, Changes, Results
from millstream.operators.aggregates.count import CountAgg
from millstream.operators.aggregates.distinct_values import DistinctValues
from millstream.operators.operator import Arrays, prefixed, without_prefix


class DistinctAgg(Aggregate):
    invertible = False

    def __init__(self, inner: Aggregate, values: DistinctValues, way: str | None, *, owner: bool) -> None:
        """`way` is the column of its condition, which is the last argument then."""
        super().__init__(inner.type)
        self._inner = inner
        self._values = values
        self._way = way
        self._owner = owner  # one of those that share the multiplicities keeps them

    def add(self, changes: Changes, arguments: list[pa.Array]) -> Results:
        if self._way is None:
            flips = self._values.flips(changes, arguments)
        else:
            flips = self._values.flips_where(self._way, changes, arguments[:-1], arguments[-1])
        if isinstance(self._inner, CountAgg):
            return self._inner.counted(changes, frozen(flips))
        kept = pa.array(flips.astype(np.bool_))
        return self._inner.add(changes, [pc.if_else(kept, arguments[0], pa.scalar(None, arguments[0].type))])

    def result(self, codes: Ints, rows: Ints) -> Results:
        return self._inner.result(codes, rows)

    def reserve(self, capacity: int) -> None:
        self._inner.reserve(capacity)

    def save(self, codes: Ints) -> Arrays:
        arrays = prefixed(self._inner.save(codes), "inner")
        return arrays | prefixed(self._values.save(codes), "distinct") if self._owner else arrays

    def load(self, arrays: Arrays) -> None:
        self._inner.load(without_prefix(arrays, "inner"))
        if self._owner:
            self._values.load(without_prefix(arrays, "distinct"))

    def state_rows(self) -> int:
        return self._inner.state_rows() + (self._values.state_rows() if self._owner else 0)
