"""Dense codes for rows of int64 words: the hash table below KeyTable.

    entries   (slots, 2)         open addressing, linear probing: (word, code), code -1 = empty; 8 bytes, or 16 of keys of one word
    keys      (capacity, width)  the words behind each code
    live      (capacity,)        1 while the code is in use
    free      (capacity,)        stack of codes that were used and released
    counters  NEXT, FREE, NULL   first code never used; height of the stack; code of NULL or -1

The entry's word is the key itself if a key is one word, else 32 bits of a hash of its words; equality
is always verified on the words.  There are twice as many slots as codes, so probes stay short, and
release closes the gap it leaves (no tombstones): codes may come and go for ever.
Kernels stop at the row for which no code is left and say so; the caller grows and goes on there.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import AHEAD, Bytes, Ints, inlined, kernel, mix, prefetch

T = TypeVar("T", bound=np.generic)

NEXT, FREE, NULL = 0, 1, 2
_SMALLEST = 64


class CodeTable:
    """Codes for keys of `width` words each; a NULL key (only for width 1) is a key of its own."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._counters = np.array([0, 0, -1], np.int64)
        self.keys: Ints = np.zeros((0, width), np.int64)
        self._live: Bytes = np.zeros(0, np.uint8)
        self._free: Ints = np.zeros(0, np.int64)
        self._entries = self._empty(0)
        self._resize(_SMALLEST)

    def __len__(self) -> int:
        return int(self._counters[NEXT] - self._counters[FREE])

    @property
    def capacity(self) -> int:
        """All codes are below."""
        return len(self.keys)

    @property
    def null_code(self) -> int:
        return int(self._counters[NULL])

    def encode_words(self, words: Ints, valid: Bytes) -> Ints:
        """Codes of one-word keys."""
        codes, done = np.empty(len(words), np.int64), 0
        while (done := _encode_words(words, valid, done, codes, self._entries, self.keys, self._live, self._free, self._counters)) < len(
            words
        ):
            self._resize(2 * self.capacity)
        return codes

    def encode_rows(self, rows: Ints) -> Ints:
        """Codes of keys of any width, one row each."""
        codes, words, done = np.empty(len(rows), np.int64), _entry_words(rows), 0
        while (done := _encode_rows(rows, words, done, codes, self._entries, self.keys, self._live, self._free, self._counters)) < len(
            rows
        ):
            self._resize(2 * self.capacity)
        return codes

    def words(self, codes: Ints) -> Ints:
        """The words behind codes, a row each; in memory one column after the other."""
        return _gathered(self.keys, frozen(codes)).T

    def release(self, codes: Ints) -> None:
        """Forget the keys behind these codes (each once); the codes will be given out again."""
        release = _release_words if self.width == 1 else _release_rows
        release(codes, self._entries, self.keys, self._live, self._free, self._counters)

    def live_codes(self) -> Ints:
        """The codes in use, in ascending order."""
        return np.flatnonzero(self._live)

    def reserve(self, capacity: int) -> None:
        if capacity > self.capacity:
            self._resize(1 << (capacity - 1).bit_length())

    def _resize(self, capacity: int) -> None:
        self.keys = _grown(self.keys, capacity, int(self._counters[NEXT]))
        self._live = _grown(self._live, capacity, int(self._counters[NEXT]))
        self._free = _grown(self._free, capacity, int(self._counters[FREE]))
        self._entries = self._empty(0)  # the old ones go first: they are not needed
        self._entries = self._empty(2 * capacity)
        fill = _fill_words if self.width == 1 else _fill_rows
        fill(self._entries, self.keys, self._live, self._counters)

    def _empty(self, slots: int) -> Ints:
        assert slots < 1 << 32, "a code has 32 bits"
        return np.full((slots, 2), -1, np.int64 if self.width == 1 else np.int32)


def _grown(array: npt.NDArray[T], capacity: int, used: int) -> npt.NDArray[T]:
    """Zeros of which only what is used has been written: the rest takes no memory."""
    larger = np.zeros((capacity, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


@inlined
def _entry_word(keys: Ints, row: int) -> np.int64:
    """What an entry shows of the key in this row: the key itself, or its hash."""
    if keys.shape[1] == 1:
        return keys[row, 0]
    word = np.uint64(0)
    for j in range(keys.shape[1]):
        word = mix(word ^ np.uint64(keys[row, j]))
    return np.int64(np.int32(word))


@inlined
def _home(word: np.int64, mask: int) -> np.int64:
    return np.int64(mix(np.uint64(np.int64(word)))) & mask


@inlined
def _same_row(left: Ints, i: int, right: Ints, j: int) -> bool:
    for k in range(left.shape[1]):  # noqa: SIM110 - numba compiles no generators inline
        if left[i, k] != right[j, k]:
            return False
    return True


@inlined
def _take_code(live: Bytes, free: Ints, counters: Ints) -> int:
    """A code that nobody uses, or -1 if all are taken."""
    if counters[FREE] > 0:
        counters[FREE] -= 1
        code = free[counters[FREE]]
    elif counters[NEXT] < len(live):
        code = counters[NEXT]
        counters[NEXT] += 1
    else:
        return -1
    live[code] = 1
    return code


@kernel
def _encode_words(
    words: Ints, valid: Bytes, start: int, codes: Ints, entries: Ints, keys: Ints, live: Bytes, free: Ints, counters: Ints
) -> int:
    """Codes of words[start:]; the row at which codes ran out, or the number of rows."""
    mask, some_null = len(entries) - 1, len(valid) > 0
    for i in range(start, len(words)):
        if i + AHEAD < len(words):
            prefetch(entries, _home(words[i + AHEAD], mask))
        if some_null and valid[i] == 0:
            if counters[NULL] < 0:
                counters[NULL] = _take_code(live, free, counters)
                if counters[NULL] < 0:
                    return i
            codes[i] = counters[NULL]
            continue
        word = words[i]
        slot = _home(word, mask)
        while entries[slot, 1] >= 0 and entries[slot, 0] != word:
            slot = (slot + 1) & mask
        code = int(entries[slot, 1])
        if code < 0:
            code = _take_code(live, free, counters)
            if code < 0:
                return i
            entries[slot, 0], entries[slot, 1], keys[code, 0] = word, code, word
        codes[i] = code
    return len(words)


@kernel
def _entry_words(rows: Ints) -> Ints:
    out = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        out[i] = _entry_word(rows, i)
    return out


@inlined
def _prefetch_row(words: Ints, i: int, entries: Ints, mask: int, keys: Ints) -> None:
    """Ask for what rows to come will read: first an entry, later the words behind its code."""
    if i + AHEAD < len(words):
        prefetch(entries, _home(words[i + AHEAD], mask))
        code = int(entries[_home(words[i + AHEAD // 2], mask), 1])
        if code >= 0:
            prefetch(keys, code)


@kernel
def _encode_rows(
    rows: Ints, words: Ints, start: int, codes: Ints, entries: Ints, keys: Ints, live: Bytes, free: Ints, counters: Ints
) -> int:
    """Codes of rows[start:], of which entries show `words`; the row at which codes ran out, or the number of rows."""
    mask = len(entries) - 1
    for i in range(start, len(rows)):
        _prefetch_row(words, i, entries, mask, keys)
        word = words[i]
        slot = _home(word, mask)
        while entries[slot, 1] >= 0 and not (entries[slot, 0] == word and _same_row(rows, i, keys, entries[slot, 1])):
            slot = (slot + 1) & mask
        code = int(entries[slot, 1])
        if code < 0:
            code = _take_code(live, free, counters)
            if code < 0:
                return i
            entries[slot, 0], entries[slot, 1] = word, code
            for k in range(rows.shape[1]):
                keys[code, k] = rows[i, k]
        codes[i] = code
    return len(rows)


@kernel
def _gathered(keys: Ints, codes: Ints) -> Ints:
    out = np.empty((keys.shape[1], len(codes)), np.int64)
    for i in range(len(codes)):
        if i + AHEAD < len(codes):
            prefetch(keys, codes[i + AHEAD])
        for k in range(keys.shape[1]):
            out[k, i] = keys[codes[i], k]
    return out


@inlined
def _release(codes: Ints, entries: Ints, keys: Ints, live: Bytes, free: Ints, counters: Ints) -> None:
    mask = len(entries) - 1
    for i in range(len(codes)):
        code = codes[i]
        live[code] = 0
        free[counters[FREE]] = code
        counters[FREE] += 1
        if code == counters[NULL]:
            counters[NULL] = -1
            continue
        gap = _home(_entry_word(keys, code), mask)
        while entries[gap, 1] != code:
            gap = (gap + 1) & mask
        # move back every entry that probing would no longer reach across the gap
        slot = (gap + 1) & mask
        while entries[slot, 1] >= 0:
            home = _home(entries[slot, 0], mask)
            if ((slot - home) & mask) >= ((slot - gap) & mask):
                entries[gap, 0], entries[gap, 1] = entries[slot, 0], entries[slot, 1]
                gap = slot
            slot = (slot + 1) & mask
        entries[gap, 1] = -1


@kernel
def _release_words(codes: Ints, entries: Ints, keys: Ints, live: Bytes, free: Ints, counters: Ints) -> None:
    _release(codes, entries, keys, live, free, counters)


@kernel
def _release_rows(codes: Ints, entries: Ints, keys: Ints, live: Bytes, free: Ints, counters: Ints) -> None:
    """The same where entries are of 8 bytes: a kernel is compiled for one type of each argument."""
    _release(codes, entries, keys, live, free, counters)


@inlined
def _fill(entries: Ints, keys: Ints, live: Bytes, counters: Ints) -> None:
    """Enter all live keys into an empty table."""
    mask = len(entries) - 1
    for code in range(counters[NEXT]):
        if code + AHEAD < counters[NEXT]:
            prefetch(entries, _home(_entry_word(keys, code + AHEAD), mask))
        if live[code] == 0 or code == counters[NULL]:
            continue
        word = _entry_word(keys, code)
        slot = _home(word, mask)
        while entries[slot, 1] >= 0:
            slot = (slot + 1) & mask
        entries[slot, 0], entries[slot, 1] = word, code


@kernel
def _fill_words(entries: Ints, keys: Ints, live: Bytes, counters: Ints) -> None:
    _fill(entries, keys, live, counters)


@kernel
def _fill_rows(entries: Ints, keys: Ints, live: Bytes, counters: Ints) -> None:
    _fill(entries, keys, live, counters)
