"""Distinct rows by code, each with bytes that say where it stands in an order of all rows.

The order is that of the sort columns, then that of all columns from left to right: no two different rows are equal in it.

    arena     room for a bound that no row has (see `BOUND`), then the rows' bytes, with garbage between them
    spans     (capacity, 2) where the bytes of each code begin and how many there are; -1: the code is not in use
    prefixes  (capacity,) how many of them belong to the sort columns: peers have these in common

Nobody counts references: whoever holds codes calls `sweep` with those still in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.code_table import CodeTable
from millstream.kernels.compiled import Bytes, Ints, kernel
from millstream.kernels.key_codec import RowCodec
from millstream.kernels.key_table import codec_for
from millstream.kernels.order_bytes import Ranges, order_bytes, side_by_side

BOUND = 24
"""So many bytes at the beginning of the arena are nobody's."""
START, LENGTH = 0, 1
_SLACK = 1024


@dataclass(frozen=True)
class SortColumn:
    place: int
    descending: bool
    nulls_first: bool


class RowStore:
    def __init__(self, types: Sequence[pa.DataType], sort: Sequence[SortColumn]) -> None:
        self._types = tuple(types)
        self._sort = tuple(sort)
        # a float that sorts is not the whole truth about a row: 0.0 and -0.0 are equal there
        told = {column.place for column in sort if not pa.types.is_floating(types[column.place])}
        self._ties = [place for place in range(len(types)) if place not in told]
        self._rows = RowCodec([codec_for(_bits(type_)) for type_ in types])
        self._table = CodeTable(self._rows.width)
        self.arena: Bytes = np.empty(4096, np.uint8)
        self._used = BOUND
        self.spans: Ints = np.full((0, 2), -1, np.int64)
        self.prefixes: Ints = np.zeros(0, np.int64)
        self._worth_a_sweep = _SLACK

    def __len__(self) -> int:
        return len(self._table)

    def encode(self, columns: Sequence[pa.Array]) -> Ints:
        """The code of each row; new rows get codes."""
        columns = [arrow_buffers.plain(column) for column in columns]
        bits = [column.view(_bits(column.type)) if pa.types.is_floating(column.type) else column for column in columns]
        codes = self._table.encode_rows(self._rows.words(bits, len(columns[0])))
        self._reserve()
        unknown = np.flatnonzero(self.spans[codes, START] < 0)
        new, first = np.unique(codes[unknown], return_index=True)
        if len(new):
            places = unknown[first]
            self._enter(new, columns if len(places) == len(codes) and _ascending(places) else _taken(columns, places))
        return codes

    def columns(self, codes: Ints) -> list[pa.Array]:
        words = self._table.keys.take(codes, axis=0)
        return [self._value(words, i) for i in range(len(self._types))]

    def column(self, codes: Ints, place: int) -> pa.Array:
        """One column of these rows; NULL where the code is -1."""
        return self._value(self._words(codes), place)

    def same(self, one: Ints, other: Ints, place: int) -> npt.NDArray[np.bool_]:
        """Where one column of two rows has the same bits; NULL where the code is -1."""
        return self._rows.same(self._words(one), self._words(other), place)

    def _words(self, codes: Ints) -> Ints:
        none = codes < 0
        words: Ints = self._table.keys.take(np.maximum(codes, 0), axis=0)
        return self._rows.nulled(words * ~none[:, None], (~none).astype(np.uint8)) if none.any() else words

    @property
    def is_worth_a_sweep(self) -> bool:
        return len(self) > self._worth_a_sweep

    def sweep(self, used: Ints) -> None:
        """Forget every row whose code is not in `used`."""
        dead = np.zeros(self._table.capacity, np.bool_)
        dead[self._table.live_codes()] = True
        dead[used] = False
        gone = np.flatnonzero(dead)
        self._table.release(gone)
        self.spans[gone] = -1
        live = self._table.live_codes()
        self._rows.sweep(self._table.keys[live])
        arena = np.empty(max(2 * int(self.spans[live, LENGTH].sum()) + BOUND, 4096), np.uint8)
        self._used = _squeeze(live, self.spans, self.arena, arena)
        self.arena = arena
        self._worth_a_sweep = 2 * len(live) + _SLACK

    def _enter(self, codes: Ints, columns: Sequence[pa.Array]) -> None:
        sorted_ = side_by_side([_sorted(columns[one.place], one) for one in self._sort], len(codes))
        ties = [order_bytes(columns[place], exact=True) for place in self._ties]
        offsets, data = side_by_side([sorted_, *ties], len(codes))
        if self._used + len(data) > len(self.arena):
            arena = np.empty(2 * (self._used + len(data)), np.uint8)
            arena[: self._used] = self.arena[: self._used]
            self.arena = arena
        self.arena[self._used : self._used + len(data)] = data
        self.spans[codes, START] = self._used + offsets[:-1]
        self.spans[codes, LENGTH] = np.diff(offsets)
        self.prefixes[codes] = np.diff(sorted_[0])
        self._used += len(data)

    def _value(self, words: Ints, place: int) -> pa.Array:
        column = self._rows.column(words, place)
        return column.view(self._types[place]) if column.type != self._types[place] else column

    def _reserve(self) -> None:
        more = self._table.capacity - len(self.spans)
        if more > 0:
            self.spans = np.concatenate([self.spans, np.full((more, 2), -1, np.int64)])
            self.prefixes = np.concatenate([self.prefixes, np.zeros(more, np.int64)])


def _sorted(column: pa.Array, sort: SortColumn) -> Ranges:
    return order_bytes(column, descending=sort.descending, nulls_first=sort.nulls_first)


def _bits(type_: pa.DataType) -> pa.DataType:
    """Rows are the same if their bits are: 0.0 and -0.0 are two rows, though they sort alike."""
    if pa.types.is_floating(type_):
        return pa.int64() if type_.bit_width == 64 else pa.int32()
    return type_


def _ascending(places: Ints) -> bool:
    return bool((places[1:] > places[:-1]).all())


def _taken(columns: Sequence[pa.Array], places: Ints) -> list[pa.Array]:
    chosen = pa.array(frozen(places))
    return [column.take(chosen) for column in columns]


@kernel
def _squeeze(live: Ints, spans: Ints, old: Bytes, new: Bytes) -> int:
    used = BOUND
    for i in range(len(live)):
        start, length = spans[live[i], START], spans[live[i], LENGTH]
        for j in range(length):
            new[used + j] = old[start + j]
        spans[live[i], START] = used
        used += length
    return used
