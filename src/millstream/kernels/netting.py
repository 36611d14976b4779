"""Cancelling equal rows of opposite sign inside an instant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels.compiled import Bytes, Ints, kernel


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
