"""Scalar expressions over Arrow batches, evaluated by an in-process DuckDB.

One per worker process.  Rows keep their number and their order: one thread, one pass, no operator that
could reorder.  What is only a column's name never goes to DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.schema import INTERVAL
from millstream.plan.duckdb_macros import macro_statements

Column = tuple[str, str, pa.DataType]
"""Name, SQL, declared type."""

_BARE = re.compile(r'"((?:[^"]|"")+)"')
_PREDICATE = "keep"


class Evaluator:
    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config={"threads": 1, "preserve_insertion_order": True})
        for statement in macro_statements():
            connection.execute(statement)
        return connection

    def project(self, rows: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
        """One output column for each (name, SQL, type), of exactly that type."""
        schema = pa.schema([pa.field(name, type_) for name, _, type_ in columns])
        if rows.num_rows == 0:
            return pa.RecordBatch.from_arrays([pa.array([], type_) for _, _, type_ in columns], schema=schema)
        arrays: list[pa.Array | None] = [_bare_column(rows, sql) for _, sql, _ in columns]
        missing = [i for i, array in enumerate(arrays) if array is None]
        if missing:
            computed = self._evaluate(rows, [columns[i][1] for i in missing])
            for i, array in zip(missing, computed, strict=True):
                arrays[i] = array
        typed = [_as_declared(array, type_) for array, (_, _, type_) in zip(arrays, columns, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=schema)

    def mask(self, rows: pa.RecordBatch, predicate_sql: str) -> npt.NDArray[np.bool_]:
        """Where the predicate holds; NULL is not true."""
        if rows.num_rows == 0:
            return np.empty(0, np.bool_)
        (kept,) = self._evaluate(rows, [f"coalesce({predicate_sql}, FALSE)"])
        return np.asarray(kept.to_numpy(zero_copy_only=False), np.bool_)

    def _evaluate(self, rows: pa.RecordBatch, expressions: Sequence[str]) -> list[pa.Array]:
        select = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(expressions))
        source = self._connection.from_arrow(_for_duckdb(rows))
        table = source.project(select).to_arrow_table()
        if table.num_rows != rows.num_rows:
            raise InternalError(f"{rows.num_rows} rows became {table.num_rows}")
        return [_one_chunk(column) for column in table.columns]


def _bare_column(rows: pa.RecordBatch, sql: str) -> pa.Array | None:
    match = _BARE.fullmatch(sql)
    return rows.column(match[1].replace('""', '"')) if match else None


def _for_duckdb(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in the types of `plan.duckdb_sql.duckdb_type`: no time zones, intervals as integers."""
    arrays = [_stored(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _stored(array: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.view(pa.timestamp("us"))
    if array.type == INTERVAL:
        return array.view(pa.int64())
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int32())
    return array


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _as_declared(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    if pa.types.is_null(type_):
        return pa.nulls(len(array))
    if pa.types.is_timestamp(type_) and array.type == pa.timestamp("us"):
        return array.view(type_)
    if type_ == INTERVAL and pa.types.is_int64(array.type):
        return array.view(type_)
    return array.cast(type_)
