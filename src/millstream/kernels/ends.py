"""The least and the greatest value of each group whose rows never leave: nothing else has to be kept."""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import AHEAD, Address, Bytes, Ints, address, inlined, kernel, prefetch
from millstream.kernels.extremes import GREATEST, LEAST, NOT_NOTED
from millstream.kernels.ordered_multiset import precedes
from millstream.kernels.slots import Places


@inlined
def _widen(ends: Ints, some: Bytes, group: int, key: int, by_bytes: bool, arena: Address, spans: Address) -> None:
    """One more value in the group."""
    if some[group] == 0:
        some[group], ends[group, LEAST], ends[group, GREATEST] = 1, key, key
    elif key != ends[group, LEAST] and precedes(key, ends[group, LEAST], by_bytes, arena, spans):
        ends[group, LEAST] = key
    elif key != ends[group, GREATEST] and precedes(ends[group, GREATEST], key, by_bytes, arena, spans):
        ends[group, GREATEST] = key


@inlined
def _note(ends: Ints, some: Bytes, group: int, at: int, low: Ints, high: Ints, present: Bytes) -> None:
    present[at] = some[group]
    low[at], high[at] = (ends[group, LEAST], ends[group, GREATEST]) if some[group] != 0 else (0, 0)


@kernel
def track_ends(
    code: Ints, slot: Places, sign: Signs, keys: Ints, valid: Bytes, ends: Ints, some: Bytes, by_bytes: bool, arena: Bytes, spans: Ints,
    low: Ints, high: Ints, present: Bytes,
) -> bool:  # fmt: skip
    """Apply the changes; both ends before and after each slot.  False if a row leaves."""
    some_null, text, texts = len(valid) > 0, address(arena), address(spans)
    for i in range(len(code)):
        if i + AHEAD < len(code):
            prefetch(ends, code[i + AHEAD])
        if sign[i] < 0:
            return False
        g, s = code[i], slot[i]
        if present[2 * s] == NOT_NOTED:
            _note(ends, some, g, 2 * s, low, high, present)
        if not some_null or valid[i] != 0:
            _widen(ends, some, g, keys[i], by_bytes, text, texts)
        _note(ends, some, g, 2 * s + 1, low, high, present)
    return True


@kernel
def widen_ends(groups: Ints, keys: Ints, ends: Ints, some: Bytes, by_bytes: bool, arena: Bytes, spans: Ints) -> None:
    """These values belong to these groups, too."""
    for i in range(len(keys)):
        _widen(ends, some, groups[i], keys[i], by_bytes, address(arena), address(spans))


@kernel
def current_ends(codes: Ints, ends: Ints, some: Bytes) -> tuple[Ints, Ints, Bytes]:
    """Both ends of these groups as they are now."""
    low, high, present = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64), np.empty(len(codes), np.uint8)
    for i in range(len(codes)):
        _note(ends, some, codes[i], i, low, high, present)
    return low, high, present
