"""Results of a clause as ids: one row of each source, and the earliest and the latest of their timestamps.

A combination is in a window if its earliest timestamp is not before BEGIN and its latest not after END.  They are kept in order of the
earliest, since END is nearly always NOW and then excludes nothing.  A row that joins old ones brings combinations into the middle of that
order, so there are a few runs, each in order, merged as they grow; a run may have ranked trees over it (totals.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.signed_batch import Instants
from millstream.kernels.compiled import Ints
from millstream.kernels.ranked_tree import RankedTree
from millstream.kernels.sliding_array import SlidingArray
from millstream.psoup.query import ColumnOf, Mask

Values = Callable[[ColumnOf, Ints], pa.Array]
"""The values of a column in rows of its source."""


@dataclass(frozen=True)
class Combinations:
    ids: Ints
    """(combinations, sources)"""
    earliest: Instants
    latest: Instants

    @staticmethod
    def none(sources: int) -> Combinations:
        return Combinations(np.empty((0, sources), np.int64), np.empty(0, np.int64), np.empty(0, np.int64))

    @staticmethod
    def concat(parts: Sequence[Combinations]) -> Combinations:
        return Combinations(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "earliest", "latest")))

    def __len__(self) -> int:
        return len(self.earliest)

    def __getitem__(self, chosen: slice | Mask | Ints) -> Combinations:
        return Combinations(self.ids[chosen], self.earliest[chosen], self.latest[chosen])

    def in_order(self) -> Combinations:
        """By the earliest timestamp, then as they came."""
        return self if bool((np.diff(self.earliest) >= 0).all()) else self[np.argsort(self.earliest, kind="stable")]

    def between(self, begin: Micros, end: Micros) -> Combinations:
        """Those in a window; `self` is in order."""
        part = self[int(np.searchsorted(self.earliest, begin, "left")) : int(np.searchsorted(self.earliest, end, "right"))]
        inside = part.latest <= end
        return part if inside.all() else part[inside]


class Run:
    """In order; grows at the right, shrinks at the left.  Rows of its trees have the numbers of combinations."""

    def __init__(self, sources: int) -> None:
        self._ids = SlidingArray(np.int64, sources)
        self._earliest = SlidingArray()
        self._latest = SlidingArray()
        self.newest = -(2**63)
        """No combination has a later timestamp."""
        self.trees: dict[ColumnOf, RankedTree] = {}

    def __len__(self) -> int:
        return len(self._earliest)

    @property
    def first(self) -> int:
        """The number of the first combination that is there."""
        return self._earliest.first

    @property
    def combinations(self) -> Combinations:
        """A view, until the next change."""
        return Combinations(self._ids.values, self._earliest.values, self._latest.values)

    def append(self, more: Combinations) -> None:
        self._ids.append(more.ids)
        self._earliest.append(more.earliest)
        self._latest.append(more.latest)
        self.newest = max(self.newest, int(more.latest.max(initial=-(2**63))))

    def drop_before(self, instant: Micros) -> None:
        row = self.stretch(instant, None)[0]
        for array in (self._ids, self._earliest, self._latest):
            array.drop_before(row)
        for tree in self.trees.values():
            tree.drop_before(row)

    def stretch(self, begin: Micros, end: Micros | None) -> tuple[int, int]:
        """The numbers of combinations whose earliest timestamp is from begin to end."""
        values, first = self._earliest.values, self._earliest.first
        start = first + int(np.searchsorted(values, begin, "left"))
        stop = self._earliest.stop if end is None else first + int(np.searchsorted(values, end, "right"))
        return start, max(start, stop)

    def all_until(self, end: Micros, start: int, stop: int) -> bool:
        """No combination of a stretch is later than `end`."""
        first = self._latest.first
        return self.newest <= end or bool((self._latest.values[start - first : stop - first] <= end).all())


class CombinationRuns:
    """All combinations of a clause; `names` are those of its sources, in the order of ids."""

    def __init__(self, names: Sequence[str], values: Values) -> None:
        self._names = tuple(names)
        self._values = values
        self._tree_columns: list[ColumnOf] = []
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def add(self, more: Combinations) -> None:
        more = more.in_order()
        if not len(more):
            return
        if not self._runs or not len(self._runs[-1]) or more.earliest[0] >= self._runs[-1].combinations.earliest[-1]:
            self._runs = self._runs or [Run(len(self._names))]
            self._extend(self._runs[-1], more)
        else:
            self._runs.append(self._made(more))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs[-2:] = [self._made(Combinations.concat([run.combinations for run in self._runs[-2:]]).in_order())]

    def plant(self, columns: Sequence[ColumnOf]) -> None:
        """From now on there are trees over these columns."""
        for column in columns:
            if column not in self._tree_columns:
                self._tree_columns.append(column)
                for run in self._runs:
                    run.trees[column] = self._tree(column, run.combinations, run.first)

    def between(self, begin: Micros, end: Micros) -> Combinations:
        """Those in a window, run by run."""
        parts = [run.combinations.between(begin, end) for run in self._runs]
        return parts[0] if len(parts) == 1 else Combinations.concat([*parts, Combinations.none(len(self._names))])

    def drop_before(self, instant: Micros) -> None:
        for run in self._runs:
            run.drop_before(instant)
        self._runs = [run for run in self._runs if len(run)]

    @property
    def nbytes(self) -> int:
        return sum(8 * len(run) * (len(self._names) + 2) for run in self._runs)

    def _made(self, combinations: Combinations) -> Run:
        run = Run(len(self._names))
        run.append(combinations)
        run.trees = {column: self._tree(column, combinations, 0) for column in self._tree_columns}
        return run

    def _extend(self, run: Run, more: Combinations) -> None:
        for column in self._tree_columns:
            if column not in run.trees:  # the run is new
                run.trees[column] = self._tree(column, run.combinations, run.first)
            run.trees[column].append(self._leaves(column, more))
        run.append(more)

    def _tree(self, column: ColumnOf, combinations: Combinations, first: int) -> RankedTree:
        leaves = self._leaves(column, combinations)
        tree = RankedTree(leaves.type, first)
        tree.append(leaves)
        return tree

    def _leaves(self, column: ColumnOf, combinations: Combinations) -> pa.Array:
        return self._values(column, np.ascontiguousarray(combinations.ids[:, self._names.index(column.source)]))
