"""Python functions inside random expressions: as if SQL had computed them, whatever the batch, the nesting and the NULLs.

Each function has a twin in SQL.  An expression is drawn twice, once with calls and once with what they stand for; DuckDB
alone evaluates the second.  Guards are drawn too: a function that cannot take some values must never see them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.language.python_functions import with_functions
from millstream.operators.evaluator import Evaluator
from millstream.plan.duckdb_sql import to_duckdb
from millstream.plan.expression import Expr
from millstream.plan.function_calls import without_calls
from millstream.plan.python_function import PythonFunction
from millstream.spark.functions import declared_function
from unit.scalar.evaluation import bound_tree, parsed

_EVALUATOR = Evaluator()
TYPES = {
    "i": pa.int32(), "b": pa.bool_(), "s": pa.string(), "d": pa.decimal128(12, 3), "t": pa.timestamp("us", tz="UTC"),
    "a": pa.list_(pa.int32()), "r": pa.struct([("x", pa.int32()), ("y", pa.string())]),
}  # fmt: skip


def _function(name: str, body: Callable[..., Any], type_: pa.DataType, *, vectorized: bool = False) -> PythonFunction:
    return declared_function(name, body, type_, vectorized, True)


def _both(name: str, body: Callable[..., Any], type_: pa.DataType) -> list[PythonFunction]:
    """The function, and the same over arrays."""

    def over_arrays(*arrays: pa.Array) -> list[Any]:
        return [body(*row) for row in zip(*(array.to_pylist() for array in arrays), strict=True)]

    return [_function(name, body, type_), _function(f"{name}_all", over_arrays, type_, vectorized=True)]


def _strict(value: Any) -> Any:
    if value is None:
        raise ValueError("no value")
    return value


IDENTITY = {name: _both(f"same_{name}", lambda x: x, type_) for name, type_ in TYPES.items()}
FUNCTIONS = {
    function.name: function
    for function in [
        *(function for pair in IDENTITY.values() for function in pair),
        *_both("strict", _strict, TYPES["i"]),
        *_both("positive_only", lambda x: _strict(x if x is not None and x > 0 else None), TYPES["i"]),
        *_both("shorter", lambda x, y: None if x is None or y is None else min(x, y), TYPES["i"]),
        _function("arrow_is_null", lambda x: pc.is_null(x), TYPES["b"], vectorized=True),
    ]
}

Pair = tuple[str, str]  # with calls, and without


@st.composite
def pairs(draw: st.DrawFn, kind: str, depth: int = 3) -> Pair:
    if depth == 0:
        return (kind, kind)
    grown = [lambda: (kind, kind), lambda: _same(draw, kind, depth), lambda: _guarded(draw, kind, depth)]
    if kind == "i":
        grown += [lambda: _numeric(draw, depth), lambda: _protected(draw, depth)]
    if kind == "b":
        grown += [lambda: _logical(draw, depth), lambda: _is_null(draw, depth), lambda: _short_cut(draw)]
    return draw(st.sampled_from(grown))()


def _same(draw: st.DrawFn, kind: str, depth: int) -> Pair:
    call, plain = draw(pairs(kind, depth - 1))
    return f"{draw(st.sampled_from(IDENTITY[kind])).name}({call})", plain


def _guarded(draw: st.DrawFn, kind: str, depth: int) -> Pair:
    when, then, default = draw(pairs("b", depth - 1)), draw(pairs(kind, depth - 1)), draw(pairs(kind, depth - 1))
    texts = [f"CASE WHEN {when[i]} THEN {then[i]} ELSE {default[i]} END" for i in range(2)]
    return texts[0], texts[1]


def _numeric(draw: st.DrawFn, depth: int) -> Pair:
    left, right = draw(pairs("i", depth - 1)), draw(pairs("i", depth - 1))
    if draw(st.booleans()):
        return f"({left[0]} + {right[0]})", f"({left[1]} + {right[1]})"
    smaller = f"CASE WHEN {left[1]} IS NOT NULL AND {right[1]} IS NOT NULL THEN least({left[1]}, {right[1]}) END"
    return f"{draw(st.sampled_from(['shorter', 'shorter_all']))}({left[0]}, {right[0]})", smaller


def _protected(draw: st.DrawFn, depth: int) -> Pair:
    call, plain = draw(pairs("i", depth - 1))
    name = draw(st.sampled_from(["strict", "strict_all"]))
    return f"CASE WHEN {call} IS NOT NULL THEN {name}({call}) ELSE -1 END", f"CASE WHEN {plain} IS NOT NULL THEN {plain} ELSE -1 END"


def _logical(draw: st.DrawFn, depth: int) -> Pair:
    left, right = draw(pairs("b", depth - 1)), draw(pairs("b", depth - 1))
    word = draw(st.sampled_from(["AND", "OR"]))
    return f"({left[0]} {word} NOT {right[0]})", f"({left[1]} {word} NOT {right[1]})"


def _is_null(draw: st.DrawFn, depth: int) -> Pair:
    call, plain = draw(pairs(draw(st.sampled_from(sorted(TYPES))), depth - 1))
    return f"arrow_is_null({call})", f"({plain}) IS NULL"


def _short_cut(draw: st.DrawFn) -> Pair:
    name = draw(st.sampled_from(["positive_only", "positive_only_all"]))
    if draw(st.booleans()):
        return f"(i IS NOT NULL AND i > 0 AND {name}(i) > 5)", "(i IS NOT NULL AND i > 0 AND i > 5)"
    return f"(i IS NULL OR i <= 0 OR {name}(i) > 5)", "(i IS NULL OR i <= 0 OR i > 5)"


def _values(name: str) -> st.SearchStrategy[Any]:
    return {
        "i": st.integers(-10, 10), "b": st.booleans(), "s": st.text("aß'\"{", max_size=3), "d": st.decimals(-9999, 9999, places=3),
        "t": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)).map(lambda t: t.replace(tzinfo=dt.UTC)),
        "a": st.lists(st.none() | st.integers(0, 9), max_size=2),
        "r": st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y": st.none() | st.text("ab", max_size=2)}),
    }[name]  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    count = draw(st.integers(0, 6))
    columns = {
        name: pa.array(draw(st.lists(st.none() | _values(name), min_size=count, max_size=count)), type_) for name, type_ in TYPES.items()
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _bound(text: str) -> Expr:
    return bound_tree(with_functions(parsed(text), FUNCTIONS), TYPES)


@settings(max_examples=150, deadline=None)
@given(batches(), st.lists(st.sampled_from(sorted(TYPES)).flatmap(lambda kind: pairs(kind)), min_size=1, max_size=3))
def test_a_call_is_what_it_stands_for(rows: pa.RecordBatch, texts: list[Pair]) -> None:
    called, plain = [_bound(call) for call, _ in texts], [_bound(plain) for _, plain in texts]
    assert [expr.type for expr in called] == [expr.type for expr in plain]
    sql, calls = without_calls(called, rows.schema.names)
    ours = _EVALUATOR.project(rows, [(f"c{i}", text, expr.type) for i, (text, expr) in enumerate(zip(sql, called, strict=True))], calls)
    theirs = _EVALUATOR.project(rows, [(f"c{i}", to_duckdb(expr), expr.type) for i, expr in enumerate(plain)])
    assert ours.schema == theirs.schema
    assert ours.to_pylist() == theirs.to_pylist()


@settings(max_examples=80, deadline=None)
@given(batches(), pairs("b"))
def test_a_filter_keeps_the_same_rows(rows: pa.RecordBatch, texts: Pair) -> None:
    (sql,), calls = without_calls([_bound(texts[0])], rows.schema.names)
    assert _EVALUATOR.mask(rows, sql, calls).tolist() == _EVALUATOR.mask(rows, to_duckdb(_bound(texts[1]))).tolist()
