"""Which changes matter to aggregates that see every value once.

    change ─► code of (group, value) ─┬─► how often it is there                       0 to 1, 1 to 0: a flip
                                      ├─► how often in rows where a condition holds   likewise
                                      └─► and so on

The pair is looked up once, for all aggregates over the same values, with and without conditions.  Where nothing ever leaves, a byte says
that a value has been there, in place of a number.

A value may be a tuple of columns.  A value can only leave once it is there, so inside an instant what enters goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.signed_batch import Signs
from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.multiplicity import first_seen, transitions, without_copies
from millstream.kernels.slots import arrivals_first
from millstream.operators.aggregates.aggregate import Changes, grown
from millstream.operators.aggregates.pairs import saved_pairs
from millstream.operators.operator import Arrays


class DistinctValues:
    """A way is a condition: of the same values, only those in rows where it is true are seen."""

    def __init__(self, types: Sequence[pa.DataType], *, append_only: bool) -> None:
        self._table = KeyTable([pa.int64(), *types], has_nulls=False)
        self._new: type[_Times] | type[_Seen] = _Seen if append_only else _Times
        self._whole = self._new()
        self._ways: dict[str, _Times | _Seen] = {}
        self._added: Changes | None = None
        self._turn: _Turn
        self._flips: dict[str | None, Bytes]

    def add_way(self, condition: str) -> None:
        """The condition is the one in this column."""
        self._ways.setdefault(condition, self._new())

    def flips(self, changes: Changes, values: Sequence[pa.Array]) -> Bytes:
        """1 where a value appears in its group or vanishes; a value with a NULL in it never does.  Applies the same changes only once."""
        if changes is not self._added:
            self._added = None
            self._turn = self._encoded(changes, values)
            self._flips = {None: self._turn.flips(self._whole, ALL_VALID)}
            # a value that is in no row is in none of those that a condition leaves
            self._table.release(self._whole.gone(self._turn.pairs))
            self._added = changes
        return self._flips[None]

    def flips_where(self, way: str, changes: Changes, values: Sequence[pa.Array], condition: pa.Array) -> Bytes:
        """The same among the rows where the condition is true."""
        self.flips(changes, values)
        if way not in self._flips:
            holds, there = condition.fill_null(False).to_numpy(zero_copy_only=False).view(np.uint8), self._turn.there
            self._flips[way] = self._turn.flips(self._ways[way], frozen(holds if there is None else holds[there]))
        return self._flips[way]

    def _encoded(self, changes: Changes, values: Sequence[pa.Array]) -> _Turn:
        present, there = _all_present(values), None
        code, sign, instant = changes.code, changes.sign, changes.instant
        if len(present) and not present.all():
            there = np.flatnonzero(present)  # of FILTER most rows may be NULL
            code, sign, instant = code[there], sign[there], instant[there]
            values = [value.take(pa.array(there)) for value in values]
        pairs = self._codes(code, values) if len(code) else np.empty(0, np.int64)
        return _Turn(pairs, frozen(sign), arrivals_first(frozen(instant), frozen(sign)), there, len(changes.code))

    def _codes(self, groups: Ints, values: Sequence[pa.Array]) -> Ints:
        codes = self._table.encode([pa.array(groups), *values])
        for kept in (self._whole, *self._ways.values()):
            kept.reserve(self._table.capacity)
        return frozen(codes)

    def state_rows(self) -> int:
        return len(self._table)

    def save(self, codes: Ints) -> Arrays:
        """The groups with these codes will have the codes 0, 1, 2, ..."""
        live = self._table.live_codes()
        kept = {self._whole.name: self._whole.of(live)}
        kept |= {f"{way.name}_where_{place}": way.of(live) for place, way in enumerate(self._ways.values())}
        return saved_pairs(self._table, live, codes) | kept

    def load(self, arrays: Arrays) -> None:
        pairs = self._codes(arrays["group"], arrow_buffers.from_bytes(arrays["values"]))
        # whether a value has been there can be told by how often it is, not the other way round
        name = self._whole.name if self._whole.name in arrays else _Times.name
        self._whole.load(pairs, arrays[name])
        for place, way in enumerate(self._ways.values()):
            way.load(pairs, arrays[f"{name}_where_{place}"])


@dataclass(frozen=True)
class _Turn:
    """The changes of a step whose values are there, as pairs."""

    pairs: Ints
    sign: Signs
    order: Ints
    there: Ints | None
    """Which changes they are; None: all."""
    changes: int

    def flips(self, kept: _Times | _Seen, counted: Bytes) -> Bytes:
        """Of all changes of the step."""
        flips = np.zeros(len(self.pairs), np.uint8)
        kept.apply(self, counted, flips)
        if self.there is None:
            return flips
        all_ = np.zeros(self.changes, np.uint8)
        all_[self.there] = flips
        return all_


class _Times:
    """How often each pair is there."""

    name = "times"

    def __init__(self) -> None:
        self._counts: Ints = np.zeros(0, np.int64)

    def reserve(self, capacity: int) -> None:
        self._counts = grown(self._counts, capacity)

    def apply(self, turn: _Turn, counted: Bytes, flips: Bytes) -> None:
        if not transitions(turn.pairs, turn.sign, turn.order, counted, self._counts, flips):
            raise InternalError("a group was asked to give back a value that it never got")

    def gone(self, pairs: Ints) -> Ints:
        """Those of them that are there no more, each once."""
        return without_copies(pairs, self._counts)

    def of(self, pairs: Ints) -> Ints:
        return self._counts[pairs]

    def load(self, pairs: Ints, times: Ints | Bytes) -> None:
        self._counts[pairs] = times


class _Seen:
    """Whether each pair has been there, where none ever leaves."""

    name = "seen"

    def __init__(self) -> None:
        self._seen: Bytes = np.zeros(0, np.uint8)

    def reserve(self, capacity: int) -> None:
        self._seen = grown(self._seen, capacity)

    def apply(self, turn: _Turn, counted: Bytes, flips: Bytes) -> None:
        if (turn.sign < 0).any():
            raise InternalError("a group whose rows never leave was asked to give one back")
        first_seen(turn.pairs, counted, self._seen, flips)

    def gone(self, pairs: Ints) -> Ints:
        return pairs[:0]

    def of(self, pairs: Ints) -> Bytes:
        return self._seen[pairs]

    def load(self, pairs: Ints, seen: Ints | Bytes) -> None:
        self._seen[pairs] = seen > 0


def _all_present(values: Sequence[pa.Array]) -> Bytes:
    """1 where none of the values is NULL."""
    masks = [mask for mask in map(arrow_buffers.valid_mask, values) if len(mask)]
    return frozen(np.minimum.reduce(masks)) if masks else ALL_VALID
