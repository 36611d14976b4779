"""Byte strings as small integers: equal bytes have the same id, while both are in use.

    arena    the bytes, one string after the other, with garbage between them
    spans    (capacity, 2) where the string of each id begins and how long it is, -1 = id not in use
    entries  (slots, 2) open addressing, linear probing: (hash, id), id -1 = empty

Nobody counts references.  Whoever holds ids calls `sweep` with those still in use when `len`
has outgrown them; ids never change, the arena is squeezed.
"""

from __future__ import annotations

import numpy as np

from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import AHEAD, Address, Bytes, Ints, address, get, hash_bytes, inlined, kernel, prefetch_at, same_bytes

NEXT, FREE, USED = 0, 1, 2
START, LENGTH = 0, 1
_SMALLEST = 64
_IN_CACHE = 1 << 15
"""Tables of so many slots are in the cache anyway."""


class Interner:
    def __init__(self) -> None:
        self._counters = np.zeros(3, np.int64)  # first id never used, ids on the free stack, bytes used in the arena
        self.arena: Bytes = np.empty(16 * _SMALLEST, np.uint8)
        self.spans: Ints = np.empty((0, 2), np.int64)
        self._free: Ints = np.empty(0, np.int64)
        self._entries: Ints = np.empty((0, 2), np.int64)
        self._resize(_SMALLEST)

    def __len__(self) -> int:
        return int(self._counters[NEXT] - self._counters[FREE])

    def intern(self, offsets: Ints, data: Bytes, valid: Bytes) -> Ints:
        """The id of each byte range; -1 where it is NULL."""
        ids, hashes, done = np.empty(len(offsets) - 1, np.int64), _hashes(offsets, data), 0
        while True:
            done = _intern(offsets, data, valid, hashes, done, ids, self._entries, self.arena, self.spans, self._free, self._counters)
            if done == len(ids):
                return ids
            self._make_room(int(offsets[done + 1] - offsets[done]))

    def gather(self, ids: Ints) -> tuple[Ints, Bytes]:
        """offsets and bytes of the strings behind these ids; a negative id gives no bytes."""
        ids, offsets = frozen(ids), np.zeros(len(ids) + 1, np.int64)
        total = _gathered_offsets(ids, self.spans, offsets)
        data = np.empty(total, np.uint8)
        _gather(ids, offsets, data, self.arena, self.spans)
        return offsets, data

    def sweep(self, used: Ints) -> None:
        """Forget every string whose id is not in `used`."""
        keep = np.zeros(len(self.spans), np.uint8)
        keep[used[used >= 0]] = 1
        arena = np.empty(max(int(self.spans[keep == 1, LENGTH].sum()) * 2, 16 * _SMALLEST), np.uint8)
        _squeeze(keep, arena, self.arena, self.spans, self._free, self._counters)
        self.arena = arena
        self._rebuild(len(self.spans))

    def _make_room(self, incoming: int) -> None:
        if self._counters[USED] + incoming > len(self.arena):
            arena = np.empty(max(2 * len(self.arena), int(self._counters[USED]) + incoming), np.uint8)
            arena[: self._counters[USED]] = self.arena[: self._counters[USED]]
            self.arena = arena
        if len(self) == len(self.spans):
            self._resize(2 * len(self.spans))

    def _resize(self, capacity: int) -> None:
        grown = capacity - len(self.spans)
        self.spans = np.concatenate([self.spans, np.full((grown, 2), -1, np.int64)])
        self._free = np.concatenate([self._free, np.zeros(grown, np.int64)])
        self._rebuild(capacity)

    def _rebuild(self, capacity: int) -> None:
        self._entries = np.full((2 * capacity, 2), -1, np.int64)
        _fill(self._entries, self.arena, self.spans, self._counters)


@kernel
def _hashes(offsets: Ints, data: Bytes) -> Ints:
    out, new = np.empty(len(offsets) - 1, np.int64), address(data)
    for i in range(len(out)):
        out[i] = np.int64(hash_bytes(new, offsets[i], offsets[i + 1]))
    return out


@inlined
def _prefetch(hashes: Ints, i: int, entries: Address, mask: int, spans: Address, arena: Address) -> None:
    """Ask for what rows to come will read: first an entry, later what it points to."""
    if i + AHEAD < len(hashes):
        prefetch_at(entries, 2 * (hashes[i + AHEAD] & mask))
        found = get(entries, 2 * (hashes[i + AHEAD // 2] & mask) + 1)
        if found >= 0:
            prefetch_at(spans, 2 * found)
        found = get(entries, 2 * (hashes[i + AHEAD // 4] & mask) + 1)
        if found >= 0:
            prefetch_at(arena + get(spans, 2 * found), 0)


@kernel
def _intern(
    offsets: Ints, data: Bytes, valid: Bytes, hashes: Ints, begin: int, ids: Ints,
    entries: Ints, arena: Bytes, spans: Ints, free: Ints, counters: Ints,
) -> int:  # fmt: skip
    """Ids of the ranges from `begin` on; the row at which ids or arena ran out, or the number of rows."""
    mask, some_null = len(entries) - 1, len(valid) > 0
    new, known = address(data), address(arena)
    for i in range(begin, len(ids)):
        if mask > _IN_CACHE:
            _prefetch(hashes, i, address(entries), mask, address(spans), known)
        if some_null and valid[i] == 0:
            ids[i] = -1
            continue
        size = offsets[i + 1] - offsets[i]
        word = hashes[i]
        slot = word & mask
        while True:
            found = entries[slot, 1]
            if found < 0 or (
                entries[slot, 0] == word and spans[found, LENGTH] == size and same_bytes(known, spans[found, START], new, offsets[i], size)
            ):
                break
            slot = (slot + 1) & mask
        if found < 0:
            if counters[USED] + size > len(arena):
                return i
            if counters[FREE] > 0:
                counters[FREE] -= 1
                found = free[counters[FREE]]
            elif counters[NEXT] < len(spans):
                found = counters[NEXT]
                counters[NEXT] += 1
            else:
                return i
            entries[slot, 0], entries[slot, 1] = word, found
            spans[found, START], spans[found, LENGTH] = counters[USED], size
            arena[counters[USED] : counters[USED] + size] = data[offsets[i] : offsets[i + 1]]
            counters[USED] += size
        ids[i] = found
    return len(ids)


@kernel
def _gathered_offsets(ids: Ints, spans: Ints, offsets: Ints) -> int:
    for i in range(len(ids)):
        offsets[i + 1] = offsets[i] + (spans[ids[i], LENGTH] if ids[i] >= 0 else 0)
    return offsets[len(ids)]


@kernel
def _gather(ids: Ints, offsets: Ints, data: Bytes, arena: Bytes, spans: Ints) -> None:
    for i in range(len(ids)):
        if ids[i] >= 0:
            begin, to = spans[ids[i], START], offsets[i]
            for k in range(spans[ids[i], LENGTH]):
                data[to + k] = arena[begin + k]


@kernel
def _squeeze(keep: Bytes, arena: Bytes, old_arena: Bytes, spans: Ints, free: Ints, counters: Ints) -> None:
    used = 0
    for i in range(counters[NEXT]):
        start, length = spans[i, START], spans[i, LENGTH]
        if length < 0:
            continue
        if keep[i] == 0:
            spans[i, LENGTH] = -1
            free[counters[FREE]] = i
            counters[FREE] += 1
            continue
        arena[used : used + length] = old_arena[start : start + length]
        spans[i, START] = used
        used += length
    counters[USED] = used


@kernel
def _fill(entries: Ints, arena: Bytes, spans: Ints, counters: Ints) -> None:
    mask, known = len(entries) - 1, address(arena)
    for i in range(counters[NEXT]):
        if spans[i, LENGTH] < 0:
            continue
        word = np.int64(hash_bytes(known, spans[i, START], spans[i, START] + spans[i, LENGTH]))
        slot = word & mask
        while entries[slot, 1] >= 0:
            slot = (slot + 1) & mask
        entries[slot, 0], entries[slot, 1] = word, i
