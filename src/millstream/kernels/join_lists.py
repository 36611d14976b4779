"""Rows by join key: for every key the rows that have it, as a linked list through flat arrays.

A row is known by its code (one for all equal rows) and counts how often it is there; a key by its code.

    places of a row (int64 each):   COUNT   how often it is there, 0: not linked
                                    KEY     the code of its key
                                    NEXT    the next row of the key, -1 at the end
                                    BEFORE  the row before it, -1 at the head
    places of a key:                HEAD    its first row, -1 if there is none
                                    COPIES  how many rows there are, copies counted, whatever their sign
"""

from __future__ import annotations

import numpy as np

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import AHEAD, Ints, kernel, prefetch

COUNT, KEY, NEXT, BEFORE = 0, 1, 2, 3
HEAD, COPIES = 0, 1


@kernel
def apply_changes(row: Ints, key: Ints, sign: Signs, rows: Ints, keys: Ints) -> None:
    """Count the changes in and out; a row that is there is linked, one that is not is not."""
    for i in range(len(row)):
        if i + AHEAD < len(row):
            prefetch(rows, row[i + AHEAD])
            prefetch(keys, key[i + AHEAD])
        r, k = row[i], key[i]
        old = rows[r, COUNT]
        new = old + sign[i]
        rows[r, COUNT] = new
        keys[k, COPIES] += abs(new) - abs(old)
        if old == 0:
            head = keys[k, HEAD]
            rows[r, KEY], rows[r, NEXT], rows[r, BEFORE] = k, head, -1
            if head >= 0:
                rows[head, BEFORE] = r
            keys[k, HEAD] = r
        elif new == 0:
            before, after = rows[r, BEFORE], rows[r, NEXT]
            if before >= 0:
                rows[before, NEXT] = after
            else:
                keys[k, HEAD] = after
            if after >= 0:
                rows[after, BEFORE] = before


@kernel
def count_matches(key: Ints, keys: Ints) -> int:
    total = 0
    for i in range(len(key)):
        if i + AHEAD < len(key):
            prefetch(keys, key[i + AHEAD])
        total += keys[key[i], COPIES]
    return total


@kernel
def find_matches(key: Ints, sign: Signs, rows: Ints, keys: Ints, change: Ints, match: Ints, out_sign: Signs) -> None:
    """For each change and each row of its key, as often as the row is there: the change, the row's code, the sign of the pair."""
    n = 0
    for i in range(len(key)):
        r = keys[key[i], HEAD]
        while r >= 0:
            count = rows[r, COUNT]
            pair = sign[i] if count > 0 else -sign[i]
            for _ in range(abs(count)):
                change[n], match[n], out_sign[n] = i, r, pair
                n += 1
            r = rows[r, NEXT]


@kernel
def chain_by_key(key: Ints, latest: Ints, earlier: Ints) -> None:
    """Chains the changes of each key: latest[k], then earlier[...] of it, until -1.  `latest` comes as -1 everywhere."""
    for i in range(len(key)):
        earlier[i] = latest[key[i]]
        latest[key[i]] = i


@kernel
def unchain(key: Ints, latest: Ints) -> None:
    for i in range(len(key)):
        latest[key[i]] = -1


@kernel
def count_pairs(key: Ints, latest: Ints, earlier: Ints) -> int:
    total = 0
    for i in range(len(key)):
        j = latest[key[i]]
        while j >= 0:
            total += 1
            j = earlier[j]
    return total


@kernel
def find_pairs(
    left_key: Ints, left_instant: Instants, left_sign: Signs, right_instant: Instants, right_sign: Signs, latest: Ints, earlier: Ints,
    left: Ints, right: Ints, instant: Instants, sign: Signs,
) -> None:  # fmt: skip
    """Changes of both sides that meet: a pair changes when the later of the two does."""
    n = 0
    for i in range(len(left_key)):
        j = latest[left_key[i]]
        while j >= 0:
            left[n], right[n] = i, j
            instant[n] = max(left_instant[i], right_instant[j])
            sign[n] = left_sign[i] * right_sign[j]
            n += 1
            j = earlier[j]


@kernel
def unlinked(row: Ints, rows: Ints) -> Ints:
    """The codes among `row` that are not there any more, each once.  Marks them with a KEY of -1."""
    out = np.empty(len(row), np.int64)
    n = 0
    for i in range(len(row)):
        r = row[i]
        if rows[r, COUNT] == 0 and rows[r, KEY] >= 0:
            rows[r, KEY] = -1
            out[n] = r
            n += 1
    return out[:n]
