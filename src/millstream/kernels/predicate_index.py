"""Thousands of standing selections, asked about a whole batch of rows at once: which rows does each of them want?

A selection is a conjunction of factors `column op constant`, op one of < <= = >= >.  All factors on one column are one interval of keys
(comparison_keys.py), so a selection is a box, a row is a point, and the question is which boxes hold the point.

    boxes      low, high, asks: (slots, columns)     a slot for each selection; asks = 0 where it has no factor on the column

    lists      for each column, (key, slot) in order of keys: selections that want this very value.  A row finds its key by bisection
               and looks at the boxes behind it, which are few: a list that would be longer than LONGEST_LIST goes to the blocks.

    blocks     the other selections, a bit for each, up to 1,024 in a block.  For each column of a block, the keys at which the set of
               selections that hold changes, in order, and each set as a row of bits:

                      key:        |  3       |  7      |  9
                      bits:  0110 |  0111    |  1101   |  0001       a selection without a factor here has its bit in all of them

               A row finds its place on each column by bisection, and the bits of all columns are joined by AND.

PSoup (section 5.2 of its paper) has a tree with five lists at each constant, and counters that say how many factors of a query hold; the
work for a row is as great as the number of factors that hold, and half of all `<` hold for a usual value.  Here it is a word for 64
selections and column, whatever holds.  Both ways to find a candidate are exact here: what they find, matches.

A NULL matches no factor.  NaN equals itself and is greater than all other numbers, -0.0 is 0.0, as in Spark.
Adding or removing a selection marks its block, which is built again (below a millisecond) before the next rows are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.kernels.arrow_buffers import frozen, valid_mask
from millstream.kernels.comparison_keys import GREATEST_KEY, LEAST_KEY, ComparisonKeys, Interval, Operator
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.predicate_blocks import Block, Boxes, Found, Lists

LONGEST_LIST = 64
_STALE = 1024


@dataclass(frozen=True, slots=True)
class Factor:
    """`column op constant`; the constant is of the column's type."""

    column: str
    op: Operator
    constant: Any


class PredicateIndex:
    """`types`: of the columns that factors may name.  Selections go by numbers that the caller chooses."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self._types = dict(types)
        self._keys: dict[str, ComparisonKeys] = {}  # in the order of columns of the boxes
        self._generation = 0
        self._factors: dict[int, tuple[Factor, ...]] = {}
        self._boxes = Boxes()
        self._lists: dict[int, Lists] = {}
        self._blocks: list[Block] = []
        self._place: dict[int, tuple[int, Block | Lists]] = {}
        """Of each selection that may hold: its slot, and where it is found."""
        self._removed = 0

    def __len__(self) -> int:
        return len(self._factors)

    def __contains__(self, number: object) -> bool:
        return number in self._factors

    @property
    def nbytes(self) -> int:
        """Of the arrays in which it looks; asked often, so it does not go through the selections."""
        parts: list[Boxes | Lists | Block] = [self._boxes, *self._lists.values(), *self._blocks]
        return sum(part.nbytes for part in parts)

    def add(self, number: int, factors: Sequence[Factor]) -> None:
        """A selection without factors holds for every row."""
        assert number not in self._factors, f"selection {number} is there already"
        intervals = self._intervals(factors)
        self._factors[number] = tuple(factors)
        if self._generation != sum(keys.generation for keys in self._keys.values()):
            self._start_again()
        else:
            self._insert(number, intervals)

    def remove(self, number: int) -> None:
        del self._factors[number]
        if number in self._place:
            slot, place = self._place.pop(number)
            place.remove(slot, self._boxes)
            self._boxes.free(slot)
        self._removed += 1
        if self._removed > _STALE + len(self):
            self._start_again()

    def probe(self, rows: pa.RecordBatch) -> tuple[Ints, Ints]:
        """(row, selection) of all that match, in order of selections and then of rows."""
        if not self._place or not rows.num_rows:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        keys, valid = self._columns(rows)
        found = Found()
        for column, lists in self._lists.items():
            lists.probe(column, keys, valid, self._boxes, found)
        for block in self._blocks:
            block.probe(keys, valid, self._boxes, found)
        return found.in_order(self._boxes.numbers)

    def _intervals(self, factors: Sequence[Factor]) -> dict[int, Interval]:
        """The box: for each column that is asked, the interval in which all its factors hold."""
        box: dict[int, Interval] = {}
        for factor in factors:
            if factor.column not in self._keys:
                self._keys[factor.column] = ComparisonKeys(self._types[factor.column])
            low, high = self._keys[factor.column].interval(factor.op, factor.constant)
            column = list(self._keys).index(factor.column)
            before = box.get(column, (LEAST_KEY, GREATEST_KEY))
            box[column] = max(low, before[0]), min(high, before[1])
        return box

    def _insert(self, number: int, box: Mapping[int, Interval]) -> None:
        if any(low > high for low, high in box.values()):
            return  # never holds: nothing can find it
        slot = self._boxes.take(number, box, len(self._keys))
        place = self._list_for(box) or self._block_with_room()
        place.add(slot, self._boxes)
        self._place[number] = slot, place

    def _list_for(self, box: Mapping[int, Interval]) -> Lists | None:
        """Where fewest others want the same value, if they are few."""
        wanted = [(self._lists.setdefault(column, Lists(column)), low) for column, (low, high) in box.items() if low == high]
        lengths = [lists.length(key) for lists, key in wanted]
        return wanted[lengths.index(min(lengths))][0] if lengths and min(lengths) < LONGEST_LIST else None

    def _block_with_room(self) -> Block:
        for block in self._blocks:
            if block.has_room:
                return block
        self._blocks.append(Block())
        return self._blocks[-1]

    def _start_again(self) -> None:
        """Every box is made anew, with keys that know only constants still in use: labels of strings have moved, or many are not."""
        self._removed = 0
        self._keys, self._boxes, self._lists, self._blocks, self._place = {}, Boxes(), {}, [], {}
        # twice: the first time names all constants, after which no label moves
        for factors in self._factors.values():
            self._intervals(factors)
        self._generation = sum(keys.generation for keys in self._keys.values())
        for number, factors in self._factors.items():
            self._insert(number, self._intervals(factors))

    def _columns(self, rows: pa.RecordBatch) -> tuple[Ints, Bytes]:
        keys = np.empty((len(self._keys), rows.num_rows), np.int64)
        valid = np.ones((len(self._keys), rows.num_rows), np.uint8)
        for place, (name, of) in enumerate(self._keys.items()):
            array = rows.column(name)
            keys[place] = of.keys(array)
            if array.null_count:
                valid[place] = valid_mask(array)
        return frozen(keys), frozen(valid)
