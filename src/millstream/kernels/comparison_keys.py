"""Comparisons of one column with constants, as intervals of int64 keys.

    column op constant   holds for a row   <=>   low <= key(row) <= high

Of numbers, instants and booleans the key is the value itself, or its bits in Spark's order (sort_keys.py), so `< c` is "up to c - 1".
Of strings it is a label: constants have labels in the order of their bytes, far apart, and a value between two constants has the label of
the lower one plus 1.  A new constant takes a label in the middle, so the keys that others were told stay true.  Only when there is no
middle left, all labels move, and `generation` says so.

Constants come in the type of the column.  What a comparison in another type means is for the binder to say.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from millstream.core.errors import TypeMismatch
from millstream.core.schema import type_name
from millstream.kernels.arrow_buffers import frozen, is_word, plain
from millstream.kernels.compiled import Bytes, Ints, address, bytes_before, kernel
from millstream.kernels.sort_keys import SortKeys, order_bytes

Operator = Literal["<", "<=", "=", ">=", ">"]
OPERATORS: tuple[Operator, ...] = ("<", "<=", "=", ">=", ">")
Interval = tuple[int, int]
"""From where to where, both included; empty if the first is greater."""
LEAST_KEY, GREATEST_KEY = -(2**63), 2**63 - 1
NOTHING: Interval = (1, 0)
EVERYTHING: Interval = (LEAST_KEY, GREATEST_KEY)

_FIRST_LABEL, _LAST_LABEL = -(2**62), 2**62
_APART = 2**32
"""Between a constant and a new one behind all others: constants often come in ascending order."""


def interval_around(key: int, op: Operator) -> Interval:
    """The keys that compare so with this one."""
    if op == "=":
        return key, key
    if op in ("<", "<="):
        high = key if op == "<=" else key - 1
        return (LEAST_KEY, high) if high >= LEAST_KEY else NOTHING
    low = key if op == ">=" else key + 1
    return (low, GREATEST_KEY) if low <= GREATEST_KEY else NOTHING


class ComparisonKeys:
    """The keys of one column."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self._numbers = SortKeys(type_) if is_word(type_) else None
        self._labels = _Labels()

    @property
    def generation(self) -> int:
        """Intervals that were told in an earlier one must be asked for again."""
        return self._labels.generation

    def interval(self, op: Operator, constant: Any) -> Interval:
        """Where the comparison holds; nowhere if the constant is NULL.  From now on, keys of rows take it into account."""
        array = constant_array(constant, self.type)
        if array.null_count:
            return NOTHING
        if self._numbers is not None:
            return interval_around(int(self._numbers.keys(array)[0]), op)
        offsets, data = order_bytes(array)
        return interval_around(self._labels.label(data[offsets[0] : offsets[1]].tobytes()), op)

    def keys(self, array: pa.Array) -> Ints:
        """A key for each value; arbitrary where it is NULL."""
        if self._numbers is not None:
            return self._numbers.keys(array)
        return self._labels.keys(*order_bytes(plain(array)))


def constant_array(constant: Any, type_: pa.DataType) -> pa.Array:
    """An array of one.  Integers and floats in the widest type of their kind: their keys are the same."""
    if isinstance(constant, pa.Scalar):
        constant = constant.as_py()
    wide = pa.float64() if pa.types.is_floating(type_) else pa.int64() if pa.types.is_integer(type_) else type_
    try:
        return pa.array([constant], wide)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise TypeMismatch(
            f"{constant!r:.60} cannot be compared with a column of {type_name(type_)}", hint="Give a constant of the column's type."
        ) from error


class _Labels:
    """Byte strings in order, with numbers in the same order."""

    def __init__(self) -> None:
        self.generation = 0
        self._constants: list[bytes] = []
        self._arena: Bytes = np.empty(1024, np.uint8)
        self._used = 0
        self._spans: Ints = np.empty((0, 2), np.int64)
        self._numbers: Ints = np.empty(0, np.int64)

    def label(self, constant: bytes) -> int:
        at = bisect_left(self._constants, constant)
        if at == len(self._constants) or self._constants[at] != constant:
            self._insert(at, constant)
        return int(self._numbers[at])

    def keys(self, offsets: Ints, data: Bytes) -> Ints:
        return frozen(_labels_of(offsets, data, frozen(self._arena), frozen(self._spans), frozen(self._numbers)))

    def _insert(self, at: int, constant: bytes) -> None:
        self._constants.insert(at, constant)
        if self._used + len(constant) > len(self._arena):
            self._arena = np.concatenate([self._arena, np.empty(len(self._arena) + len(constant), np.uint8)])
        self._arena[self._used : self._used + len(constant)] = np.frombuffer(constant, np.uint8)
        self._spans = np.insert(self._spans, at, (self._used, len(constant)), axis=0)
        self._used += len(constant)
        number = _between(int(self._numbers[at - 1]) if at else None, int(self._numbers[at]) if at < len(self._numbers) else None)
        self._numbers = np.insert(self._numbers, at, number if number is not None else 0)
        if number is None:
            self._spread()

    def _spread(self) -> None:
        """All labels anew, as far apart as they can be."""
        step = (_LAST_LABEL - _FIRST_LABEL) // (len(self._constants) + 1)
        self._numbers = _FIRST_LABEL + step * np.arange(1, len(self._constants) + 1, dtype=np.int64)
        self.generation += 1


def _between(below: int | None, above: int | None) -> int | None:
    """A label with room for others on both sides; None if there is none."""
    if below is None and above is None:
        return 0
    if above is None:
        assert below is not None
        return below + _APART if below + _APART < _LAST_LABEL else None
    if below is None:
        return above - _APART if above - _APART > _FIRST_LABEL else None
    return (below + above) // 2 if above - below >= 4 else None


@kernel
def _labels_of(offsets: Ints, data: Bytes, arena: Bytes, spans: Ints, numbers: Ints) -> Ints:
    """The label of each string that is a constant; otherwise that of the last constant before it, plus 1."""
    keys, text, known = np.empty(len(offsets) - 1, np.int64), address(data), address(arena)
    for i in range(len(keys)):
        start, length = text + offsets[i], offsets[i + 1] - offsets[i]
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            if bytes_before(0, known + spans[middle, 0], spans[middle, 1], start, length):
                low = middle + 1
            else:
                high = middle
        if low < len(numbers) and not bytes_before(0, start, length, known + spans[low, 0], spans[low, 1]):
            keys[i] = numbers[low]
        else:
            keys[i] = numbers[low - 1] + 1 if low > 0 else _FIRST_LABEL
    return keys
