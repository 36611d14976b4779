"""Cancelling equal rows of opposite sign inside an instant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import Bytes, Hashes, Ints, kernel, mix


@kernel
def mixed_instants(instant: Instants, sign: Signs) -> npt.NDArray[np.bool_]:
    """Which changes happen at an instant at which there are changes of both signs."""
    mixed = np.zeros(len(instant), np.bool_)
    start = 0
    while start < len(instant):
        stop, both = start + 1, False
        while stop < len(instant) and instant[stop] == instant[start]:
            both |= sign[stop] != sign[start]
            stop += 1
        if both:
            mixed[start:stop] = True
        start = stop
    return mixed


@kernel
def mix_in(words: Ints, hashes: Hashes) -> None:
    """Makes one more word of each row part of the row's hash."""
    for i in range(len(words)):
        hashes[i] = mix(hashes[i] ^ np.uint64(words[i]))


@kernel
def doubtful(instant: Instants, sign: Signs, hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which changes share their instant and their hash with one of the other sign: no other has anything to cancel with."""
    longest, start = 0, 0
    for i in range(1, len(instant) + 1):
        if i == len(instant) or instant[i] != instant[start]:
            longest = max(longest, i - start)
            start = i
    slots = 2
    while slots < 2 * longest:
        slots *= 2
    seen = np.full((slots, 2), -1, np.int64)  # by hash: a row with it, and whether both signs have been seen; of instants before: stale
    slot = np.empty(len(instant), np.int64)
    out = np.zeros(len(instant), np.bool_)
    start = 0
    while start < len(instant):
        stop = start
        while stop < len(instant) and instant[stop] == instant[start]:
            at = np.int64(hashes[stop] & np.uint64(slots - 1))
            while seen[at, 0] >= start and hashes[seen[at, 0]] != hashes[stop]:
                at = (at + 1) & (slots - 1)
            if seen[at, 0] < start:
                seen[at, 0], seen[at, 1] = stop, 0
            elif sign[seen[at, 0]] != sign[stop]:
                seen[at, 1] = 1
            slot[stop] = at
            stop += 1
        for i in range(start, stop):
            out[i] = seen[slot[i], 1] == 1
        start = stop
    return out


@kernel
def survivors(instant: Instants, sign: Signs, code: Ints, codes: int) -> Bytes:
    """1 for each change that is left when equal rows (equal codes) of opposite sign cancel; the earliest ones stay."""
    keep = np.zeros(len(code), np.uint8)
    net = np.zeros(codes, np.int64)
    start = 0
    while start < len(code):
        stop = start
        while stop < len(code) and instant[stop] == instant[start]:
            net[code[stop]] += sign[stop]
            stop += 1
        for i in range(start, stop):
            if net[code[i]] * sign[i] > 0:
                keep[i] = 1
                net[code[i]] -= sign[i]
        start = stop
    return keep
