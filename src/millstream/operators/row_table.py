"""Whole rows as dense integer codes, equal rows once, for operators that keep rows and count copies."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.core.schema import Schema
from millstream.kernels.arrow_buffers import plain
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.operators.operator import Arrays


class RowTable:
    """Rows are the same if their bits are: 0.0 and -0.0 are two rows, though as keys they are equal."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._table = KeyTable([_bits(field.type) for field in schema])

    def __len__(self) -> int:
        return len(self._table)

    @property
    def capacity(self) -> int:
        """Every code is below; grows, never shrinks."""
        return self._table.capacity

    def encode(self, rows: pa.RecordBatch) -> Ints:
        """The code of each row; new rows get codes."""
        columns = [plain(column) for column in rows.columns]
        return self._table.encode([column.view(_bits(column.type)) if pa.types.is_floating(column.type) else column for column in columns])

    def columns(self, codes: Ints, places: Sequence[int] | None = None) -> list[pa.Array]:
        """The columns at these places, or all, of the rows behind codes in use."""
        chosen = range(len(self.schema)) if places is None else places
        fields = [self.schema.fields[place] for place in chosen]
        columns = self._table.decode(codes, chosen)
        return [column.view(field.type) if column.type != field.type else column for column, field in zip(columns, fields, strict=True)]

    def rows(self, codes: Ints) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self.columns(codes), schema=self.schema.to_arrow())

    def release(self, codes: Ints) -> None:
        """Forget these rows (each code once)."""
        self._table.release(codes)

    def live_codes(self) -> Ints:
        return self._table.live_codes()

    def save(self) -> Arrays:
        """The rows in the order of `live_codes`; once loaded, their codes are 0, 1, 2, ..."""
        return {**self._table.save()}

    def load(self, arrays: Arrays) -> None:
        self._table.load(arrays)


def _bits(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(type_):
        return pa.int64() if type_.bit_width == 64 else pa.int32()
    return type_
