"""A bound expression: a new tree in Spark's SQL, over bare columns, with every implicit cast written out."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from sqlglot import exp

from millstream.core.errors import InternalError, NotSupported
from millstream.core.schema import Schema, type_from_name
from millstream.language.scalar import bind_scalar
from millstream.operators.evaluator import Evaluator
from millstream.plan.duckdb_sql import duckdb_type, to_duckdb
from millstream.plan.expression import Expr, column
from spark.scalar_rows import SCHEMA as ROWS
from unit.scalar.evaluation import bound, bound_tree, corpus, evaluated, parsed

SCHEMA = Schema.of(a="INT", b="BIGINT", d="DECIMAL(10,2)", s="STRING", bo="BOOLEAN", arr="ARRAY<INT>", st="STRUCT<x:INT>")


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("a + b", "CAST(`a` AS BIGINT) + `b`"),
        ("a / 2", "CAST(`a` AS DOUBLE) / CAST(2 AS DOUBLE)"),
        ("d + 1", "`d` + CAST(1 AS DECIMAL(1, 0))"),
        ("a = s", "CAST(`a` AS BIGINT) = CAST(`s` AS BIGINT)"),
        ("coalesce(a, b)", "COALESCE(CAST(`a` AS BIGINT), `b`)"),
        ("case when bo then a else b end", "CASE WHEN `bo` THEN CAST(`a` AS BIGINT) ELSE `b` END"),
        ("st.x + 1", "`st`.`x` + 1"),
        ("not bo and a > 1", "NOT `bo` AND `a` > 1"),
        ("-a", "-`a`"),
        ("-5", "-5"),
    ],
)
def test_implicit_casts_are_written_out(text: str, spark: str) -> None:
    assert str(bound(text, SCHEMA)) == spark


def test_columns_get_the_names_that_resolve_gives() -> None:
    expr = bind_scalar(parsed("x + y"), lambda column: (f'{column.name}"1', pa.int32()), "")
    assert expr.columns == {'x"1', 'y"1'}
    assert to_duckdb(expr) == 'TRY("x""1" + "y""1")'


def test_the_given_tree_is_not_changed() -> None:
    for text, _ in corpus():
        tree = parsed(text)
        before = repr(tree)
        bound_tree(tree, ROWS)
        assert repr(tree) == before
        assert not any("duckdb" in node.meta for node in tree.walk())
        assert all(child.parent is node for node in tree.walk() for child in node.iter_expressions())


def test_variables_of_lambdas_are_no_columns() -> None:
    assert bound("transform(arr, x -> x + a)", SCHEMA).columns == {"arr", "a"}
    assert bound("exists(arr, a -> a > 1)", SCHEMA).columns == {"arr"}


def test_lambdas_hide_columns_of_the_same_name() -> None:
    rows = pa.record_batch({"a": pa.array([10], pa.int32()), "arr": pa.array([[1, 2]], pa.list_(pa.int32()))})
    assert evaluated("transform(arr, a -> a + 1)", rows).to_pylist() == [[2, 3]]
    assert evaluated("transform(arr, x -> transform(arr, x -> x * 2)[0] + x + a)", rows).to_pylist() == [[13, 14]]


def test_substituted_columns_keep_working() -> None:
    rows = pa.record_batch({"p": pa.array([1, 5], pa.int32()), "q": pa.array([2, None], pa.int32())})
    inner = bound("p * 10 + q", Schema.of(p="INT", q="INT"))
    outer = bound("a + 1", SCHEMA).substitute({"a": inner})
    assert Evaluator().project(rows, [("v", to_duckdb(outer), outer.type)]).column(0).to_pylist() == [13, None]
    renamed = bound("a + 1", SCHEMA).substitute({"a": column("q", pa.int32())})
    assert to_duckdb(renamed) == 'TRY("q" + 1)'


def test_conditions_can_be_joined_by_hand() -> None:
    left, right = bound("a > 1", SCHEMA), bound("bo or b = 2", SCHEMA)
    both = Expr(exp.And(this=left.tree.copy(), expression=exp.Not(this=exp.paren(right.tree.copy()))), pa.bool_())
    assert to_duckdb(both) == '(("a" > 1) AND (NOT ("bo" OR ("b" = TRY_CAST(2 AS BIGINT)))))'


def test_expressions_travel_to_workers() -> None:
    expr = bound("transform(arr, x -> cast(x as string) || s)", SCHEMA)
    again = pickle.loads(pickle.dumps(expr))
    assert to_duckdb(again) == to_duckdb(expr)


def test_a_tree_that_is_not_bound_is_a_bug_of_ours() -> None:
    with pytest.raises(InternalError, match="not a bound expression"):
        to_duckdb(Expr(parsed("a + 1"), pa.int32()))


def test_an_expression_that_grows_too_large_is_refused() -> None:
    text = "a"
    for _ in range(14):
        text = f"round(cast({text} as double), 1)"
    with pytest.raises(NotSupported, match="too large"):
        to_duckdb(bound(text, SCHEMA))


def test_braces_in_strings_are_no_templates() -> None:
    rows = pa.record_batch({"s": pa.array(["x{0}y", "aa"])})
    assert evaluated("concat('{0}{', s, '}')", rows).to_pylist() == ["{0}{x{0}y}", "{0}{aa}"]
    assert evaluated("s rlike '^a{2}$'", rows).to_pylist() == [False, True]
    assert evaluated("named_struct('{a}', s)", rows).to_pylist()[1] == {"{a}": "aa"}
    assert evaluated("format_string('{%s}', s)", rows).to_pylist() == ["{x{0}y}", "{aa}"]


@pytest.mark.parametrize("name", ["BOOLEAN", "DECIMAL(5,2)", "ARRAY<MAP<STRING,STRUCT<a:INT>>>", "TIMESTAMP", "INTERVAL DAY TO SECOND"])
def test_every_type_has_one_of_duckdb(name: str) -> None:
    assert duckdb_type(type_from_name(name))
