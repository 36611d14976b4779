"""Expressions in INSERT, DELETE and UPDATE: constants, and conditions over the rows of one relation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ArityMismatch, ColumnNotFound, DuplicateColumn, NotSupported, Span, TypeMismatch, did_you_mean
from millstream.core.schema import TIMESTAMP, Field, Schema, type_name
from millstream.core.value_ranges import widened
from millstream.language import statements as ast
from millstream.language.catalog import RelationEntry
from millstream.language.change_syntax import assigned_place
from millstream.language.scalar import bind_predicate, bind_scalar
from millstream.language.spans import span_of
from millstream.operators.evaluator import Evaluator
from millstream.plan.duckdb_sql import to_duckdb
from millstream.plan.expression import Expr

_CELLS_AT_ONCE = 500
_EVALUATOR = Evaluator()  # to connect costs more than to evaluate
_ALONE = threading.Lock()


@dataclass(frozen=True, slots=True)
class Assignment:
    """SET column = value.  A value of another type is cast; `lost_sql` then says where the cast made NULL of a value."""

    field: Field
    value_sql: str
    lost_sql: str | None
    given: str
    span: Span | None
    text: str

    def refused(self) -> TypeMismatch:
        return _refused(self.field, self.given, "Nothing was changed.", self.span, self.text)


def literal_rows(statement: ast.InsertValues, schema: Schema, sql: str) -> pa.Table:
    """The rows of INSERT ... VALUES with the target's columns; those not named are NULL.

    FLOATs are DOUBLEs still: `insert` refuses what is too great.
    """
    targets = _target_fields(statement, schema, sql)
    for row in statement.rows:
        if len(row) != len(targets):
            raise ArityMismatch(
                f"{_counted(len(row), 'value')} for {_counted(len(targets), 'column')}",
                hint=f"Columns: {', '.join(map(str, targets))}.",
                span=span_of(row[0]),
                sql=sql,
            )
    trees = [(tree, field) for row in statement.rows for tree, field in zip(row, targets, strict=True)]
    values = _evaluated([(_cell(tree, wide, sql), wide) for tree, wide in ((tree, _wide(field)) for tree, field in trees)])
    for value, (tree, field) in zip(values, trees, strict=True):
        if value.null_count and not isinstance(_bare(tree), exp.Null):
            raise _refused(field, _written(tree, sql), "Nothing was inserted.", span_of(tree), sql)
    columns = {field.name: pa.concat_arrays(values[i :: len(targets)]) for i, field in enumerate(targets)}
    arrays = [columns.get(field.name, pa.nulls(len(statement.rows), field.type)) for field in schema]
    return pa.table(arrays, names=schema.names)


def _wide(field: Field) -> Field:
    return Field(field.name, widened(field.type))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _target_fields(statement: ast.InsertValues, schema: Schema, sql: str) -> list[Field]:
    if not statement.columns:
        return list(schema)
    targets: list[Field] = []
    for i, name in enumerate(statement.columns):
        place = statement.place("columns", i)
        field = _field(name, schema, sql, place)
        if field in targets:
            raise DuplicateColumn(f'column "{field.name}" is named twice', hint="Name each column once.", span=place, sql=sql)
        targets.append(field)
    return targets


def _field(name: str, schema: Schema, sql: str, span: Span | None) -> Field:
    for field in schema:
        if field.name.lower() == name.lower():
            return field
    hint = did_you_mean(name, schema.names) or f"Columns: {schema}."
    raise ColumnNotFound(f'column "{name}" does not exist', hint=hint, span=span, sql=sql)


def _cell(tree: exp.Expr, field: Field, sql: str) -> Expr:
    value = bind_scalar(tree, _no_columns(sql), sql)
    if value.type == field.type:
        return value
    return bind_scalar(exp.cast(tree.copy(), type_name(field.type), dialect="spark"), _no_columns(sql), sql)


def _no_columns(sql: str) -> Callable[[exp.Column], NoReturn]:
    def resolve(column: exp.Column) -> NoReturn:
        raise NotSupported(f'"{column.name}" cannot stand in VALUES', hint="Strings stand in single quotes.", span=span_of(column), sql=sql)

    return resolve


def _evaluated(cells: Sequence[tuple[Expr, Field]]) -> list[pa.Array]:
    """An array of one value for each cell."""
    sql = [(to_duckdb(cell), field.type) for cell, field in cells]
    with _ALONE:
        return [value for i in range(0, len(sql), _CELLS_AT_ONCE) for value in _EVALUATOR.constants(sql[i : i + _CELLS_AT_ONCE])]


def _refused(field: Field, given: str, outcome: str, span: Span | None, sql: str) -> TypeMismatch:
    way_out = "Write TIMESTAMP '2024-01-31T12:00:00Z'. " if field.type == TIMESTAMP else ""
    return TypeMismatch(f'column "{field.name}" takes {type_name(field.type)}, not {given}', hint=way_out + outcome, span=span, sql=sql)


def _written(tree: exp.Expr, sql: str) -> str:
    """The expression as the user wrote it."""
    span = span_of(tree)
    return sql[span.start : span.end] if span else tree.sql(dialect="spark")


def _bare(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, (exp.Cast, exp.Paren, exp.TryCast)):
        tree = tree.this
    return tree


def bound_condition(where: exp.Expr | None, relation: RelationEntry, sql: str) -> str | None:
    """The WHERE of a DELETE or UPDATE, for the evaluator."""
    return None if where is None else to_duckdb(bind_predicate(where, _columns_of(relation, sql), sql))


def bound_assignments(assignments: Mapping[str, exp.Expr], relation: RelationEntry, sql: str) -> dict[str, Assignment]:
    """The SET of an UPDATE, by the names of the columns."""
    bound = {}
    for name, tree in assignments.items():
        field = _field(name, relation.schema, sql, assigned_place(tree))
        value, lost = bind_scalar(tree, _columns_of(relation, sql), sql), None
        if value.type != field.type:
            cast = bind_scalar(exp.cast(tree.copy(), type_name(field.type), dialect="spark"), _columns_of(relation, sql), sql)
            value, lost = cast, f"(({to_duckdb(value)}) IS NOT NULL AND ({to_duckdb(cast)}) IS NULL)"
        bound[field.name] = Assignment(field, to_duckdb(value), lost, _written(tree, sql), span_of(tree), sql)
    return bound


def _columns_of(entry: RelationEntry, sql: str) -> Callable[[exp.Column], tuple[str, pa.DataType]]:
    def resolve(column: exp.Column) -> tuple[str, pa.DataType]:
        field = _field(column.name, entry.schema, sql, span_of(column))
        return field.name, field.type

    return resolve
