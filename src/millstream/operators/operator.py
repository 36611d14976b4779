"""What every running operator offers.

    step      changes of the inputs up to the frontier  ->  changes of the output up to the frontier
    contents  the output relation at the frontier, in full, for q.result()
    save/load the state as named arrays, for snapshots; nothing is ever pickled

Contract of `step`.  Each input is sorted by instant and lies in (last frontier, frontier]; so
does the output.  How the line of time is cut into steps never shows in the changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch

Arrays = dict[str, npt.NDArray[Any]]
Contents = Callable[[], pa.RecordBatch]


class Operator(ABC):
    schema: Schema
    """Of the output."""

    @abstractmethod
    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch: ...

    @abstractmethod
    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        """The relation at the last frontier.  Stateful operators answer from their state and never call `input_contents`."""

    def start(self) -> SignedBatch:
        """What the output holds before any event, as changes stamped with the beginning of time."""
        return SignedBatch.empty(self.schema)

    def save(self) -> Arrays:
        return {}

    def load(self, arrays: Arrays) -> None:
        assert not arrays, f"{type(self).__name__} keeps no state"

    def state_rows(self) -> int:
        return 0


def prefixed(arrays: Arrays, prefix: str) -> Arrays:
    return {f"{prefix}.{name}": np.asarray(array) for name, array in arrays.items()}


def without_prefix(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix + "."): array for name, array in arrays.items() if name.startswith(prefix + ".")}
