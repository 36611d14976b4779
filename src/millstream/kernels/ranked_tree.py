"""count, sum, min and max over any stretch of rows, in as many steps as the tree is high (PSoup, section 4.3 of its paper).

Rows are leaves in order of arrival.  A node of level k has the answer for FAN^k leaves; new leaves come at the right, old ones go at the
left.  A stretch of rows is put together from what lies between its ends: on each level the nodes up to the next multiple of FAN on the
left, those behind the last multiple on the right, and the rest one level above.

    FAN = 4    level 2    [        0-15        ] [ 16-
               level 1    [0-3][4-7][8-11][12-15] [16-19] ...
    rows 6 to 17:                6,7 (level 0)  8-11, 12-15 (level 1)  16,17 (level 0)

Nodes are (count of values, sum of three words, least key, greatest key).  Sums of integers and decimals are exact; those of floats are
added up the tree, so nothing drifts as rows go.  NULLs are ignored.  A node that lost leaves at the left still counts them, but a stretch
that begins behind them never uses it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.kernels.arrow_buffers import canonical_doubles, decimal_words, doubles, frozen, is_wide_decimal, is_word, plain, valid_mask
from millstream.kernels.compiled import Address, Bytes, Ints, address, inlined, kernel
from millstream.kernels.ordered_multiset import precedes
from millstream.kernels.sliding_array import SlidingArray
from millstream.kernels.sort_keys import SortKeys

FAN = 16
COUNT, LOW, MIDDLE, HIGH, LEAST, GREATEST = range(6)
_WIDTH = 6


@dataclass(frozen=True)
class Totals:
    """What a stretch of rows adds up to, a row of each array for each question; min and max only where count > 0."""

    count: Ints
    sums: Ints
    """Three words, least significant first; of floats, the bits of a double in the first."""
    least: Ints
    greatest: Ints

    def integers(self) -> list[int]:
        """The exact sums."""
        return [(int(low) & _MASK) | (int(middle) & _MASK) << 64 | int(high) << 128 for low, middle, high in self.sums.tolist()]

    def doubles(self) -> npt.NDArray[np.float64]:
        return canonical_doubles(np.ascontiguousarray(self.sums[:, 0]).view(np.float64))


_MASK = 2**64 - 1


class RankedTree:
    """Over one column; rows are known by how many came before them.  `first`: so many came and went before this tree was planted."""

    def __init__(self, type_: pa.DataType, first: int = 0) -> None:
        self.type = type_
        self._keys = SortKeys(type_)
        self._by_doubles = bool(pa.types.is_floating(type_))
        self._levels = [SlidingArray(np.int64, _WIDTH)]
        self._levels[0].first = first

    @property
    def first(self) -> int:
        return self._levels[0].first

    @property
    def stop(self) -> int:
        return self._levels[0].stop

    @property
    def height(self) -> int:
        return len(self._levels)

    def append(self, array: pa.Array) -> None:
        """Rows at the right."""
        array = plain(array)
        keys, words = self._keys.keys(array), self._words(array)
        _leaves(keys, words, valid_mask(array), self._levels[0].extend(len(array)))
        self._grow(len(array))

    def drop_before(self, row: int) -> None:
        """Rows at the left go; nodes too, once all their leaves have gone."""
        for level in self._levels:
            level.drop_before(row)
            row //= FAN
        if self._keys.held() > 2 * len(self._levels[0]) + 1024:
            self._keys.sweep(np.concatenate([level.values[:, LEAST:].reshape(-1) for level in self._levels]))

    def ask(self, starts: npt.ArrayLike, stops: npt.ArrayLike) -> Totals:
        """Of the rows from start up to stop, not included, for each question."""
        left, right = np.array(starts, np.int64), np.array(stops, np.int64)
        assert (left >= self.first).all(), "rows are gone that a question is about"
        assert (right <= self.stop).all(), "rows have not come that a question is about"
        nodes = np.zeros((len(left), _WIDTH), np.int64)
        for height, level in enumerate(self._levels):
            top = height == len(self._levels) - 1
            _gather(frozen(level.values), level.first, left, right, top, nodes, self._by_doubles, *self._order())
        return Totals(*(np.ascontiguousarray(part) for part in (nodes[:, COUNT], nodes[:, LOW:LEAST], nodes[:, LEAST], nodes[:, GREATEST])))

    def values(self, keys: Ints, count: Ints) -> pa.Array:
        """The values behind `least` or `greatest`, NULL where there is none."""
        return self._keys.values(keys, (count > 0).astype(np.uint8))

    def _order(self) -> tuple[bool, Bytes, Ints]:
        by_bytes, arena, spans = self._keys.order
        return by_bytes, frozen(arena), frozen(spans)

    def _words(self, array: pa.Array) -> Ints:
        """What is added up, as two words; of what cannot be added, anything."""
        if is_wide_decimal(array.type):
            return decimal_words(array)
        if self._by_doubles:
            return _widened(doubles(array).view(np.int64))
        return _widened(self._keys.keys(array)) if is_word(array.type) else frozen(np.zeros((len(array), 2), np.int64))

    def _grow(self, many: int) -> None:
        """Nodes over new leaves: the last one of each level again, and those behind it."""
        height = 0
        while True:
            below = self._levels[height]
            if len(self._levels) == height + 1:
                if len(below) <= FAN:
                    return
                above = SlidingArray(np.int64, _WIDTH)
                above.first = below.first // FAN
                self._levels.append(above)
                changed = above.first
            else:
                above = self._levels[height + 1]
                changed = max((below.stop - many) // FAN, above.first)
            above.extend(-(-below.stop // FAN) - above.stop)
            _fold(frozen(below.values), below.first, above.values, above.first, changed, self._by_doubles, *self._order())
            many, height = above.stop - changed, height + 1


def _widened(words: Ints) -> Ints:
    return frozen(np.stack([words, words >> 63], axis=1))


@kernel
def _leaves(keys: Ints, words: Ints, valid: Bytes, out: Ints) -> None:
    some_null = len(valid) > 0
    for i in range(len(keys)):
        present = not some_null or valid[i] != 0
        out[i, COUNT] = 1 if present else 0
        out[i, LOW], out[i, MIDDLE] = (words[i, 0], words[i, 1]) if present else (0, 0)
        out[i, HIGH] = out[i, MIDDLE] >> 63
        out[i, LEAST] = out[i, GREATEST] = keys[i] if present else -1


@inlined
def _combine(into: Ints, at: int, nodes: Ints, node: int, by_doubles: bool, by_bytes: bool, arena: Address, spans: Address) -> None:
    if nodes[node, COUNT] == 0:
        return
    if into[at, COUNT] == 0:
        for k in range(_WIDTH):
            into[at, k] = nodes[node, k]
        return
    into[at, COUNT] += nodes[node, COUNT]
    if by_doubles:
        _add_doubles(into, at, nodes, node)
    else:
        _add_words(into, at, nodes, node)
    if precedes(nodes[node, LEAST], into[at, LEAST], by_bytes, arena, spans):
        into[at, LEAST] = nodes[node, LEAST]
    if precedes(into[at, GREATEST], nodes[node, GREATEST], by_bytes, arena, spans):
        into[at, GREATEST] = nodes[node, GREATEST]


@inlined
def _add_doubles(into: Ints, at: int, nodes: Ints, node: int) -> None:
    sums, others = into[at : at + 1, LOW : LOW + 1].view(np.float64), nodes[node : node + 1, LOW : LOW + 1].view(np.float64)
    sums[0, 0] += others[0, 0]


@inlined
def _add_words(into: Ints, at: int, nodes: Ints, node: int) -> None:
    carry = np.uint64(0)
    for k in range(LOW, LEAST):
        one, other = np.uint64(into[at, k]), np.uint64(nodes[node, k])
        total = one + other
        with_carry = total + carry
        carry = np.uint64((total < one) | (with_carry < total))
        into[at, k] = np.int64(with_carry)


@kernel
def _fold(
    below: Ints, first_below: int, above: Ints, first_above: int, changed: int, by_doubles: bool, by_bytes: bool, arena: Bytes, spans: Ints
) -> None:  # fmt: skip
    """Make the nodes from `changed` on of what is below them, as far as it is there."""
    text, texts = address(arena), address(spans)
    for node in range(changed - first_above, len(above)):
        for k in range(_WIDTH):
            above[node, k] = 0
        start = (node + first_above) * FAN - first_below
        for child in range(max(start, 0), min(start + FAN, len(below))):
            _combine(above, node, below, child, by_doubles, by_bytes, text, texts)


@kernel
def _gather(
    level: Ints, first: int, left: Ints, right: Ints, top: bool, out: Ints, by_doubles: bool, by_bytes: bool, arena: Bytes, spans: Ints
) -> None:  # fmt: skip
    """Take what this level has at both ends of each stretch, and leave the part between in terms of the level above."""
    text, texts = address(arena), address(spans)
    for i in range(len(left)):
        start, stop = left[i], right[i]
        while start < stop and (top or start % FAN != 0):
            _combine(out, i, level, start - first, by_doubles, by_bytes, text, texts)
            start += 1
        while start < stop and stop % FAN != 0:
            stop -= 1
            _combine(out, i, level, stop - first, by_doubles, by_bytes, text, texts)
        left[i], right[i] = start // FAN, stop // FAN
        if start >= stop:
            left[i] = right[i] = 0
