"""What becomes of a Python function's results, and of its failures."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.core.errors import FunctionFailed
from millstream.core.schema import TIMESTAMP
from millstream.operators import python_calls
from millstream.operators.python_calls import called
from millstream.plan.python_function import PythonFunction
from millstream.spark.functions import declared_function

NUMBERS = pa.array([1, None, 3], pa.int32())


def function(body: Callable[..., Any], type_: str | pa.DataType, *, vectorized: bool = False) -> PythonFunction:
    """As a worker gets it: through a message."""
    declared = declared_function("f", body, type_, vectorized, True)
    return pickle.loads(pickle.dumps(declared))


@pytest.mark.parametrize(
    ("type_", "result"),
    [
        ("BOOLEAN", True), ("INT", 7), ("DOUBLE", float("inf")), ("STRING", "ü"), ("BINARY", b"\x00\xff"), ("DATE", dt.date(2024, 2, 29)),
        ("TIMESTAMP", dt.datetime(2024, 2, 29, 12, 30, 0, 1, dt.UTC)), ("TIMESTAMP_NTZ", dt.datetime(2024, 2, 29)),
        ("DECIMAL(38,10)", Decimal("1234567890123456789012345678.0123456789")), ("ARRAY<INT>", [1, None]),
        ("STRUCT<a:INT,b:STRING>", {"a": 1, "b": None}), ("MAP<STRING,INT>", [("k", 1)]), ("INTERVAL", dt.timedelta(microseconds=1)),
    ],
)  # fmt: skip
def test_values_of_every_type_come_back_as_they_were(type_: str, result: Any) -> None:
    identity = function(lambda x: x, type_)
    values = pa.array([result, None, result], identity.type)
    assert called(identity, [values], 3).equals(values)
    assert called(function(lambda x: x, type_, vectorized=True), [values], 3).equals(values)


@pytest.mark.parametrize(
    ("type_", "result", "expected"),
    [
        ("DOUBLE", 1, 1.0), ("INT", np.int64(5), 5), ("INT", "12", 12), ("BOOLEAN", np.bool_(True), True), ("STRING", 5, "5"),
        ("DECIMAL(5,2)", 1.25, Decimal("1.25")), ("BIGINT", 2.0, 2), ("BIGINT", None, None),
    ],
)  # fmt: skip
def test_results_are_cast_to_the_declared_type(type_: str, result: Any, expected: Any) -> None:
    assert called(function(lambda x: result, type_), [NUMBERS], 3).to_pylist() == [expected] * 3


def test_a_timestamp_with_any_zone_is_the_same_instant() -> None:
    east = dt.datetime(2024, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert called(function(lambda: east, "TIMESTAMP"), [], 2).equals(pa.array([dt.datetime(2024, 1, 1)] * 2, TIMESTAMP))


def test_nan_is_a_number() -> None:
    assert str(called(function(lambda x: float("nan"), "DOUBLE"), [NUMBERS], 3).to_pylist()) == "[nan, nan, nan]"
    assert str(called(function(lambda x: np.array([np.nan] * 3), "DOUBLE", vectorized=True), [NUMBERS], 3).to_pylist()) == "[nan, nan, nan]"


@pytest.mark.parametrize(
    "body",
    [
        lambda x: pc.add(x, 1), lambda x: pa.chunked_array([pc.add(x, 1)]), lambda x: [2, None, 4], lambda x: (2, None, 4),
        lambda x: pd.Series([2, None, 4], dtype="Int32"), lambda x: pc.add(x, 1).cast(pa.int64()),
        lambda x: np.array([2, None, 4], object), lambda x: pa.array(["2", None, "4"]),
    ],
)  # fmt: skip
def test_a_vectorised_function_may_give_any_kind_of_array(body: Callable[..., Any]) -> None:
    assert called(function(body, "INT", vectorized=True), [NUMBERS], 3).equals(pa.array([2, None, 4], pa.int32()))


@pytest.mark.parametrize(
    ("body", "type_", "vectorized", "message"),
    [
        (lambda x: 1 // (x - 3), "INT", False, r'"f" failed on \(None\): TypeError'),
        (lambda x: {}[x], "INT", False, r'"f" failed on \(1\): KeyError: 1'),
        (lambda x: exit(), "INT", False, r'"f" failed on \(1\): SystemExit'),
        (lambda x: "many", "INT", False, r"gave 'many' on \(1\), which is no INT"),
        (lambda x: 1.5 if x == 3 else x, "INT", False, r"gave 1\.5 on \(3\), which is no INT"),
        (lambda x: [{"a": Decimal("0.5")}], "ARRAY<STRUCT<a:INT>>", False, r"which is no ARRAY<STRUCT<a:INT>>"),
        (lambda x: [("k", float("nan"))], "MAP<STRING,INT>", False, r"which is no MAP<STRING,INT>"),
        (lambda x: dt.datetime(2024, 1, 1, 12), "DATE", False, "which is no DATE"),
        (lambda x: np.array([1.5, 2.0, 3.0], object), "INT", True, r"gave 1\.5 on \(1\), which is no INT"),
        (lambda x: 300, "TINYINT", False, r"gave 300 on \(1\), which is no TINYINT"),
        (lambda x: object(), "STRING", False, r"gave <object object .* which is no STRING"),
        (lambda x: pc.add(x, "a"), "INT", True, r'"f" failed on 3 rows, the first \(1\): Arrow'),
        (lambda x: [1], "INT", True, "gave 1 values for 3 rows"),
        (lambda x: 7, "INT", True, "gave int, not an array"),
        (lambda x: np.float64(7), "INT", True, "gave float64, not an array"),
        (lambda x: "abc", "INT", True, "gave str, not an array"),
        (lambda x: None, "INT", True, "gave NoneType, not an array"),
        (lambda x: np.zeros((3, 1)), "INT", True, "gave what is no Arrow array"),
        (lambda x: pa.array([1.0, 2.5, 3.0]), "INT", True, r"gave 2\.5 on \(None\), which is no INT"),
    ],
)
def test_nonsense_is_the_functions_failure(body: Callable[..., Any], type_: str, vectorized: bool, message: str) -> None:
    with pytest.raises(FunctionFailed, match=message) as failure:
        called(function(body, type_, vectorized=vectorized), [NUMBERS], 3)
    assert failure.value.code == "FUNCTION_FAILED"


def test_long_values_are_cut_in_the_message() -> None:
    with pytest.raises(FunctionFailed) as failure:
        called(function(lambda x: x.missing, "INT"), [pa.array(["x" * 100_000])], 1)
    assert len(failure.value.message) < 1_000


def test_a_function_is_not_called_for_no_rows() -> None:
    assert called(function(lambda x: 1 // 0, "INT"), [NUMBERS.slice(0, 0)], 0).equals(pa.array([], pa.int32()))


def test_equal_functions_are_loaded_once() -> None:
    def body(x: int | None) -> int:
        return 41

    first, second = function(body, "INT"), function(body, "INT")
    assert first == second
    assert first.key != function(body, "BIGINT").key
    called(first, [NUMBERS], 3)
    loaded = python_calls._LOADED[first.key]
    called(second, [NUMBERS], 3)
    assert python_calls._LOADED[first.key] is loaded


class Unspeakable(Exception):
    """Raises what would end the process, when it is asked what it means or looked at."""

    def _end(self, *_: object) -> str:
        raise self.args[0]

    __str__ = __repr__ = __arrow_array__ = _end  # type: ignore[assignment]


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_that_ends_the_process_when_it_is_shown_is_the_functions_failure(
    ending: type[BaseException], *, vectorized: bool
) -> None:
    def fails(_: object) -> None:
        raise Unspeakable(ending)

    with pytest.raises(FunctionFailed, match=r"failed on .*: Unspeakable$"):
        called(function(fails, "INT", vectorized=vectorized), [NUMBERS], 3)


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_a_result_that_ends_the_process_when_it_is_shown_is_the_functions_failure(ending: type[BaseException]) -> None:
    with pytest.raises(FunctionFailed, match=rf"gave <Unspeakable that cannot be shown: {ending.__name__}> on \(1\), which is no INT"):
        called(function(lambda x: Unspeakable(ending), "INT"), [NUMBERS], 3)


class EndsWhenCounted(list[int]):
    def __len__(self) -> int:
        raise SystemExit(3)


def test_a_result_that_ends_the_process_when_it_is_looked_at_is_the_functions_failure() -> None:
    with pytest.raises(FunctionFailed, match=r'"f" gave what cannot be looked at on 3 rows, the first \(1\): SystemExit: 3'):
        called(function(lambda x: EndsWhenCounted(), "INT", vectorized=True), [NUMBERS], 3)
