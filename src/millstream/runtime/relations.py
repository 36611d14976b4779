"""Relations on the driver: bags that users change, each change at an instant.

A change takes effect one microsecond after the greatest frontier of any stream, or at a later instant
of the user's choice; before there is any frontier it has been so since ever.  The changes of one relation come
in the order of their instants, so each sees the relation as it is at its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import AlreadyExists, InstantPassed, TypeMismatch
from millstream.core.instant import Micros, format_instant
from millstream.kernels.key_table import KeyTable
from millstream.language.catalog import RelationEntry
from millstream.operators.evaluator import Evaluator
from millstream.runtime.constants import Assignment
from millstream.runtime.rows import table_of
from millstream.state.location import Location
from millstream.state.relation_log import RelationLog


class Relations:
    def __init__(self, location: Location) -> None:
        self._location = location
        self._open: dict[str, tuple[RelationEntry, RelationLog]] = {}
        self._evaluator = Evaluator()

    def open(self, entry: RelationEntry) -> None:
        self._open[entry.name] = (entry, RelationLog.open(self._location, entry.name, entry.schema))

    def close(self, name: str) -> None:
        _, log = self._open.pop(name)
        log.close()

    def close_all(self) -> None:
        for name in list(self._open):
            self.close(name)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._open))

    def log(self, name: str) -> RelationLog:
        return self._open[name][1]

    def maintain(self, name: str, settled: Micros, taken_in: int | None) -> None:
        """What was before the instant that every reader has passed is folded into one bag."""
        log = self.log(name)
        log.fold(settled)
        log.compact(upto_seq=taken_in)
        log.vacuum()

    def contents(self, name: str, at: Micros | None = None) -> pa.Table:
        return self._open[name][1].contents(at)

    def insert(self, name: str, rows: object, instant: Micros) -> int:
        """With a primary key a row takes the place of the one with the same key."""
        entry, log = self._open[name]
        log.require_in_order(instant)
        table = table_of(rows, entry.schema, name)
        if entry.primary_key:
            _refuse_null_keys(table, entry)
            table = _last_of_each_key(table, entry.primary_key)
            old = self._with_equal_keys(log.contents(instant), table, entry.primary_key)
            _apply(log, old, table, instant)
        else:
            _apply(log, table.slice(0, 0), table, instant)
        return len(table)

    def delete_rows(self, name: str, rows: object, instant: Micros) -> int:
        """Take one copy of each given row away; rows that are not there are not an error."""
        entry, log = self._open[name]
        log.require_in_order(instant)
        table = table_of(rows, entry.schema, name)
        present = _bag_intersection(log.contents(instant), table)
        _apply(log, present, table.slice(0, 0), instant)
        return len(present)

    def delete(self, name: str, predicate_sql: str | None, instant: Micros) -> int:
        _, log = self._open[name]
        log.require_in_order(instant)
        rows = log.contents(instant)
        leaving = rows.filter(pa.array(self._matching(rows, predicate_sql)))
        _apply(log, leaving, leaving.slice(0, 0), instant)
        return len(leaving)

    def update(self, name: str, assignments: Mapping[str, Assignment], predicate_sql: str | None, instant: Micros) -> int:
        """The values of `assignments` are computed over the old row."""
        entry, log = self._open[name]
        log.require_in_order(instant)
        rows = log.contents(instant)
        matching = self._matching(rows, predicate_sql)
        old = rows.filter(pa.array(matching))
        new = self._assigned(old, assignments)
        if not assignments.keys().isdisjoint(entry.primary_key):
            _refuse_null_keys(new, entry)
            _refuse_equal_keys(pa.concat_tables([rows.filter(pa.array(~matching)), new]), entry)
        _apply(log, old, new, instant)
        return len(old)

    def _assigned(self, rows: pa.Table, assignments: Mapping[str, Assignment]) -> pa.Table:
        batch = _batch(rows)
        for assignment in assignments.values():
            if assignment.lost_sql is not None and self._evaluator.mask(batch, assignment.lost_sql).any():
                raise assignment.refused()
        sql = {name: assignment.value_sql for name, assignment in assignments.items()}
        columns = [(field.name, sql.get(field.name, _quoted(field.name)), field.type) for field in rows.schema]
        return pa.Table.from_batches([self._evaluator.project(batch, columns)])

    def _matching(self, rows: pa.Table, predicate_sql: str | None) -> npt.NDArray[np.bool_]:
        return np.ones(len(rows), np.bool_) if predicate_sql is None else self._evaluator.mask(_batch(rows), predicate_sql)

    def _with_equal_keys(self, rows: pa.Table, like: pa.Table, keys: tuple[str, ...]) -> pa.Table:
        table = KeyTable([like.schema.field(key).type for key in keys])
        wanted = table.encode(_key_columns(like, keys))
        return rows.filter(pa.array(np.isin(table.encode(_key_columns(rows, keys)), wanted)))


def effective_instant(earliest: Micros, asked: Micros | None) -> Micros:
    """When a change of a relation takes effect (interface, fine print 2 and 14)."""
    if asked is None:
        return earliest
    if asked < earliest:
        raise InstantPassed(
            f"{format_instant(asked)} has passed: a change takes effect at {format_instant(earliest)} at the earliest",
            hint="Leave AT away, or name a later instant.",
        )
    return asked


def _apply(log: RelationLog, old: pa.Table, new: pa.Table, instant: Micros) -> None:
    """One change: `old` rows leave, `new` ones enter."""
    if old.num_rows + new.num_rows:
        diff = np.concatenate([np.full(old.num_rows, -1, np.int8), np.ones(new.num_rows, np.int8)])
        log.append(pa.concat_tables([old, new]), diff, instant)


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)


def _key_columns(table: pa.Table, keys: tuple[str, ...]) -> list[pa.Array]:
    batch = _batch(table)
    return [batch.column(key) for key in keys]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _refuse_null_keys(rows: pa.Table, entry: RelationEntry) -> None:
    for key in entry.primary_key:
        if rows.column(key).null_count:
            raise TypeMismatch(f'column "{key}" of "{entry.name}" is in its PRIMARY KEY and cannot be NULL', hint="Nothing was changed.")


def _refuse_equal_keys(rows: pa.Table, entry: RelationEntry) -> None:
    keys = entry.primary_key
    codes = KeyTable([rows.schema.field(key).type for key in keys]).encode(_key_columns(rows, keys))
    _, first, count = np.unique(codes, return_index=True, return_counts=True)
    if (count > 1).any():
        row = int(first[count > 1].min())
        key = ", ".join(f"{key} = {rows.column(key)[row].as_py()!r}" for key in keys)
        raise AlreadyExists(
            f'"{entry.name}" would have more than one row with the primary key {key}',
            hint="Narrow the WHERE, or delete the other rows first. Nothing was changed.",
        )


def _last_of_each_key(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    codes = KeyTable([table.schema.field(key).type for key in keys]).encode(_key_columns(table, keys))
    _, from_end = np.unique(codes[::-1], return_index=True)
    return table.take(pa.array(np.sort(len(codes) - 1 - from_end)))


def _bag_intersection(rows: pa.Table, wanted: pa.Table) -> pa.Table:
    """The rows of `wanted` that `rows` holds, with multiplicity."""
    table = KeyTable([field.type for field in rows.schema])
    names = tuple(rows.column_names)
    have = np.bincount(table.encode(_key_columns(rows, names)), minlength=len(rows) + len(wanted) + 1)
    codes = table.encode(_key_columns(wanted, names))
    order = np.argsort(codes, kind="stable")
    first = np.append(True, codes[order][1:] != codes[order][:-1]) if len(codes) else np.empty(0, bool)
    rank = np.arange(len(codes)) - np.maximum.accumulate(np.where(first, np.arange(len(codes)), 0)) if len(codes) else np.empty(0, int)
    kept = np.empty(len(codes), bool)
    kept[order] = rank < have[codes[order]]
    return wanted.filter(pa.array(kept))
