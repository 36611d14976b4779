"""The evaluator: same rows, same order, exactly the declared types, nothing copied that need not be."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import pyarrow as pa
import pytest

from millstream.core.errors import InternalError
from millstream.core.schema import INTERVAL, TIMESTAMP, TIMESTAMP_NTZ
from millstream.operators import evaluator as module
from millstream.operators.evaluator import Evaluator
from millstream.plan.duckdb_sql import duckdb_type, to_duckdb
from spark.scalar_rows import SCHEMA, rows
from unit.scalar.evaluation import bound, corpus


@pytest.fixture
def evaluator() -> Evaluator:
    return Evaluator()


def test_bare_columns_are_not_copied_and_need_no_duckdb(evaluator: Evaluator) -> None:
    batch = pa.record_batch({"a": pa.array([1, 2]), 'q"x': pa.array([1, 2], TIMESTAMP)})
    result = evaluator.project(batch, [("x", '"a"', pa.int64()), ("y", '"q""x"', TIMESTAMP)])
    assert [column.buffers()[1].address for column in result.columns] == [column.buffers()[1].address for column in batch.columns]
    assert "_connection" not in vars(evaluator)


def test_the_empty_batch_needs_no_duckdb(evaluator: Evaluator) -> None:
    empty = rows().slice(0, 0)
    result = evaluator.project(empty, [("x", '("i32" + 1)', pa.int32()), ("y", '"ma"', SCHEMA["ma"].type)])
    assert result.num_rows == 0
    assert result.schema.types == [pa.int32(), SCHEMA["ma"].type]
    assert evaluator.mask(empty, '("i32" > 1)').shape == (0,)
    assert "_connection" not in vars(evaluator)


def test_order_and_number_of_rows_are_kept(evaluator: Evaluator) -> None:
    numbers = np.random.default_rng(1).permutation(300_000)
    batch = pa.record_batch({"a": pa.array(numbers), "s": pa.array(numbers.astype(str))})
    result = evaluator.project(batch, [("x", '("a" * 2)', pa.int64()), ("y", 'upper("s")', pa.string()), ("a", '"a"', pa.int64())])
    assert np.array_equal(result.column("x").to_numpy(), numbers * 2)
    assert result.column("y").to_pylist() == [str(n) for n in numbers]


def test_mask_takes_null_for_false(evaluator: Evaluator) -> None:
    batch = pa.record_batch({"a": pa.array([1, None, 3, 4])})
    mask = evaluator.mask(batch, '("a" > 2)')
    assert mask.dtype == np.bool_
    assert mask.tolist() == [False, False, True, True]
    assert evaluator.mask(batch, "TRUE").tolist() == [True] * 4


def test_instants_come_back_in_utc_and_intervals_as_durations(evaluator: Evaluator) -> None:
    at = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    batch = pa.record_batch({"t": pa.array([at, None], TIMESTAMP), "i": pa.array([dt.timedelta(hours=1), None], INTERVAL)})
    moved = bound("t + i * 2", {"t": TIMESTAMP, "i": INTERVAL})
    gap = bound("t - timestamp '2024-02-29 00:00:00'", {"t": TIMESTAMP})
    result = evaluator.project(batch, [("m", to_duckdb(moved), moved.type), ("g", to_duckdb(gap), gap.type)])
    assert result.schema.types == [TIMESTAMP, INTERVAL]
    assert result.column("m").to_pylist() == [at + dt.timedelta(hours=2), None]
    assert result.column("g").to_pylist() == [dt.timedelta(hours=12), None]


def test_types_inside_nested_columns_are_translated_too(evaluator: Evaluator) -> None:
    at = dt.datetime(1969, 7, 20, 20, 17, tzinfo=dt.UTC)
    type_ = pa.list_(pa.struct([("at", TIMESTAMP), ("long", INTERVAL), ("local", TIMESTAMP_NTZ)]))
    value = [{"at": at, "long": dt.timedelta(days=-1), "local": at.replace(tzinfo=None)}]
    batch = pa.record_batch({"a": pa.array([value, None], type_)})
    expr = bound("transform(a, x -> named_struct('at', x.at + x.long, 'long', x.long, 'local', x.local))", {"a": type_})
    assert expr.type == type_
    (first, second) = evaluator.project(batch, [("v", to_duckdb(expr), expr.type)]).column(0).to_pylist()
    assert first == [{**value[0], "at": at - dt.timedelta(days=1)}]
    assert second is None


def test_batches_are_let_go_and_statements_used_again(evaluator: Evaluator) -> None:
    for start in range(0, 50, 10):
        batch = pa.record_batch({"a": pa.array(range(start, start + 10))})
        assert evaluator.project(batch, [("x", '("a" + 1)', pa.int64())]).column(0).to_pylist() == list(range(start + 1, start + 11))
    (statement,) = evaluator._statements.values()
    assert statement._source.rows.num_rows == 0


def test_schemas_do_not_mix(evaluator: Evaluator) -> None:
    column = [("x", '("a" + 1)', pa.int64())]
    assert evaluator.project(pa.record_batch({"a": pa.array([1])}), column).column(0).to_pylist() == [2]
    small = pa.record_batch({"b": pa.array(["x"]), "a": pa.array([5], pa.int16())})
    assert evaluator.project(small, column).column(0).to_pylist() == [6]


def test_statements_are_kept_up_to_a_limit(evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_STATEMENTS", 3)
    batch = pa.record_batch({"a": pa.array([1])})
    for i in range(10):
        assert evaluator.project(batch, [("x", f'("a" + {i})', pa.int64())]).column(0).to_pylist() == [1 + i]
    assert len(evaluator._statements) == 3


def test_constants_have_as_many_rows_as_the_batch(evaluator: Evaluator) -> None:
    batch = pa.record_batch({"a": pa.array([1, 2, 3])})
    assert evaluator.project(batch, [("x", "'k'", pa.string())]).column(0).to_pylist() == ["k"] * 3
    assert evaluator.project(batch, [("x", "CAST(NULL AS INTEGER)", pa.null())]).column(0).to_pylist() == [None] * 3


def test_a_failure_that_slips_through_costs_its_rows_only(evaluator: Evaluator, caplog: pytest.LogCaptureFixture) -> None:
    batch = pa.record_batch({"s": pa.array(["1", "x", "3"])})
    result = evaluator.project(batch, [("x", 'CAST("s" AS INTEGER)', pa.int32()), ("y", 'upper("s")', pa.string())])
    assert result.to_pydict() == {"x": [1, None, 3], "y": ["1", "X", "3"]}
    assert "outside of TRY" in caplog.text


def test_nonsense_is_a_bug_of_ours(evaluator: Evaluator) -> None:
    with pytest.raises(InternalError, match="no_such_function"):
        evaluator.project(pa.record_batch({"a": pa.array([1])}), [("x", 'no_such_function("a")', pa.int64())])


def test_no_warnings(evaluator: Evaluator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluator.project(rows(), [("x", 'upper("st")', pa.string())])


def test_duckdb_gives_exactly_the_declared_types(evaluator: Evaluator) -> None:
    """The templates must not rely on the final cast: inside an expression there is none."""
    exprs = [(text, bound(text, SCHEMA)) for text, _ in corpus()]
    for start in range(0, len(exprs), 100):
        some = exprs[start : start + 100]
        sql = tuple(to_duckdb(expr) for _, expr in some)
        evaluator._evaluate(rows(), sql)
        found = evaluator._statements[(rows().schema, sql)]._relation.types
        nulls = ", ".join(f"CAST(NULL AS {duckdb_type(expr.type)})" for _, expr in some)
        wanted = evaluator._duckdb.connection.sql(f"SELECT {nulls}").types
        assert dict(zip([text for text, _ in some], map(str, found), strict=True)) == dict(
            zip([text for text, _ in some], map(str, wanted), strict=True)
        )


def test_columns_do_not_disturb_each_other(evaluator: Evaluator) -> None:
    """DuckDB likes to compute a common part once, outside of the TRYs that guard it."""
    batch = pa.record_batch({"s": pa.array(["1", "x", None]), "a": pa.array([2147483647, 1, None], pa.int32())})
    texts = [
        "get_json_object(s, '$.a')", "json_array_length(s)", "json_object_keys(s)", "cast(s as int) + 1", "cast(s as int) + 2",
        "a + 1", "(a + 1) * 2", "(a + 1) - 1", "coalesce(a + 1, 0)", "make_date(a, 13, 1)", "year(make_date(a, 13, 1))",
    ]  # fmt: skip
    exprs = [bound(text, {"s": pa.string(), "a": pa.int32()}) for text in texts]
    columns = [(f"c{i}", to_duckdb(expr), expr.type) for i, expr in enumerate(exprs)]
    together = evaluator.project(batch, columns)
    for column in columns:
        assert together.column(column[0]).equals(evaluator.project(batch, [column]).column(0))
