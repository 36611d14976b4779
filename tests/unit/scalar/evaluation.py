"""From the text of an expression to its values, without a plan and without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ColumnNotFound
from millstream.core.schema import Schema
from millstream.language.parser import parse_one
from millstream.language.scalar import bind_scalar
from millstream.language.statements import Select
from millstream.operators.evaluator import Evaluator
from millstream.plan.duckdb_sql import to_duckdb
from millstream.plan.expression import Expr

CORPUS = Path(__file__).parents[2] / "spark" / "scalar_corpus.txt"
_EVALUATOR = Evaluator()
_NO_COLUMNS = Schema(())


def corpus() -> list[tuple[str, str]]:
    """(our expression, Spark's expression) for each line of the corpus."""
    lines = [line.strip() for line in CORPUS.read_text().splitlines()]
    parted = [line.partition(" ## ") for line in lines if line and not line.startswith("#")]
    return [(ours, spark or ours) for ours, _, spark in parted]


def parsed(text: str) -> exp.Expr:
    statement = parse_one(f"SELECT {text} FROM t")
    assert isinstance(statement, Select)
    return statement.select.expressions[0]


def bound(text: str, schema: Schema | Mapping[str, pa.DataType] = _NO_COLUMNS) -> Expr:
    """`text` over columns of these names and types."""
    return bound_tree(parsed(text), schema, f"SELECT {text} FROM t")


def bound_tree(tree: exp.Expr, schema: Schema | Mapping[str, pa.DataType], sql: str = "") -> Expr:
    types = {field.name: field.type for field in schema} if isinstance(schema, Schema) else dict(schema)

    def resolve(column: exp.Column) -> tuple[str, pa.DataType]:
        if column.args.get("table") or column.name.lower() not in types:
            raise ColumnNotFound(f'column "{column.name}" does not exist')
        return column.name.lower(), types[column.name.lower()]

    return bind_scalar(tree, resolve, sql)


def evaluated(text: str, rows: pa.RecordBatch) -> pa.Array:
    return evaluated_together([text], rows)[0]


def evaluated_together(texts: Sequence[str], rows: pa.RecordBatch) -> list[pa.Array]:
    """Each expression's values, all computed by one statement."""
    exprs = [bound(text, Schema.from_arrow(rows.schema)) for text in texts]
    return list(_EVALUATOR.project(rows, [(f"c{i}", to_duckdb(expr), expr.type) for i, expr in enumerate(exprs)]).columns)


def value(text: str) -> Any:
    """The value of an expression without columns."""
    return evaluated(text, pa.RecordBatch.from_arrays([pa.array([0])], names=["unused"])).to_pylist()[0]
