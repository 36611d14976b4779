"""Which small files to merge: a pure decision over sizes.

Segments stand in time order.  From the newest back, a run takes in the next older segment as long as that one is at
most twice the run so far; eight or more are worth a merge.  So a row's file grows by half or more whenever the row is
rewritten (a logarithm of times in its life), and few small files are ever left:

    sizes, oldest first    9M  4M | 1M 300K 200K 100K 70K 60K 60K 50K 50K        the last nine become one of 1.9M

What a batch of a busy source leaves is not small: to write all of it once more takes a core a quarter of the time that it took to come in.
"""

from __future__ import annotations

from collections.abc import Sequence

SMALL_BYTES = 2 << 20
TARGET_BYTES = 32 << 20
FAN_IN = 8


def plan_merges(
    sizes: Sequence[int], *, small_bytes: int = SMALL_BYTES, target_bytes: int = TARGET_BYTES, fan_in: int = FAN_IN
) -> list[tuple[int, int]]:
    """Runs [start, stop) of `sizes` to merge into one, newest first; those that are not small are left alone."""
    runs, stop = [], len(sizes)
    while stop > 0:
        start, total = stop, 0
        while start > 0 and _joins(sizes[start - 1], total, small_bytes, target_bytes):
            start -= 1
            total += sizes[start]
        if stop - start >= fan_in:
            runs.append((start, stop))
        stop = min(start, stop - 1)
    return runs


def _joins(size: int, total: int, small_bytes: int, target_bytes: int) -> bool:
    return size < small_bytes and total + size <= target_bytes and (total == 0 or size <= 2 * total)
