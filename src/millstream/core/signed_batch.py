"""Signed batches: changes of a bag, the only thing that flows between operators.

    instant   int64   when the change happens, nondecreasing inside a batch
    sign      int8    +1 the row enters, -1 it leaves
    rows      Arrow   the row itself, column by column
    until     int64   when the change ends by itself, GONE_NEVER if it does not; absent where none does

A change that ends counts from its instant up to the one where it ends, and nobody takes it back.  Only windows and joins that
say so make such changes, and only until an operator that wants every change told (operators/expire.py).

Inside one instant the order is free for relational operators; sources deliver rows of one
instant in arrival order, which the ROWS windows rely on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.instant import GONE_NEVER, Micros
from millstream.core.schema import Schema

Instants = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class SignedBatch:
    instant: Instants
    sign: Signs
    rows: pa.RecordBatch
    until: Instants | None = None

    @staticmethod
    def empty(schema: Schema) -> SignedBatch:
        rows = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema.to_arrow())
        return SignedBatch(np.empty(0, np.int64), np.empty(0, np.int8), rows)

    @staticmethod
    def arrivals(instant: Instants, rows: pa.RecordBatch) -> SignedBatch:
        return SignedBatch(instant, np.ones(len(instant), np.int8), rows)

    def __len__(self) -> int:
        return len(self.instant)

    def slice(self, start: int, stop: int) -> SignedBatch:
        until = None if self.until is None else self.until[start:stop]
        return SignedBatch(self.instant[start:stop], self.sign[start:stop], self.rows.slice(start, stop - start), until)

    def take(self, indices: npt.NDArray[Any]) -> SignedBatch:
        until = None if self.until is None else self.until[indices]
        return SignedBatch(self.instant[indices], self.sign[indices], self.rows.take(pa.array(indices)), until)

    def filter(self, mask: npt.NDArray[np.bool_]) -> SignedBatch:
        if mask.all():
            return self
        until = None if self.until is None else self.until[mask]
        return SignedBatch(self.instant[mask], self.sign[mask], self.rows.filter(pa.array(mask)), until)

    @property
    def ends(self) -> Instants:
        """When each change ends by itself."""
        return np.full(len(self), GONE_NEVER, np.int64) if self.until is None else self.until

    @property
    def nbytes(self) -> int:
        return int(self.instant.nbytes + self.sign.nbytes + self.rows.nbytes)

    def split_by_null(self, names: Sequence[str]) -> tuple[SignedBatch, SignedBatch]:
        """The changes of rows that have a value in each of these columns, and the others."""
        nothing = np.zeros(len(self), np.bool_)
        for name in names:
            column = self.rows.column(name)
            if column.null_count:
                nothing |= column.is_null().to_numpy(zero_copy_only=False)
        if not nothing.any():
            return self, self.slice(0, 0)
        return self.take(np.flatnonzero(~nothing)), self.take(np.flatnonzero(nothing))

    def with_signs(self, sign: Signs) -> SignedBatch:
        return SignedBatch(self.instant, sign, self.rows, self.until)

    def with_rows(self, rows: pa.RecordBatch) -> SignedBatch:
        return SignedBatch(self.instant, self.sign, rows, self.until)

    def changes(self) -> Iterator[tuple[Micros, int, tuple[Any, ...]]]:
        """(instant, sign, row) one by one, as Python values: for tests and for people, never on a hot path."""
        columns = [column.to_pylist() for column in self.rows.columns]
        for i, (instant, sign) in enumerate(zip(self.instant.tolist(), self.sign.tolist(), strict=True)):
            yield instant, sign, tuple(column[i] for column in columns)


def concat(batches: Sequence[SignedBatch]) -> SignedBatch:
    """One batch after the other; the caller knows that the instants stay in order."""
    if len(batches) == 1:
        return batches[0]
    return SignedBatch(
        np.concatenate([batch.instant for batch in batches]),
        np.concatenate([batch.sign for batch in batches]),
        pa.concat_batches([batch.rows for batch in batches]),
        np.concatenate([batch.ends for batch in batches]) if any(batch.until is not None for batch in batches) else None,
    )


def merge_by_instant(batches: Sequence[SignedBatch]) -> SignedBatch:
    """All changes in instant order; inside an instant, earlier batches of the list come first."""
    full = [batch for batch in batches if len(batch)]
    if not full:
        return batches[0]
    merged = concat(full)
    if (merged.instant[1:] >= merged.instant[:-1]).all():
        return merged
    return merged.take(np.argsort(merged.instant, kind="stable"))
