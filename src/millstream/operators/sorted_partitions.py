"""Rows in order, partition by partition: what OVER and the first rows of an order keep.

A row is known by its code (kernels/row_store.py), a partition by the code of its key; each partition is an ordered multiset of
rows.  A step's changes become slots, (partition, instant) by instant, with what is left of them when equal rows cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch
from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Ints
from millstream.kernels.extremes import restore
from millstream.kernels.key_table import KeyTable
from millstream.kernels.ordered_multiset import EMPTY, ROWS, dump, grown_nodes, keys_in_use, new_nodes, new_path
from millstream.kernels.row_store import RowStore, SortColumn
from millstream.operators.operator import Arrays
from millstream.plan.ordering import SortKey

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Slots:
    """The changes code[start[s]:start[s + 1]] are those of slot s."""

    part: Ints
    instant: Instants
    start: Ints
    code: Ints
    delta: Ints  # how many more of the row, never 0

    def __len__(self) -> int:
        return len(self.part)

    def by_partition(self) -> tuple[Slots, Ints]:
        """The same slots, those of a partition one after the other, and their ranks by instant: what they need is then near."""
        order = np.argsort(self.part, kind="stable")
        lengths = np.diff(self.start)[order]
        start = np.append(0, np.cumsum(lengths))
        changes = np.arange(start[-1]) + np.repeat(self.start[:-1][order] - start[:-1], lengths)
        slots = Slots(
            frozen(self.part[order]), self.instant[order], frozen(start), frozen(self.code[changes]), frozen(self.delta[changes])
        )  # fmt: skip
        return slots, order


class SortedPartitions:
    def __init__(self, schema: Schema, partition_by: Sequence[str], order_by: Sequence[SortKey]) -> None:
        self._schema = schema
        self._partition_by = tuple(partition_by)
        sort = [SortColumn(schema.names.index(key.column), key.descending, key.nulls_first) for key in order_by]
        self.store = RowStore([field.type for field in schema], sort)
        self._keys = KeyTable([schema[name].type for name in partition_by]) if partition_by else None
        self.nodes = new_nodes(ROWS)
        self.path = new_path()
        self.roots: Ints = np.full(1, EMPTY, np.int64)
        self.rows = 0
        self.told_apart = True  # rows with different codes are different also to whoever takes -0.0 for 0.0
        self._touched: Ints = np.empty(0, np.int64)

    def slots(self, batch: SignedBatch) -> Slots:
        codes, parts = self.store.encode(batch.rows.columns), self.parts(batch.rows, self._partition_by)
        self._touched = parts
        self.told_apart &= not any(map(_may_have_twins, batch.rows.columns))
        self.rows += int(batch.sign.sum(dtype=np.int64))
        if (batch.instant[1:] > batch.instant[:-1]).all():  # as many slots as changes
            start = np.arange(len(batch) + 1)
            return Slots(frozen(parts), batch.instant, frozen(start), frozen(codes), frozen(batch.sign.astype(np.int64)))
        order = np.lexsort((codes, parts, batch.instant))
        instant, part, code = batch.instant[order], parts[order], codes[order]
        first = np.flatnonzero(_differs(instant) | _differs(part) | _differs(code))
        delta = np.add.reduceat(batch.sign[order].astype(np.int64), first)
        first, delta = first[delta != 0], delta[delta != 0]
        instant, part, code = instant[first], part[first], code[first]
        start = np.flatnonzero(_differs(instant) | _differs(part))
        return Slots(
            frozen(part[start]), instant[start], frozen(np.append(start, len(first))), frozen(code), frozen(delta)
        )  # fmt: skip

    def grow(self) -> None:
        self.nodes = grown_nodes(self.nodes)

    def keys(self, parts: Ints) -> list[pa.Array]:
        return self._keys.decode(parts) if self._keys is not None else []

    def forget(self, kept: Ints | None = None, touched: Ints | None = None, apart: Callable[[], Ints] | None = None) -> None:
        """After a step: partitions without rows, unless there is something `kept` for them (not 0), and rows that are in none.

        `touched` are partitions that may have become idle though none of their rows has changed.  `apart` gives the codes of rows that
        somebody else keeps.
        """
        if self._keys is not None:
            parts = self._touched if touched is None else np.append(self._touched, touched)
            empty = self.roots[parts] == EMPTY
            self._keys.release(np.unique(parts[empty if kept is None else empty & (kept[parts] == 0)]))
        if self.store.is_worth_a_sweep:
            used = keys_in_use(self.nodes)
            self.store.sweep(used if apart is None else np.append(used, apart()))

    def save(self) -> Arrays:
        _, codes, times = dump(self.nodes, self.roots).T.copy()
        return self.saved(codes, times)

    def saved(self, codes: Ints, times: Ints) -> Arrays:
        """These rows, each so many times."""
        return {"rows": arrow_buffers.to_bytes(self.store.columns(codes)), "times": times}

    def load(self, arrays: Arrays) -> None:
        codes, parts, times = self.saved_rows(arrays)
        done, order = 0, (True, self.store.arena, self.store.spans)
        while (done := restore(self.nodes, self.roots, parts, codes, times, *order, done)) < len(codes):
            self.grow()

    def saved_rows(self, arrays: Arrays) -> tuple[Ints, Ints, Ints]:
        """The codes and partitions of saved rows, and how often they are there: rows that are in no multiset yet."""
        rows = pa.RecordBatch.from_arrays(arrow_buffers.from_bytes(arrays["rows"]), schema=self._schema.to_arrow())
        codes, parts, times = self.store.encode(rows.columns), self.parts(rows, self._partition_by), arrays["times"]
        self.rows = int(times.sum())
        self.told_apart = not any(map(_may_have_twins, rows.columns))
        return frozen(codes), frozen(parts), frozen(times)

    def held(self) -> Slots:
        """All rows as if they had just come, a slot for each partition."""
        return as_if_new(*dump(self.nodes, self.roots).T.copy())

    def parts(self, rows: pa.RecordBatch, key_columns: Sequence[str]) -> Ints:
        """The partition of each row: that of its key."""
        if self._keys is None:
            return np.zeros(rows.num_rows, np.int64)
        codes = self._keys.encode([rows.column(name) for name in key_columns])
        if self._keys.capacity > len(self.roots):
            self.roots = np.append(self.roots, np.full(self._keys.capacity - len(self.roots), EMPTY, np.int64))
        return codes


def as_if_new(part: Ints, code: Ints, times: Ints) -> Slots:
    """Rows that have just come, those of a partition one after the other: a slot for each partition."""
    start = np.flatnonzero(_differs(part)) if len(part) else np.empty(0, np.int64)
    return Slots(
        frozen(part[start]), np.zeros(len(start), np.int64), frozen(np.append(start, len(part))), frozen(code), frozen(times)
    )  # fmt: skip


def never_there() -> InternalError:
    return InternalError("a partition was asked to give back a row that it never got")


def _may_have_twins(column: pa.Array) -> bool:
    """It may hold values that are equal and have other bits."""
    if not pa.types.is_floating(column.type):
        return bool(pa.types.is_nested(column.type))
    values = column.fill_null(1.0).to_numpy(zero_copy_only=False)
    return bool((np.isnan(values) | ((values == 0) & np.signbit(values))).any())


def _differs(values: Ints) -> Flags:
    """Where a value is not that before it; true for the first."""
    differs = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs
