"""The predicate index where random tests rarely look."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from millstream.core.errors import TypeMismatch
from millstream.kernels.predicate_index import Factor, PredicateIndex


def matches(type_: pa.DataType, factor: tuple[str, object], values: list[object]) -> list[object]:
    index = PredicateIndex({"v": type_})
    index.add(5, [Factor("v", factor[0], factor[1])])  # type: ignore[arg-type]
    rows, numbers = index.probe(pa.RecordBatch.from_arrays([pa.array(values, type_)], names=["v"]))
    assert set(numbers.tolist()) <= {5}
    return [values[row] for row in rows]


def test_the_ends_of_integers() -> None:
    ends = [-(2**63), 0, 2**63 - 1]
    assert matches(pa.int64(), ("<", -(2**63)), ends) == []
    assert matches(pa.int64(), (">", 2**63 - 1), ends) == []
    assert matches(pa.int64(), ("<=", 2**63 - 1), [*ends, None]) == ends
    assert matches(pa.int64(), (">=", -(2**63)), [*ends, None]) == ends
    assert matches(pa.int8(), ("<", 1000), [127, -128]) == [127, -128]


def test_nan_is_the_greatest_and_equals_itself_and_zero_has_no_sign() -> None:
    values = [math.inf, 1.0]
    assert matches(pa.float64(), (">", math.inf), [*values, math.nan]) == pytest.approx([math.nan], nan_ok=True)
    assert matches(pa.float64(), ("=", math.nan), [*values, math.nan]) == pytest.approx([math.nan], nan_ok=True)
    assert matches(pa.float64(), ("<", math.nan), [*values, math.nan]) == values
    assert matches(pa.float64(), ("=", 0.0), [-0.0, 0.0]) == [-0.0, 0.0]
    assert matches(pa.float64(), ("<", 0.0), [-0.0, 0.0]) == []


def test_a_float_column_is_compared_as_double() -> None:
    as_float = pa.array([0.1], pa.float32()).to_pylist()[0]
    assert matches(pa.float32(), (">", 0.1), [0.1]) == [0.1]
    assert matches(pa.float32(), ("=", as_float), [0.1]) == [0.1]


def test_null_matches_nothing_on_either_side() -> None:
    for op in ("<", "<=", "=", ">=", ">"):
        assert matches(pa.string(), (op, None), ["a", None]) == []
        assert matches(pa.string(), (op, "a"), [None]) == []


def test_a_constant_of_another_type_is_an_error_with_a_hint() -> None:
    index = PredicateIndex({"v": pa.int32()})
    with pytest.raises(TypeMismatch, match=r"'abc' cannot be compared with a column of INT") as error:
        index.add(1, [Factor("v", "<", "abc")])
    assert error.value.hint
    assert len(index) == 0


def test_selections_without_factors_and_contradictions() -> None:
    index = PredicateIndex({"v": pa.int32()})
    index.add(1, [])
    index.add(2, [Factor("v", "<", 1), Factor("v", ">", 1)])
    rows, numbers = index.probe(pa.RecordBatch.from_arrays([pa.array([1, None], pa.int32())], names=["v"]))
    assert (rows.tolist(), numbers.tolist()) == ([0, 1], [1, 1])
    index.remove(1)
    index.remove(2)
    assert len(index.probe(pa.RecordBatch.from_arrays([pa.array([1], pa.int32())], names=["v"]))[0]) == 0
