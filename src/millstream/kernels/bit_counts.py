"""How many values of each group have each bit, at every slot: what AND, OR and XOR need to let a value go again.

counts  (groups, bits + 1)  values with the bit set, from the lowest bit on; then the number of values
"""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Signs
from millstream.kernels.compiled import AHEAD, Bytes, Ints, inlined, kernel, prefetch
from millstream.kernels.slots import Places

AND, OR, XOR = 0, 1, 2


@inlined
def _combined(counts: Ints, g: int, operation: int) -> int:
    bits = counts.shape[1] - 1
    n = counts[g, bits]
    word = np.int64(0)
    for b in range(bits):
        count = counts[g, b]
        is_set = count == n if operation == AND else (count > 0 if operation == OR else count & 1 == 1)
        word |= np.int64(is_set) << b
    return (word << (64 - bits)) >> (64 - bits)  # the highest bit is the sign


@kernel
def track_bits(
    code: Ints, slot: Places, sign: Signs, values: Ints, valid: Bytes, counts: Ints, operation: int, out: Ints, present: Bytes
) -> None:
    """Apply all changes in order; the combined values before and after each slot."""
    slots, some_null, bits = 0, len(valid) > 0, counts.shape[1] - 1
    for i in range(len(code)):
        if i + AHEAD < len(code):
            prefetch(counts, code[i + AHEAD])
        g, s = code[i], slot[i]
        if s == slots:
            out[2 * s], present[2 * s] = _combined(counts, g, operation), counts[g, bits] > 0
            slots += 1
        if not some_null or valid[i] != 0:
            for b in range(bits):
                counts[g, b] += sign[i] * ((values[i] >> b) & 1)
            counts[g, bits] += sign[i]
        out[2 * s + 1], present[2 * s + 1] = _combined(counts, g, operation), counts[g, bits] > 0


@kernel
def current_bits(groups: Ints, counts: Ints, operation: int) -> tuple[Ints, Bytes]:
    out, present = np.empty(len(groups), np.int64), np.empty(len(groups), np.uint8)
    for i in range(len(groups)):
        out[i], present[i] = _combined(counts, groups[i], operation), counts[groups[i], counts.shape[1] - 1] > 0
    return out, present
