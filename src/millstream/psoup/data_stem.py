"""The data SteM of one stream: its rows in order of arrival, with a sorted index for each attribute that some query asks for.

A row's id is the number of rows that came before it.  Timestamps never fall, so a window is a stretch of ids.  Keys and indexes of a
column are made when somebody first asks for them, and catch up with what has come since whenever somebody asks again: a soup in which
rows only ever meet the query SteM has no index to keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from millstream.core.errors import ArityMismatch, InstantPassed
from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants
from millstream.kernels.arrow_buffers import is_word, plain, valid_mask
from millstream.kernels.comparison_keys import ComparisonKeys, Interval, constant_array
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.predicate_index import Factor
from millstream.kernels.sliding_array import SlidingArray
from millstream.kernels.sort_keys import SortKeys
from millstream.psoup.query import Mask
from millstream.psoup.sorted_runs import SortedRuns

_MOST_CHUNKS = 64


class Names:
    """Strings and other long values as numbers, the same in all SteMs: equal values have equal keys.  Their order says nothing."""

    def __init__(self) -> None:
        self._keys: dict[pa.DataType, SortKeys] = {}

    def __getitem__(self, type_: pa.DataType) -> SortKeys:
        return self._keys.setdefault(type_, SortKeys(type_))

    def sweep(self, used: Mapping[pa.DataType, Sequence[Ints]]) -> None:
        """Forget the values that no column holds any more, if they are many."""
        for type_, keys in self._keys.items():
            mine = used.get(type_, ())
            if keys.held() > 2 * sum(map(len, mine)) + 1024:
                keys.sweep(np.concatenate([*mine, np.empty(0, np.int64)]))


class KeyColumn:
    """A column as keys, and its index, which has no NULLs."""

    def __init__(self, keys: SortKeys) -> None:
        self.source = keys
        self.keys = SlidingArray()
        self.valid = SlidingArray(np.uint8)
        self.index = SortedRuns()

    def append(self, array: pa.Array, first: int) -> None:
        keys, valid = self.source.keys(array), valid_mask(plain(array))
        present = valid == 1 if len(valid) else np.ones(len(keys), np.bool_)
        self.keys.append(keys)
        self.valid.append(present.astype(np.uint8))
        self.index.add(keys[present], first + np.flatnonzero(present))

    def drop_before(self, row: int) -> None:
        """Also of rows that it never had."""
        for array in (self.keys, self.valid):
            array.drop_before(row)
            array.first = max(array.first, row)
        self.index.drop_before(row)

    def of(self, ids: Ints) -> tuple[Ints, Bytes]:
        at = ids - self.keys.first
        return self.keys.values[at], self.valid.values[at]


class DataStem:
    def __init__(self, stream: str, schema: Schema, names: Names) -> None:
        self.stream, self.schema = stream, schema
        self._names = names
        self._ts = SlidingArray()
        self._chunks: list[pa.RecordBatch] = []
        self._first_of_chunks = 0
        self._columns: dict[str, KeyColumn] = {}

    @property
    def first(self) -> int:
        """The id of the oldest row that is there."""
        return self._ts.first

    @property
    def stop(self) -> int:
        """The id that the next row will have."""
        return self._ts.stop

    def insert(self, rows: pa.RecordBatch, ts: Instants) -> None:
        self._ts.append(ts)
        self._chunks.append(rows)
        if len(self._chunks) > _MOST_CHUNKS:
            self._compact()

    def check(self, rows: pa.RecordBatch, ts: Instants, newest: Micros | None) -> None:
        """Rows have the columns of the stream, and come in the order of their timestamps, none before `newest`."""
        if rows.schema.names != list(self.schema.names) or [field.type for field in rows.schema] != [field.type for field in self.schema]:
            raise ArityMismatch(f'stream "{self.stream}" has the columns {self.schema}', hint="Give all of them, in this order.")
        if len(ts) != rows.num_rows:
            raise ArityMismatch(f"{rows.num_rows} rows have {len(ts)} timestamps", hint="Give one for each row.")
        if len(ts) and (bool((np.diff(ts) < 0).any()) or (newest is not None and ts[0] < newest)):
            raise InstantPassed(f'rows of "{self.stream}" are not in the order of their timestamps', hint="Sort them before the insert.")

    def expire(self, before: Micros) -> None:
        """Let go of the rows with earlier timestamps."""
        row = self.ids_between(before, None)[0]
        self._ts.drop_before(row)
        while self._chunks and self._first_of_chunks + self._chunks[0].num_rows <= row:
            self._first_of_chunks += self._chunks.pop(0).num_rows

    def ids_between(self, begin: Micros, end: Micros | None) -> tuple[int, int]:
        """The ids of rows with timestamps from begin to end, as a stretch."""
        first = self.first + int(np.searchsorted(self._ts.values, begin, "left"))
        stop = self.stop if end is None else self.first + int(np.searchsorted(self._ts.values, end, "right"))
        return first, max(stop, first)

    def ts(self, ids: Ints) -> Instants:
        return cast(Instants, self._ts.values[ids - self.first])

    def column(self, name: str) -> KeyColumn:
        """Keys and index of a column, with all rows that are there."""
        if name not in self._columns:
            type_ = self.schema[name].type
            self._columns[name] = KeyColumn(SortKeys(type_) if is_word(type_) else self._names[type_])
        column = self._columns[name]
        column.drop_before(self.first)
        if column.keys.stop < self.stop:
            column.append(self.values(name, np.arange(column.keys.stop, self.stop)), column.keys.stop)
        return column

    def names_in_use(self) -> Iterable[tuple[pa.DataType, Ints]]:
        for name in self._columns:
            if not is_word(self.schema[name].type):
                column = self.column(name)
                yield self.schema[name].type, column.keys.values[column.valid.values == 1]

    def take(self, ids: Ints, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of these rows."""
        return pa.RecordBatch.from_arrays([self.values(name, ids) for name in columns], names=list(columns))

    def values(self, name: str, ids: Ints) -> pa.Array:
        """One column of these rows."""
        self._compact()
        if len(self._chunks) > 1 and 4 * len(ids) >= self.stop - self._first_of_chunks:
            self._chunks = [_joined(self._chunks)]  # not much more work than what is asked for
        at, chunks = ids - self._first_of_chunks, [chunk.column(name) for chunk in self._chunks]
        if len(chunks) == 1:
            return chunks[0].take(pa.array(at))
        if not len(at) or not bool((at[1:] >= at[:-1]).all()):
            return _one(pa.chunked_array(chunks, self.schema[name].type).take(pa.array(at)))
        starts = np.cumsum([0, *map(len, chunks)])
        cuts = np.searchsorted(at, starts)
        parts = [
            chunk.take(pa.array(at[cut:next_] - start))
            for chunk, cut, next_, start in zip(chunks, cuts, cuts[1:], starts, strict=False)
            if cut < next_
        ]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _compact(self) -> None:
        """Few chunks: each more than twice as long as the next.  Many small ones are joined at once."""
        lengths = [chunk.num_rows for chunk in self._chunks]
        keep, tail = len(lengths), 0
        while (keep and lengths[keep - 1] <= 2 * tail) or keep == len(lengths) > 0:
            keep -= 1
            tail += lengths[keep]
        if keep < len(lengths) - 1:
            self._chunks[keep:] = [_joined(self._chunks[keep:])]

    def probe(self, factors: Sequence[Factor], first: int, stop: int) -> Ints:
        """The ids from first up to stop for which all factors hold, in ascending order; by the most selective index."""
        boxes, others = self._boxes(factors)
        if any(low > high for low, high in boxes.values()):
            return np.empty(0, np.int64)
        sizes = {name: self.column(name).index.count(*box) for name, box in boxes.items()}
        best = min(sizes, key=lambda name: sizes[name], default=None)
        if best is None or sizes[best] >= stop - first:
            ids = np.arange(first, stop)
        else:
            ids = np.sort(self.column(best).index.ids(*boxes.pop(best)))
            ids = ids[np.searchsorted(ids, first) : np.searchsorted(ids, stop)]
        for name in sorted(boxes, key=lambda name: sizes[name]):
            keys, valid = self.column(name).of(ids)
            ids = ids[(valid == 1) & (keys >= boxes[name][0]) & (keys <= boxes[name][1])]
        for factor in others:
            ids = ids[self._text_mask(ids, factor)]
        return ids

    def estimate(self, factors: Sequence[Factor], first: int, stop: int) -> int:
        """At most so many rows satisfy all factors."""
        boxes, _ = self._boxes(factors)
        return min([stop - first, *(self.column(name).index.count(*box) for name, box in boxes.items() if box[0] <= box[1])])

    def holds(self, factors: Sequence[Factor], ids: Ints) -> Mask:
        """For which of these rows all factors hold."""
        boxes, others = self._boxes(factors)
        mask = np.ones(len(ids), np.bool_)
        for name, (low, high) in boxes.items():
            keys, valid = self.column(name).of(ids)
            mask &= (valid == 1) & (keys >= low) & (keys <= high)
        for factor in others:
            mask &= self._text_mask(ids, factor)
        return mask

    def _boxes(self, factors: Sequence[Factor]) -> tuple[dict[str, Interval], list[Factor]]:
        """An interval of keys for each column, and the factors that have none: strings by anything but equality."""
        boxes: dict[str, Interval] = {}
        others = []
        for factor in factors:
            type_ = self.schema[factor.column].type
            if is_word(type_):
                low, high = ComparisonKeys(type_).interval(factor.op, factor.constant)
            elif factor.op == "=":
                array = constant_array(factor.constant, type_)
                key = int(self._names[type_].keys(array)[0])
                low, high = (1, 0) if array.null_count else (key, key)
            else:
                others.append(factor)
                continue
            before = boxes.get(factor.column, (low, high))
            boxes[factor.column] = max(low, before[0]), min(high, before[1])
        return boxes, others

    def _text_mask(self, ids: Ints, factor: Factor) -> Mask:
        keys = ComparisonKeys(self.schema[factor.column].type)
        low, high = keys.interval(factor.op, factor.constant)
        array = self.values(factor.column, ids)
        found, valid = keys.keys(array), valid_mask(plain(array))
        return cast(Mask, (found >= low) & (found <= high) & (valid == 1 if len(valid) else True))


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _joined(chunks: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    arrays = [pa.concat_arrays([chunk.column(place) for chunk in chunks]) for place in range(chunks[0].num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=chunks[0].schema)
