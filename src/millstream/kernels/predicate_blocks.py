"""Where the selections of a predicate index are kept and found: boxes, lists of equal values, and blocks of bits.

See predicate_index.py for what they are.  Whatever is found is handed over slot by slot, so that the answer need not be sorted row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.comparison_keys import GREATEST_KEY, Interval
from millstream.kernels.compiled import Bytes, Ints, inlined, kernel
from millstream.kernels.limbs import trailing_zeros

Words = npt.NDArray[np.uint64]
BLOCK = 1024
"""Selections in a block."""
_WORD = 64
_ONE = np.uint64(1)


class Boxes:
    """What each selection asks of each column, by slot."""

    def __init__(self) -> None:
        self.numbers: Ints = np.empty(0, np.int64)
        self.low: Ints = np.empty((0, 0), np.int64)
        self.high: Ints = np.empty((0, 0), np.int64)
        self.asks: Bytes = np.empty((0, 0), np.uint8)
        self._free: list[int] = []

    def take(self, number: int, box: Mapping[int, Interval], columns: int) -> int:
        if columns > self.low.shape[1]:
            self._resize(len(self.low), max(columns, 2 * self.low.shape[1]))
        if not self._free:
            self._resize(max(64, 2 * len(self.low)), self.low.shape[1])
        slot = self._free.pop()
        self.numbers[slot], self.asks[slot] = number, 0
        for column, (low, high) in box.items():
            self.low[slot, column], self.high[slot, column], self.asks[slot, column] = low, high, 1
        return slot

    def free(self, slot: int) -> None:
        self._free.append(slot)

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.low.nbytes + self.high.nbytes + self.asks.nbytes

    def _resize(self, slots: int, columns: int) -> None:
        before = self.low.shape
        self._free += reversed(range(before[0], slots))
        more = ((0, slots - before[0]), (0, columns - before[1]))
        self.low, self.high, self.asks = np.pad(self.low, more), np.pad(self.high, more), np.pad(self.asks, more)
        self.numbers = np.pad(self.numbers, more[0])


class Found:
    """Rows found so far, those of each slot together and in order."""

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._slots: list[Ints] = []
        self._counts: list[Ints] = []

    def add(self, rows: Ints, slots: Ints, counts: Ints) -> None:
        """So many rows of each of these slots; no slot comes twice."""
        self._rows.append(rows)
        self._slots.append(slots)
        self._counts.append(counts)

    def in_order(self, numbers: Ints) -> tuple[Ints, Ints]:
        """(row, number) of all, by the number of their slot and then by row."""
        rows, slots, counts = (np.concatenate([*each, np.empty(0, np.int64)]) for each in (self._rows, self._slots, self._counts))
        order = np.argsort(numbers[slots], kind="stable")
        if not bool((order == np.arange(len(order))).all()):
            starts = np.cumsum(counts) - counts
            rows = _rearranged(frozen(rows), frozen(starts[order]), frozen(counts[order]))
        return rows, np.repeat(numbers[slots[order]], counts[order])


class Lists:
    """Selections by the one value that they want in a column."""

    def __init__(self, column: int) -> None:
        self.column = column
        self._keys: Ints = np.empty(0, np.int64)
        self._slots: Ints = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._slots.nbytes

    def length(self, key: int) -> int:
        return int(np.searchsorted(self._keys, key, "right") - np.searchsorted(self._keys, key, "left"))

    def add(self, slot: int, boxes: Boxes) -> None:
        at = np.searchsorted(self._keys, boxes.low[slot, self.column], "right")
        self._keys, self._slots = np.insert(self._keys, at, boxes.low[slot, self.column]), np.insert(self._slots, at, slot)

    def remove(self, slot: int, boxes: Boxes) -> None:
        first = np.searchsorted(self._keys, boxes.low[slot, self.column], "left")
        at = first + int(np.argmax(self._slots[first:] == slot))
        self._keys, self._slots = np.delete(self._keys, at), np.delete(self._slots, at)

    def probe(self, column: int, keys: Ints, valid: Bytes, boxes: Boxes, found: Found) -> None:
        if not len(self._keys):
            return
        box = frozen(boxes.low), frozen(boxes.high), frozen(boxes.asks)
        rows, slots = _probe_lists(keys, valid, column, frozen(self._keys), frozen(self._slots), *box)
        order = np.argsort(slots, kind="stable")
        which, counts = np.unique(slots[order], return_counts=True)
        found.add(rows[order], which, counts)


class Block:
    """Up to BLOCK selections, each a bit."""

    def __init__(self) -> None:
        self._slots = np.full(BLOCK, -1, np.int64)
        self._free = list(reversed(range(BLOCK)))
        self._bit: dict[int, int] = {}
        self._built: _Tables | None = None

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + (sum(part.nbytes for part in self._built) if self._built is not None else 0)

    @property
    def has_room(self) -> bool:
        return bool(self._free)

    def add(self, slot: int, boxes: Boxes) -> None:
        self._bit[slot] = self._free.pop()
        self._slots[self._bit[slot]] = slot
        self._built = None

    def remove(self, slot: int, boxes: Boxes) -> None:
        bit = self._bit.pop(slot)
        self._free.append(bit)
        self._slots[bit] = -1
        self._built = None

    def probe(self, keys: Ints, valid: Bytes, boxes: Boxes, found: Found) -> None:
        if not self._bit:
            return
        if self._built is None:
            self._built = self._build(boxes)
        tables = self._built
        matches, which, kept, counts = _match(keys, valid, *tables[:-1])
        rows = _rows_of_bits(matches, which, kept, counts)
        some = np.flatnonzero(counts)
        found.add(rows, tables.slots[some], counts[some])

    def _build(self, boxes: Boxes) -> _Tables:
        used = np.flatnonzero(self._slots >= 0)
        slots, words = self._slots[used], int(used[-1]) // _WORD + 1
        columns = np.flatnonzero(boxes.asks[slots].any(axis=0))
        every = _bits(used, words)
        starts, edges, sets, unasked = [0], [np.empty(0, np.int64)], [np.empty((0, words), np.uint64)], [np.empty(0, np.uint64)]
        for column in columns:
            asking = boxes.asks[slots, column] == 1
            bits, low, high = used[asking], boxes.low[slots[asking], column], boxes.high[slots[asking], column]
            unasked.append(every & ~_bits(bits, words))
            edges.append(np.unique(np.concatenate([low, high[high < GREATEST_KEY] + 1])))
            sets.append(_sets(edges[-1], bits, low, high, unasked[-1]))
            starts.append(starts[-1] + len(edges[-1]))
        arrays = (columns, np.array(starts), np.concatenate(edges), np.concatenate(sets), np.concatenate(unasked).reshape(-1, words), every)
        return _Tables(*map(frozen, (*arrays, self._slots.copy())))


class _Tables(NamedTuple):
    """A block as its kernel wants it."""

    columns: Ints
    starts: Ints
    """Where the edges of each column begin; those of all columns stand one after the other."""
    edges: Ints
    sets: Words
    """For each column, one row more than it has edges."""
    unasked: Words
    """For each column, the selections that ask nothing of it: they do not mind a NULL."""
    every: Words
    slots: Ints


def _sets(edges: Ints, bits: Ints, low: Ints, high: Ints, unasked: Words) -> Words:
    """The selections that hold before the first edge, and from each edge on."""
    sets = np.empty((len(edges) + 1, len(unasked)), np.uint64)
    begin, end = np.argsort(low), np.argsort(high)
    _sweep(frozen(edges), frozen(low[begin]), frozen(bits[begin]), frozen(high[end]), frozen(bits[end]), frozen(unasked), sets)
    return sets


def _bits(places: Ints, words: int) -> Words:
    flags = np.zeros(words * _WORD, np.uint8)
    flags[places] = 1
    return np.packbits(flags, bitorder="little").view(np.uint64)


@kernel
def _sweep(edges: Ints, low: Ints, low_bits: Ints, high: Ints, high_bits: Ints, unasked: Words, table: Words) -> None:
    """The set of each stretch between edges: those that begin there are added, those that have ended taken out."""
    begun, ended, words = 0, 0, len(unasked)
    for w in range(words):
        table[0, w] = unasked[w]
    for place in range(len(edges)):
        for w in range(words):
            table[place + 1, w] = table[place, w]
        while ended < len(high) and high[ended] < edges[place]:
            table[place + 1, high_bits[ended] // 64] &= ~(_ONE << np.uint64(high_bits[ended] % 64))
            ended += 1
        while begun < len(low) and low[begun] <= edges[place]:
            table[place + 1, low_bits[begun] // 64] |= _ONE << np.uint64(low_bits[begun] % 64)
            begun += 1


@inlined
def _first_above(keys: Ints, start: int, stop: int, key: int) -> int:
    """The first place from `start` on whose key is greater, without a branch that could be guessed wrong."""
    at, many = start, stop - start
    while many > 0:
        half = (many + 1) >> 1
        at = at + half if keys[at + half - 1] <= key else at
        many -= half
    return at


@kernel
def _match(
    keys: Ints, valid: Bytes, columns: Ints, starts: Ints, edges: Ints, sets: Words, unasked: Words, every: Words
) -> tuple[Words, Ints, int, Ints]:  # fmt: skip
    """The bits of rows that have any, which rows these are, and how many there are; and how many rows have each bit."""
    rows, words = keys.shape[1], len(every)
    matches, which, kept = np.empty((rows, words), np.uint64), np.empty(rows, np.int64), 0
    counts = np.zeros(64 * words, np.int64)
    for i in range(rows):
        for w in range(words):
            matches[kept, w] = every[w]
        some = _ONE
        for k in range(len(columns)):
            if some == 0:
                break
            some = np.uint64(0)
            column = columns[k]
            if valid[column, i] == 0:
                for w in range(words):
                    matches[kept, w] &= unasked[k, w]
                    some |= matches[kept, w]
            else:
                place = _first_above(edges, starts[k], starts[k + 1], keys[column, i]) + k
                for w in range(words):
                    matches[kept, w] &= sets[place, w]
                    some |= matches[kept, w]
        if some != 0:
            for w in range(words):
                word = matches[kept, w]
                while word != 0:
                    counts[64 * w + trailing_zeros(word)] += 1
                    word &= word - _ONE
            which[kept] = i
            kept += 1
    return matches, which, kept, counts


@kernel
def _rows_of_bits(matches: Words, which: Ints, kept: int, counts: Ints) -> Ints:
    """The rows of each bit, one bit after the other.  Word by word, so that what is written lies in 64 places at a time."""
    begin, out = np.cumsum(counts) - counts, np.empty(counts.sum(), np.int64)
    for w in range(matches.shape[1]):
        for i in range(kept):
            word = matches[i, w]
            while word != 0:
                bit = 64 * w + trailing_zeros(word)
                out[begin[bit]] = which[i]
                begin[bit] += 1
                word &= word - _ONE
    return out


@kernel
def _rearranged(rows: Ints, starts: Ints, counts: Ints) -> Ints:
    out, to = np.empty(len(rows), np.int64), 0
    for run in range(len(starts)):
        for i in range(counts[run]):
            out[to + i] = rows[starts[run] + i]
        to += counts[run]
    return out


@inlined
def _holds(keys: Ints, valid: Bytes, row: int, slot: int, low: Ints, high: Ints, asks: Bytes) -> bool:
    for column in range(len(keys)):
        if asks[slot, column] != 0:
            key = keys[column, row]
            if valid[column, row] == 0 or key < low[slot, column] or key > high[slot, column]:
                return False
    return True


@kernel
def _probe_lists(
    keys: Ints, valid: Bytes, column: int, wanted: Ints, slots: Ints, low: Ints, high: Ints, asks: Bytes
) -> tuple[Ints, Ints]:  # fmt: skip
    """(row, slot) of all that hold, row by row."""
    out, count = np.empty((2, 1024), np.int64), 0
    for i in range(keys.shape[1]):
        if valid[column, i] == 0:
            continue
        place = _first_above(wanted, 0, len(wanted), keys[column, i]) - 1
        while place >= 0 and wanted[place] == keys[column, i]:
            if _holds(keys, valid, i, slots[place], low, high, asks):
                if count == out.shape[1]:
                    larger = np.empty((2, 2 * count), np.int64)
                    larger[:, :count] = out
                    out = larger
                out[0, count], out[1, count] = i, slots[place]
                count += 1
            place -= 1
    return out[0, :count].copy(), out[1, :count].copy()
