"""Rows by join key: for every key the rows that have it, as a linked list through flat arrays.

A row is known by its code (one for all equal rows) and counts how often it is there; a key by its code.

    places of a row (int64 each):   COUNT   how often it is there, 0: not linked
                                    KEY     the code of its key
                                    NEXT    the next row of the key, -1 at the end
                                    BEFORE  the row before it, -1 at the head
    places of a key:                HEAD    its first row, -1 if there is none
                                    COPIES  how many rows there are, copies counted, whatever their sign
    places of a walk over changes:  LEFTS   how many of the left side are done
                                    RIGHTS  how many of the right side are done
                                    PARTNER the row that a long change is to meet next, -1: the next one is none
                                    COPY    how many copies of that row it has met
                                    TOLD    how many messages it has noted
                                    ALIVE   how many pairs more than before will end by themselves

Where rows end by themselves, they have two more places, and room for whole cache lines:

                                    UNTIL   when that is
                                    RESULTS how many pairs end with it: those with partners that end later, or at the same instant if it is
                                            on the left
A row's end is a change like others, with sign ENDED or its opposite, but makes no pairs and comes before all else at its instant.  If some
pairs end with it, that is noted as a message, once for each instant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import AHEAD, Ints, inlined, kernel, prefetch

COUNT, KEY, NEXT, BEFORE, UNTIL, RESULTS = 0, 1, 2, 3, 4, 5
PLACES, PLACES_WITH_ENDS = 4, 8
HEAD, COPIES = 0, 1
LEFTS, RIGHTS, PARTNER, COPY, TOLD, ALIVE = 0, 1, 2, 3, 4, 5
ENDED = -2
NEAR = AHEAD // 2
"""By then what was asked for AHEAD is there, and tells what else is needed."""


@inlined
def count_in(r: int, k: int, delta: int, rows: Ints, keys: Ints) -> None:
    """So many more of a row, or less: not 0.  A row that is there is linked, one that is not is not."""
    old = rows[r, COUNT]
    new = old + delta
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
def apply_changes(row: Ints, key: Ints, sign: Signs, rows: Ints, keys: Ints) -> None:
    """Count the changes in and out."""
    for i in range(len(row)):
        count_in(row[i], key[i], sign[i], rows, keys)


def first_place() -> Ints:
    return np.array([0, 0, -1, 0, 0, 0])


@inlined
def _note_end(r: int, now: int, rows: Ints, messages: Ints, place: Ints) -> None:
    """The row has come to its end, and with it its results."""
    if rows[r, RESULTS] > 0:
        n = place[TOLD]
        if n == 0 or messages[n - 1] < now:
            messages[n] = now
            place[TOLD] = n + 1
        place[ALIVE] -= rows[r, RESULTS]
        rows[r, RESULTS] = 0


@inlined
def _charge(left: int, right: int, pairs: int, left_rows: Ints, right_rows: Ints, place: Ints) -> None:
    """So many pairs more, or less, end with the first of their rows."""
    if left_rows[left, UNTIL] <= right_rows[right, UNTIL]:
        left_rows[left, RESULTS] += pairs
    else:
        right_rows[right, RESULTS] += pairs
    place[ALIVE] += pairs


@kernel
def most_pairs(left_key: Ints, right_key: Ints, left_keys: Ints, right_keys: Ints, seen: Ints) -> int:
    """No less than all pairs that these changes can make.  `seen` has a place for each key, and is 0."""
    total = 0
    for i in range(len(left_key)):
        total += right_keys[left_key[i], COPIES]
        seen[left_key[i]] += 1
    for j in range(len(right_key)):
        total += left_keys[right_key[j], COPIES] + seen[right_key[j]]
    for i in range(len(left_key)):
        seen[left_key[i]] = 0
    return total


@inlined
def _prefetch_heads(k: int, left_rows: Ints, left_keys: Ints, right_rows: Ints, right_keys: Ints) -> None:
    """The first rows of a key, which a change will meet and be linked to."""
    one, other = left_keys[k, HEAD], right_keys[k, HEAD]
    if one >= 0:
        prefetch(left_rows, one)
    if other >= 0:
        prefetch(right_rows, other)


@kernel
def meet(
    left_row: Ints, left_key: Ints, left_instant: Instants, left_sign: Signs, left_rows: Ints, left_keys: Ints,
    right_row: Ints, right_key: Ints, right_instant: Instants, right_sign: Signs, right_rows: Ints, right_keys: Ints,
    place: Ints, most: int, with_ends: bool, messages: Ints,
) -> tuple[Ints, Ints, Instants, Signs]:  # fmt: skip
    """The changes of both sides in the order of time: each meets the rows that the other side has then, and is counted in.

    Returns the pairs, as often as their rows are there: the codes of the left and of the right row, when, and with which sign.
    Begins at `place`; stops before a change that would make more than `most` pairs of them, which may be a long one by itself.
    """
    lefts, rights = len(left_row), len(right_row)
    i, j, n = place[LEFTS], place[RIGHTS], 0
    room = min(most, 2 * (lefts - i + rights - j))
    left, right, instant, sign = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int8)
    while i < lefts or j < rights:
        if i + AHEAD < lefts:
            prefetch(left_rows, left_row[i + AHEAD])
            prefetch(left_keys, left_key[i + AHEAD])
            prefetch(right_keys, left_key[i + AHEAD])
        if j + AHEAD < rights:
            prefetch(right_rows, right_row[j + AHEAD])
            prefetch(right_keys, right_key[j + AHEAD])
            prefetch(left_keys, right_key[j + AHEAD])
        if i + NEAR < lefts:
            _prefetch_heads(left_key[i + NEAR], left_rows, left_keys, right_rows, right_keys)
        if j + NEAR < rights:
            _prefetch_heads(right_key[j + NEAR], left_rows, left_keys, right_rows, right_keys)
        from_left = j == rights or (i < lefts and left_instant[i] <= right_instant[j])
        if with_ends:
            if from_left and j < rights and left_instant[i] == right_instant[j] and abs(right_sign[j]) > 1:
                from_left = False  # what ends at an instant has ended before anything comes at it
            if from_left and abs(left_sign[i]) > 1:
                _note_end(left_row[i], left_instant[i], left_rows, messages, place)
                count_in(left_row[i], left_key[i], left_sign[i] // 2, left_rows, left_keys)
                i += 1
                continue
            if not from_left and abs(right_sign[j]) > 1:
                _note_end(right_row[j], right_instant[j], right_rows, messages, place)
                count_in(right_row[j], right_key[j], right_sign[j] // 2, right_rows, right_keys)
                j += 1
                continue
        pairs = right_keys[left_key[i], COPIES] if from_left else left_keys[right_key[j], COPIES]
        if n + pairs > most:
            if pairs > most:
                place[PARTNER] = right_keys[left_key[i], HEAD] if from_left else left_keys[right_key[j], HEAD]
            break
        if n + pairs > room:
            room = min(most, 2 * (n + pairs))
            left, right, instant, sign = _longer(left, n, room), _longer(right, n, room), _longer(instant, n, room), _longer(sign, n, room)
        if from_left:
            r = right_keys[left_key[i], HEAD]
            while r >= 0:
                count = right_rows[r, COUNT]
                for _ in range(abs(count)):
                    left[n], right[n], instant[n] = left_row[i], r, left_instant[i]
                    sign[n] = left_sign[i] if count > 0 else -left_sign[i]
                    n += 1
                if with_ends:
                    _charge(left_row[i], r, count * left_sign[i], left_rows, right_rows, place)
                r = right_rows[r, NEXT]
            count_in(left_row[i], left_key[i], left_sign[i], left_rows, left_keys)
            i += 1
        else:
            r = left_keys[right_key[j], HEAD]
            while r >= 0:
                count = left_rows[r, COUNT]
                for _ in range(abs(count)):
                    left[n], right[n], instant[n] = r, right_row[j], right_instant[j]
                    sign[n] = right_sign[j] if count > 0 else -right_sign[j]
                    n += 1
                if with_ends:
                    _charge(r, right_row[j], count * right_sign[j], left_rows, right_rows, place)
                r = left_rows[r, NEXT]
            count_in(right_row[j], right_key[j], right_sign[j], right_rows, right_keys)
            j += 1
    place[LEFTS], place[RIGHTS] = i, j
    return left[:n], right[:n], instant[:n], sign[:n]


@kernel
def meet_long(
    left_row: Ints, left_key: Ints, left_instant: Instants, left_sign: Signs, left_rows: Ints, left_keys: Ints,
    right_row: Ints, right_key: Ints, right_instant: Instants, right_sign: Signs, right_rows: Ints, right_keys: Ints,
    place: Ints, most: int, with_ends: bool, messages: Ints,
) -> tuple[Ints, Ints, Instants, Signs]:  # fmt: skip
    """As `meet`, for one long change: some of its pairs at a time; it is counted in after the last."""
    i, j = place[LEFTS], place[RIGHTS]
    if j == len(right_row) or (i < len(left_row) and left_instant[i] <= right_instant[j]):
        r, sign = _some_partners(right_rows, place, most)
        if with_ends:
            for n in range(len(r)):
                _charge(left_row[i], r[n], sign[n] * left_sign[i], left_rows, right_rows, place)
        if place[PARTNER] < 0:
            count_in(left_row[i], left_key[i], left_sign[i], left_rows, left_keys)
            place[LEFTS] += 1
        return np.full(len(r), left_row[i]), r, np.full(len(r), left_instant[i]), sign * left_sign[i]
    r, sign = _some_partners(left_rows, place, most)
    if with_ends:
        for n in range(len(r)):
            _charge(r[n], right_row[j], sign[n] * right_sign[j], left_rows, right_rows, place)
    if place[PARTNER] < 0:
        count_in(right_row[j], right_key[j], right_sign[j], right_rows, right_keys)
        place[RIGHTS] += 1
    return r, np.full(len(r), right_row[j]), np.full(len(r), right_instant[j]), sign * right_sign[j]


@kernel
def _some_partners(rows: Ints, place: Ints, most: int) -> tuple[Ints, Signs]:
    """The next rows of a list, as often as they are there, and their signs.  Moves `place`."""
    partner, sign = np.empty(most, np.int64), np.empty(most, np.int8)
    r, copy, n = place[PARTNER], place[COPY], 0
    while r >= 0 and n < most:
        count = rows[r, COUNT]
        upto = min(abs(count), copy + most - n)
        for _ in range(copy, upto):
            partner[n], sign[n] = r, 1 if count > 0 else -1
            n += 1
        copy = upto
        if copy == abs(count):
            r, copy = rows[r, NEXT], 0
    place[PARTNER], place[COPY] = r, copy
    return partner[:n], sign[:n]


@inlined
def _longer(array: npt.NDArray[Any], used: int, length: int) -> npt.NDArray[Any]:
    longer = np.empty(length, array.dtype)
    longer[:used] = array[:used]
    return longer


@kernel
def forsaken(left_key: Ints, right_key: Ints, left_keys: Ints, right_keys: Ints) -> Ints:
    """The keys among these that no row of either side has any more, each once."""
    out = np.empty(len(left_key) + len(right_key), np.int64)
    n = 0
    for i in range(len(out)):
        k = left_key[i] if i < len(left_key) else right_key[i - len(left_key)]
        if left_keys[k, HEAD] < 0 and right_keys[k, HEAD] < 0 and left_keys[k, COPIES] == 0:
            left_keys[k, COPIES] = -1
            out[n] = k
            n += 1
    for i in range(n):
        left_keys[out[i], COPIES] = 0
    return out[:n]


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
