"""Scalar expressions over Arrow batches, evaluated by an in-process DuckDB.

One per worker process.  Rows keep their number and their order: one thread, one pass, no operator that
could reorder.  What is only a column's name never goes to DuckDB.

A tick has many small batches, and DuckDB's time for one of them is the time to plan, not to compute.  So a
statement is bound once for each schema and list of expressions (`_Statement`) and then run again and again
over whatever batch is laid into it, and the optimizer is left with the steps that matter to expressions.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.schema import INTERVAL
from millstream.operators.printed_times import FEW_ROWS, printed_time, runs_of
from millstream.operators.python_calls import called
from millstream.plan.duckdb_connection import DuckDb
from millstream.plan.physical import FunctionCall

log = logging.getLogger(__name__)

Column = tuple[str, str, pa.DataType]
"""Name, SQL, declared type."""

_BARE = re.compile(r'"((?:[^"]|"")+)"')
_MOST_STATEMENTS = 512
_ROW = "millstream_row"
"""The column of a statement that reads none: it only says how many rows there are."""


class Evaluator:
    def __init__(self) -> None:
        self._statements: OrderedDict[tuple[pa.Schema, tuple[str, ...]], _Statement] = OrderedDict()
        self._duckdb = DuckDb()

    def project(self, rows: pa.RecordBatch, columns: Sequence[Column], calls: Sequence[FunctionCall] = ()) -> pa.RecordBatch:
        """One output column for each (name, SQL, type), of exactly that type.  The SQL may read the results of `calls`."""
        schema = pa.schema([pa.field(name, type_) for name, _, type_ in columns])
        if rows.num_rows == 0:
            return pa.RecordBatch.from_arrays([pa.array([], type_) for _, _, type_ in columns], schema=schema)
        rows = self._with_calls(rows, calls)
        arrays: list[pa.Array | None] = [_bare_column(rows, sql) for _, sql, _ in columns]
        if rows.num_rows > FEW_ROWS:
            self._print_times(rows, columns, arrays)
        computed = [i for i, array in enumerate(arrays) if array is None]
        if computed:
            results = self._evaluate(rows, tuple(columns[i][1] for i in computed))
            for i, array in zip(computed, results, strict=True):
                arrays[i] = array
        typed = [_as_declared(array, type_) for array, (_, _, type_) in zip(arrays, columns, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=schema)

    def mask(self, rows: pa.RecordBatch, predicate_sql: str, calls: Sequence[FunctionCall] = ()) -> npt.NDArray[np.bool_]:
        """Where the predicate holds; NULL is not true."""
        if rows.num_rows == 0:
            return np.empty(0, np.bool_)
        rows = self._with_calls(rows, calls)
        (kept,) = self._evaluate(rows, (f"coalesce({predicate_sql}, FALSE)",))
        return np.asarray(kept.to_numpy(zero_copy_only=False), np.bool_)

    def constants(self, cells: Sequence[tuple[str, pa.DataType]]) -> list[pa.Array]:
        """The value of each (SQL, type), an array of one.  What stands in a VALUES hardly comes again: no statement is kept."""
        rows = pa.RecordBatch.from_arrays([pa.array([0], pa.int8())], names=[_ROW])
        expressions = tuple(sql for sql, _ in cells)
        self._duckdb.define_macros(expressions)
        try:
            values = _Statement(self._duckdb.connection, rows.schema, expressions).run(rows)
        except duckdb.Error as error:
            values = self._evaluate_anyway(rows, expressions, error)
        return [_as_declared(value, type_) for value, (_, type_) in zip(values, cells, strict=True)]

    def _with_calls(self, rows: pa.RecordBatch, calls: Sequence[FunctionCall]) -> pa.RecordBatch:
        """The rows with a column for the result of each call; a later call may read those of earlier ones."""
        for call in calls:
            reached = np.ones(rows.num_rows, np.bool_) if call.when is None else self.mask(rows, call.when)
            some = rows if reached.all() else rows.filter(pa.array(reached))
            arguments = self.project(some, [(argument.name, argument.sql, argument.type) for argument in call.arguments])
            results = called(call.function, arguments.columns, some.num_rows)
            if some is not rows:
                results = results.take(pa.array(np.cumsum(reached) - 1, mask=~reached))
            rows = rows.append_column(pa.field(call.name, results.type), results)
        return rows

    def _print_times(self, rows: pa.RecordBatch, columns: Sequence[Column], arrays: list[pa.Array | None]) -> None:
        """Fill in the columns that print moments, where many rows in a row show the same."""
        found: dict[str, list[tuple[int, int]]] = {}
        for i, (_, sql, _) in enumerate(columns):
            if (printed := printed_time(sql)) is not None:
                found.setdefault(printed[0], []).append((printed[1], i))
        for name, printing in found.items():
            moments = rows.column(name)
            if (runs := runs_of(moments, min(printing)[0])) is not None:
                first, run = map(pa.array, runs)
                some = pa.RecordBatch.from_arrays([moments.take(first)], names=[name])
                for (_, i), texts in zip(printing, self._evaluate(some, tuple(columns[i][1] for _, i in printing)), strict=True):
                    arrays[i] = texts.take(run)

    def _evaluate(self, rows: pa.RecordBatch, expressions: tuple[str, ...]) -> list[pa.Array]:
        try:
            return self._statement(rows.schema, expressions).run(rows)
        except duckdb.Error as error:
            return self._evaluate_anyway(rows, expressions, error)

    def _statement(self, schema: pa.Schema, expressions: tuple[str, ...]) -> _Statement:
        key = (schema, expressions)
        statement = self._statements.get(key)
        if statement is None:
            self._duckdb.define_macros(expressions)
            statement = self._statements[key] = _Statement(self._duckdb.connection, schema, expressions)
            if len(self._statements) > _MOST_STATEMENTS:
                self._statements.popitem(last=False)
        self._statements.move_to_end(key)
        return statement

    def _evaluate_anyway(self, rows: pa.RecordBatch, expressions: tuple[str, ...], error: duckdb.Error) -> list[pa.Array]:
        """A translation that lets a failure through is a bug of ours; still, only the rows that fail may suffer from it."""
        if isinstance(error, duckdb.OutOfMemoryException):
            raise error
        log.error("an expression failed outside of TRY", extra={"expressions": expressions, "reason": str(error)})
        try:
            return _Statement(self._duckdb.connection, rows.schema, tuple(f"TRY({sql})" for sql in expressions)).run(rows)
        except duckdb.Error:
            raise InternalError(f"cannot evaluate {', '.join(expressions)}: {error}") from error


class _Statement:
    """SELECT expressions FROM a batch that changes from run to run."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, schema: pa.Schema, expressions: tuple[str, ...]) -> None:
        text = ", ".join(expressions)
        self._needed = [name for name in schema.names if '"' + name.replace('"', '""') + '"' in text]
        self._source = _Source(self._stored(_no_rows(schema)))
        select = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(expressions))
        self._relation = connection.from_arrow(self._source).project(select)

    def run(self, rows: pa.RecordBatch) -> list[pa.Array]:
        self._source.rows = self._stored(rows)
        try:
            table = self._relation.to_arrow_table(batch_size=max(rows.num_rows, 1))
        finally:
            self._source.rows = self._source.rows.slice(0, 0)  # let go of the batch
        if table.num_rows != rows.num_rows:
            raise InternalError(f"{rows.num_rows} rows became {table.num_rows}")
        return [_one_chunk(column) for column in table.columns]

    def _stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are read, in the types of `plan.duckdb_sql.duckdb_type`: no time zones, intervals as integers."""
        if not self._needed:
            return pa.RecordBatch.from_arrays([pa.array(np.zeros(rows.num_rows, np.int8))], names=[_ROW])
        return pa.RecordBatch.from_arrays([_stored(rows.column(name)) for name in self._needed], names=self._needed)


class _Source:
    """What DuckDB reads: at each run, the batch that is here then."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.rows.schema, [self.rows]).__arrow_c_stream__(requested_schema)


def _bare_column(rows: pa.RecordBatch, sql: str) -> pa.Array | None:
    match = _BARE.fullmatch(sql)
    return rows.column(match[1].replace('""', '"')) if match else None


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


@lru_cache(maxsize=256)
def _storage(type_: pa.DataType) -> pa.DataType:
    """The Arrow type in which DuckDB is given values of `type_`."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    if type_ == INTERVAL:
        return pa.int64()
    if pa.types.is_null(type_):
        return pa.int32()
    if pa.types.is_list(type_):
        return pa.list_(_storage(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_storage(type_.key_type), _storage(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _storage(field.type)) for field in type_])
    return type_


def _stored(array: pa.Array) -> pa.Array:
    return _retyped(array, _storage(array.type))


def _as_declared(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_null(type_):
        return pa.nulls(len(array))
    return _retyped(array, type_)


def _retyped(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same values under another name of their type; only numbers of another width are copied."""
    if array.type == type_:
        return array
    if _is_64_bit(array.type) and _is_64_bit(type_):
        return array.view(type_)
    return array.cast(type_)


def _is_64_bit(type_: pa.DataType) -> bool:
    return type_ in (pa.int64(), INTERVAL) or bool(pa.types.is_timestamp(type_) and type_.unit == "us")


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
