"""What a relation holds now, in memory: equal rows once with a count, found by primary key.

Built once from the log and then kept up with every change, so that an upsert costs its own rows, however many there are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.operators.row_table import RowTable


class RelationRows:
    def __init__(self, schema: Schema, primary_key: tuple[str, ...], rows: pa.Table) -> None:
        self._schema = schema
        self._primary_key = primary_key
        self._rows = RowTable(schema)
        self._counts: Ints = np.zeros(0, np.int64)
        self._keys = KeyTable([schema[name].type for name in primary_key]) if primary_key else None
        self._row_of_key: Ints = np.full(0, -1, np.int64)
        self.apply(rows.slice(0, 0), rows)

    def table(self) -> pa.Table:
        codes = self._rows.live_codes()
        return self._taken(np.repeat(codes, self._counts[codes]))

    def with_keys_of(self, rows: pa.Table) -> pa.Table:
        """The rows that are there with the keys of these, which differ from each other."""
        assert self._keys is not None
        keys = self._key_codes(one_batch(rows))
        found = self._row_of_key[keys]
        self._keys.release(keys[found < 0])
        return self._taken(found[found >= 0])

    def apply(self, old: pa.Table, new: pa.Table) -> None:
        """`old` rows, which are there, leave; then `new` ones enter."""
        leaving, entering = one_batch(old), one_batch(new)
        gone, come = self._row_codes(leaving), self._row_codes(entering)
        np.subtract.at(self._counts, gone, 1)
        np.add.at(self._counts, come, 1)
        if self._keys is not None:
            without, with_ = self._key_codes(leaving), self._key_codes(entering)
            self._row_of_key[without] = -1
            self._row_of_key[with_] = come
            self._keys.release(without[self._row_of_key[without] < 0])
        gone = np.unique(gone)
        self._rows.release(gone[self._counts[gone] == 0])

    def _taken(self, codes: Ints) -> pa.Table:
        return pa.Table.from_batches([self._rows.rows(codes)])

    def _row_codes(self, rows: pa.RecordBatch) -> Ints:
        codes = self._rows.encode(rows)
        self._counts = _grown(self._counts, self._rows.capacity, 0)
        return codes

    def _key_codes(self, rows: pa.RecordBatch) -> Ints:
        assert self._keys is not None
        codes = self._keys.encode([rows.column(name) for name in self._primary_key])
        self._row_of_key = _grown(self._row_of_key, self._keys.capacity, -1)
        return codes


def one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)


def _grown(array: Ints, length: int, filled_with: int) -> Ints:
    if length <= len(array):
        return array
    return np.concatenate([array, np.full(max(length, 2 * len(array)) - len(array), filled_with)])
