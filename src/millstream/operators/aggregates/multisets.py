"""An ordered multiset of values per group, for the aggregates that must know what comes next when a value leaves.

A value can only leave once it is there, so inside an instant what enters goes first.  Aggregates of the same
values share the multisets; one of them, the owner, keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.extremes import NEVER_THERE, OUT_OF_NODES, restore
from millstream.kernels.ordered_multiset import NUMBERS, STRINGS, dump, grown_nodes, keys_in_use, new_nodes, new_path
from millstream.kernels.slots import arrivals_first
from millstream.kernels.sort_keys import SortKeys
from millstream.operators.aggregates.aggregate import Aggregate, Changes, grown
from millstream.operators.operator import Arrays

_SLACK = 4096
"""Interned values beyond twice those in use that are not worth a sweep."""


class Multisets:
    """The ordered multisets of one column, for all groups."""

    def __init__(self, sort_keys: SortKeys) -> None:
        self.sort_keys = sort_keys
        self._nodes = new_nodes(STRINGS if sort_keys.order[0] else NUMBERS)
        self._roots: Ints = np.empty(0, np.int64)
        self._path = new_path()
        self._kept = 0  # values in all multisets
        self._worth_a_sweep = _SLACK

    def _apply(self, changes: Changes, argument: pa.Array, track: Callable[[Ints, Ints, Bytes, Ints], int]) -> None:
        """`track` applies changes, given their order, keys, validity and how far it came; here is the room that it needs."""
        self._maybe_sweep()
        keys, valid = self.sort_keys.keys(argument), arrow_buffers.valid_mask(argument)
        order, progress = arrivals_first(changes.instant, changes.sign), np.zeros(3, np.int64)
        while (state := track(order, keys, valid, progress)) == OUT_OF_NODES:
            self._nodes = grown_nodes(self._nodes)
        if state == NEVER_THERE:
            raise InternalError("a group was asked to give back a value that it never got")
        self._kept += int((changes.sign * valid if len(valid) else changes.sign).sum())

    def reserve(self, capacity: int) -> None:
        self._roots = grown(self._roots, capacity, fill=-1)

    def state_rows(self) -> int:
        return self._kept

    def save(self, codes: Ints) -> Arrays:
        group, keys, times = dump(self._nodes, self._roots[codes]).T.copy()
        return {"group": group, "values": arrow_buffers.to_bytes([self.sort_keys.values(keys)]), "times": times}

    def load(self, arrays: Arrays) -> None:
        keys, done = self.sort_keys.keys(arrow_buffers.from_bytes(arrays["values"])[0]), 0
        group, times = frozen(arrays["group"]), frozen(arrays["times"])
        while (done := restore(self._nodes, self._roots, group, keys, times, *self.sort_keys.order, done)) < len(keys):
            self._nodes = grown_nodes(self._nodes)
        self._kept = int(times.sum())

    def _maybe_sweep(self) -> None:
        """Between steps: keys given out earlier live on in the trees only."""
        if self.sort_keys.held() > self._worth_a_sweep:
            used = np.unique(keys_in_use(self._nodes))
            self.sort_keys.sweep(used)
            self._worth_a_sweep = 2 * len(used) + _SLACK


class Shared(Protocol):
    """What several aggregates of an operator may share."""

    def reserve(self, capacity: int) -> None: ...
    def save(self, codes: Ints) -> Arrays: ...
    def load(self, arrays: Arrays) -> None: ...
    def state_rows(self) -> int: ...


S = TypeVar("S", bound=Shared)


class SharingAgg(Aggregate, Generic[S]):
    """An aggregate whose state is shared with others; the owner keeps it."""

    invertible = False

    def __init__(self, type_: pa.DataType, shared: S, *, owner: bool) -> None:
        super().__init__(type_)
        self._shared = shared
        self._owner = owner

    def reserve(self, capacity: int) -> None:
        if self._owner:
            self._shared.reserve(capacity)

    def save(self, codes: Ints) -> Arrays:
        return self._shared.save(codes) if self._owner else {}

    def load(self, arrays: Arrays) -> None:
        if self._owner:
            self._shared.load(arrays)

    def state_rows(self) -> int:
        return self._shared.state_rows() if self._owner else 0
