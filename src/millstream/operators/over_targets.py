"""The rows that a step touches under OVER, and where the kernel that finds them writes (kernels/over_frames.py)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.kernels import over_frames
from millstream.kernels.compiled import Ints
from millstream.kernels.over_frames import CONTEXT, INTERVAL, INTERVALS, ROWS, SIGN, SLOT, TARGETS

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Seen:
    """The targets of some slots."""

    targets: Ints
    frames: Ints
    looked: Ints
    intervals: Ints
    context: Ints

    @property
    def slot(self) -> Ints:
        return self._of_interval(SLOT)

    def slot_of(self, targets: Ints) -> Ints:
        slots: Ints = self.intervals[self.targets[targets, INTERVAL], SLOT]
        return slots

    @property
    def sign(self) -> Ints:
        return self._of_interval(SIGN)

    @property
    def size(self) -> Ints:
        """Rows of the partition."""
        return self._of_interval(ROWS)

    def _of_interval(self, column: int) -> Ints:
        values: Ints = self.intervals[self.targets[:, INTERVAL], column]
        return values


class Room:
    """Where the kernel writes."""

    def __init__(self, size: int, specs: int, lookups: int) -> None:
        self._targets: Ints = np.empty((size, over_frames.TARGET_WIDTH), np.int64)
        self._frames: Ints = np.empty((size, specs, 2), np.int64)
        self._looked: Ints = np.empty((size, lookups), np.int64)
        self._intervals: Ints = np.empty((2 * size, over_frames.INTERVAL_WIDTH), np.int64)
        self._context: Ints = np.empty(4 * size, np.int64)

    @property
    def arrays(self) -> tuple[Ints, ...]:
        return self._targets, self._frames, self._looked, self._intervals, self._context

    def doubled(self) -> Room:
        """Twice the room, with what is in it."""
        larger = Room(2 * len(self._targets), self._frames.shape[1], self._looked.shape[1])
        for old, new in zip(self.arrays, larger.arrays, strict=True):
            new[: len(old)] = old
        return larger

    def seen(self, progress: Ints) -> Seen:
        n, intervals, context = (int(progress[i]) for i in (TARGETS, INTERVALS, CONTEXT))
        return Seen(self._targets[:n], self._frames[:n], self._looked[:n], self._intervals[:intervals], self._context[:context])
