"""What AggregateOp asks of an aggregate: per-group accumulators, indexed by group code.

An aggregate never sees keys.  It applies one step's changes in order and says what its value was
before and after each slot (kernels/slots.py); AggregateOp does the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.signed_batch import Instants, Signs
from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.slots import Places, gather, gather_bytes, mark_changed
from millstream.operators.operator import Arrays


@dataclass(frozen=True, slots=True)
class Changes:
    """One step's changes: when each is, its group's code, its slot and its sign.  Inside an instant rows may leave before they enter."""

    instant: Instants
    code: Ints
    slot: Places
    sign: Signs
    slots: int
    rows: Ints  # the group's row count before and after each slot


class Results(Protocol):
    """A column of results over slots, or over groups."""

    def mark_changed(self, changed: Bytes) -> None:
        """Flag the slots at which the column changes."""

    def take(self, places: Places | None) -> pa.Array:
        """The results at these places; None for all."""


@dataclass(frozen=True, slots=True)
class Values:
    """A column of results, as words (one or two int64 each) and validity.  Equal words = equal results."""

    words: Ints
    valid: Bytes
    build: Callable[[Ints, Bytes], pa.Array]

    @staticmethod
    def of(type_: pa.DataType, words: Ints, valid: Bytes = ALL_VALID) -> Values:
        build = arrow_buffers.from_words if words.ndim == 1 else arrow_buffers.from_decimal_words
        return Values(words, valid, lambda words, valid: build(words, valid, type_))

    def mark_changed(self, changed: Bytes) -> None:
        for part in self.words.T if self.words.ndim == 2 else (self.words,):
            mark_changed(frozen(part), frozen(self.valid), changed)

    def take(self, places: Places | None) -> pa.Array:
        if places is None:
            return self.build(self.words, self.valid)
        words = gather(frozen(self.words), places) if self.words.ndim == 1 else self.words[places]
        return self.build(words, gather_bytes(frozen(self.valid), places) if len(self.valid) else self.valid)


class Aggregate(ABC):
    invertible: ClassVar[bool]
    """What a row added can be taken away again, so that no rows need to be kept."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_

    @abstractmethod
    def add(self, changes: Changes, arguments: list[pa.Array]) -> Results:
        """Apply the changes, given the columns of the call; the value before (2 * slot) and after (2 * slot + 1) each slot."""

    @abstractmethod
    def result(self, codes: Ints, rows: Ints) -> Results:
        """The current value of each of these groups, given how many rows each has."""

    @abstractmethod
    def reserve(self, capacity: int) -> None:
        """Make room for codes below `capacity`."""

    @abstractmethod
    def save(self, codes: Ints) -> Arrays: ...

    @abstractmethod
    def load(self, arrays: Arrays) -> None:
        """The groups that were saved now have the codes 0, 1, 2, ..."""

    def state_rows(self) -> int:
        """Rows that are kept beyond one accumulator per group."""
        return 0


def grown(state: npt.NDArray[Any], capacity: int, fill: int = 0) -> npt.NDArray[Any]:
    """The same array with room for `capacity` groups."""
    if len(state) >= capacity:
        return state
    shape = (capacity, *state.shape[1:])
    larger = np.full(shape, fill, state.dtype) if fill else np.zeros(shape, state.dtype)  # zeros take no memory until they are written to
    larger[: len(state)] = state
    return larger
