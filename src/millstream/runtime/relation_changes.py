"""What a statement does to a relation: the rows that leave and those that enter, given what the relation holds.

    Put      rows enter; with a primary key each takes the place of the one with its key
    Take     one copy of each row leaves, if it is there
    Delete   the rows for which a condition is true leave
    Update   so do those, and enter again with other values

A change is data, and can be saved until its instant comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import AlreadyExists, Span, TypeMismatch
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.language.catalog import RelationEntry
from millstream.operators.evaluator import Evaluator
from millstream.runtime.constants import Assignment
from millstream.runtime.relation_rows import RelationRows, one_batch


@dataclass(frozen=True)
class Put:
    """Each primary key once."""

    rows: pa.Table


@dataclass(frozen=True)
class Take:
    rows: pa.Table


@dataclass(frozen=True)
class Delete:
    predicate_sql: str | None


@dataclass(frozen=True)
class Update:
    """The values of `assignments`, by column, are computed over the old row."""

    assignments: Mapping[str, Assignment]
    predicate_sql: str | None


Change = Put | Take | Delete | Update
Effect = tuple[pa.Table, pa.Table]
"""Rows that leave, rows that enter."""


def put(rows: pa.Table, entry: RelationEntry) -> Put:
    if not entry.primary_key:
        return Put(rows)
    _refuse_null_keys(rows, entry)
    return Put(_last_of_each_key(rows, entry.primary_key))


def whole_relation(rows: pa.Table, entry: RelationEntry) -> pa.Table:
    """Rows that are to be all that the relation holds: each primary key once."""
    if entry.primary_key:
        _refuse_null_keys(rows, entry)
        _refuse_equal_keys(rows, entry)
    return rows


def difference(held: pa.Table, wanted: pa.Table) -> Effect:
    """What leaves and what enters, copies counted, so that `wanted` is there in the place of `held`."""
    before, after = _encoded(held, wanted)
    leaving = _copy_numbers(before) >= _copies_among(after, before)
    entering = _copy_numbers(after) >= _copies_among(before, after)
    return held.filter(pa.array(leaving)), wanted.filter(pa.array(entering))


def effect(change: Change, held: Callable[[], RelationRows], entry: RelationEntry, evaluator: Evaluator) -> Effect:
    """Asks for what the relation holds only if it matters."""
    match change:
        case Put(rows):
            return held().with_keys_of(rows) if entry.primary_key else rows.slice(0, 0), rows
        case Take(rows):
            return _bag_intersection(held().table(), rows), rows.slice(0, 0)
        case Delete(predicate_sql):
            rows = held().table()
            leaving = rows.filter(pa.array(_matching(rows, predicate_sql, evaluator)))
            return leaving, leaving.slice(0, 0)
        case Update():
            return _updated(change, held().table(), entry, evaluator)


def to_saved(change: Change, entry: RelationEntry) -> tuple[dict[str, Any], pa.Table]:
    no_rows = entry.schema.to_arrow().empty_table()
    match change:
        case Put(rows):
            return {"do": "put"}, rows
        case Take(rows):
            return {"do": "take"}, rows
        case Delete(predicate_sql):
            return {"do": "delete", "where": predicate_sql}, no_rows
        case Update(assignments, predicate_sql):
            given = {name: {**asdict(value), "field": None} for name, value in assignments.items()}
            return {"do": "update", "where": predicate_sql, "set": given}, no_rows


def from_saved(description: Mapping[str, Any], rows: pa.Table, entry: RelationEntry) -> Change:
    match description["do"]:
        case "put":
            return Put(rows)
        case "take":
            return Take(rows)
        case "delete":
            return Delete(description["where"])
        case _:
            assignments = {name: _assignment(name, saved, entry) for name, saved in description["set"].items()}
            return Update(assignments, description["where"])


def _assignment(name: str, saved: Mapping[str, Any], entry: RelationEntry) -> Assignment:
    span = Span(**saved["span"]) if saved["span"] is not None else None
    return Assignment(**{**saved, "field": entry.schema[name], "span": span})


def _updated(change: Update, rows: pa.Table, entry: RelationEntry, evaluator: Evaluator) -> Effect:
    matching = _matching(rows, change.predicate_sql, evaluator)
    old = rows.filter(pa.array(matching))
    new = _assigned(old, change.assignments, evaluator)
    if not change.assignments.keys().isdisjoint(entry.primary_key):
        _refuse_null_keys(new, entry)
        _refuse_equal_keys(pa.concat_tables([rows.filter(pa.array(~matching)), new]), entry)
    return old, new


def _assigned(rows: pa.Table, assignments: Mapping[str, Assignment], evaluator: Evaluator) -> pa.Table:
    batch = one_batch(rows)
    for assignment in assignments.values():
        if assignment.lost_sql is not None and evaluator.mask(batch, assignment.lost_sql).any():
            raise assignment.refused()
    sql = {name: assignment.value_sql for name, assignment in assignments.items()}
    columns = [(field.name, sql.get(field.name, _quoted(field.name)), field.type) for field in rows.schema]
    return pa.Table.from_batches([evaluator.project(batch, columns)])


def _matching(rows: pa.Table, predicate_sql: str | None, evaluator: Evaluator) -> npt.NDArray[np.bool_]:
    return np.ones(len(rows), np.bool_) if predicate_sql is None else evaluator.mask(one_batch(rows), predicate_sql)


def _key_columns(table: pa.Table, keys: tuple[str, ...]) -> list[pa.Array]:
    batch = one_batch(table)
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
    there, asked = _encoded(rows, wanted)
    return wanted.filter(pa.array(_copy_numbers(asked) < _copies_among(there, asked)))


def _encoded(rows: pa.Table, others: pa.Table) -> tuple[Ints, Ints]:
    """Equal rows have equal codes, which are less than the number of all rows."""
    table, names = KeyTable([field.type for field in rows.schema]), tuple(rows.column_names)
    return table.encode(_key_columns(rows, names)), table.encode(_key_columns(others, names))


def _copies_among(codes: Ints, looked_at: Ints) -> Ints:
    """For each that is looked at, how many copies there are."""
    counts: Ints = np.bincount(codes, minlength=len(codes) + len(looked_at) + 1)[looked_at]
    return counts


def _copy_numbers(codes: Ints) -> Ints:
    """Which copy of itself each is, from 0."""
    order, places = np.argsort(codes, kind="stable"), np.arange(len(codes))
    first = np.concatenate([[True], codes[order][1:] != codes[order][:-1]])[: len(codes)]
    number = np.empty(len(codes), np.int64)
    number[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return number
