"""Expressions in INSERT, DELETE and UPDATE: constants, and conditions over the rows of one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ArityMismatch, ColumnNotFound, NotSupported, Span, TypeMismatch, did_you_mean
from millstream.core.schema import Field, Schema, type_name
from millstream.language import statements as ast
from millstream.language.catalog import RelationEntry
from millstream.language.scalar import bind_predicate, bind_scalar
from millstream.language.spans import span_of
from millstream.operators.evaluator import Evaluator
from millstream.plan.duckdb_sql import to_duckdb
from millstream.plan.expression import Expr

_CELLS_AT_ONCE = 500


def literal_rows(statement: ast.InsertValues, schema: Schema, sql: str) -> pa.Table:
    """The rows of INSERT ... VALUES with the target's columns; those not named are NULL."""
    targets = _target_fields(statement, schema, sql)
    for row in statement.rows:
        if len(row) != len(targets):
            raise ArityMismatch(
                f"{len(row)} values for {len(targets)} columns",
                hint=f"Columns: {', '.join(map(str, targets))}.",
                span=span_of(row[0]),
                sql=sql,
            )
    cells = [[_cell(tree, field, sql) for tree, field in zip(row, targets, strict=True)] for row in statement.rows]
    columns = {field.name: _evaluated([row[i] for row in cells], field) for i, field in enumerate(targets)}
    arrays = [columns.get(field.name, pa.nulls(len(cells), field.type)) for field in schema]
    return pa.table(arrays, schema=schema.to_arrow())


def _target_fields(statement: ast.InsertValues, schema: Schema, sql: str) -> list[Field]:
    if not statement.columns:
        return list(schema)
    return [_field(name, schema, sql, statement.place("columns", i)) for i, name in enumerate(statement.columns)]


def _field(name: str, schema: Schema, sql: str, span: Span | None) -> Field:
    for field in schema:
        if field.name.lower() == name.lower():
            return field
    raise ColumnNotFound(f'column "{name}" does not exist', hint=did_you_mean(name, schema.names), span=span, sql=sql)


def _cell(tree: exp.Expr, field: Field, sql: str) -> Expr:
    value = bind_scalar(tree, _no_columns(sql), sql)
    if value.type == field.type:
        return value
    return bind_scalar(exp.cast(tree.copy(), type_name(field.type), dialect="spark"), _no_columns(sql), sql)


def _no_columns(sql: str) -> Callable[[exp.Column], NoReturn]:
    def resolve(column: exp.Column) -> NoReturn:
        raise NotSupported(f'"{column.name}" cannot stand in VALUES', hint="Strings stand in single quotes.", span=span_of(column), sql=sql)

    return resolve


def _evaluated(cells: list[Expr], field: Field) -> pa.Array:
    evaluator, parts = Evaluator(), []
    one = pa.RecordBatch.from_pydict({"one": [1]})
    for start in range(0, len(cells), _CELLS_AT_ONCE):
        some = cells[start : start + _CELLS_AT_ONCE]
        row = evaluator.project(one, [(f"c{i}", to_duckdb(cell), field.type) for i, cell in enumerate(some)])
        parts += row.columns
    for cell, value in zip(cells, parts, strict=True):
        if value.null_count and not isinstance(_bare(cell.tree), exp.Null):
            raise TypeMismatch(f'column "{field.name}" takes {type_name(field.type)}, not {cell}', hint="Nothing was inserted.")
    return pa.concat_arrays(parts)


def _bare(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, (exp.Cast, exp.Paren, exp.TryCast)):
        tree = tree.this
    return tree


def bound_condition(where: exp.Expr | None, relation: RelationEntry, sql: str) -> str | None:
    """The WHERE of a DELETE or UPDATE, for the evaluator."""
    return None if where is None else to_duckdb(bind_predicate(where, _columns_of(relation, sql), sql))


def bound_assignments(assignments: Mapping[str, exp.Expr], relation: RelationEntry, sql: str) -> dict[str, str]:
    bound = {}
    for name, tree in assignments.items():
        field = _field(name, relation.schema, sql, span_of(tree))
        value = bind_scalar(tree, _columns_of(relation, sql), sql)
        if value.type != field.type:
            value = bind_scalar(exp.cast(tree.copy(), type_name(field.type), dialect="spark"), _columns_of(relation, sql), sql)
        bound[field.name] = to_duckdb(value)
    return bound


def _columns_of(entry: RelationEntry, sql: str) -> Callable[[exp.Column], tuple[str, pa.DataType]]:
    def resolve(column: exp.Column) -> tuple[str, pa.DataType]:
        field = _field(column.name, entry.schema, sql, span_of(column))
        return field.name, field.type

    return resolve
