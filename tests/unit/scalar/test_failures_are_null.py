"""A part of an expression that fails is NULL; the rest of the expression, and the other rows, do not notice."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

from unit.scalar.evaluation import evaluated, value


@pytest.mark.parametrize(
    "text",
    [
        "1 / 0", "1 % 0", "1 div 0", "1.5 / 0", "1D / 0", "1D % 0D", "2147483647 + 1", "-2147483648 - 1", "9223372036854775807 * 2",
        "-(-2147483648)", "abs(-2147483648)", "cast('x' as int)", "cast('12.7' as int)", "cast('' as double)", "cast(300 as tinyint)",
        "cast(1e30 as bigint)", "cast('maybe' as boolean)", "cast('2024-02-30' as date)", "cast(123456 as decimal(5,1))",
        "element_at(array(1, 2), 5)", "array(1, 2)[5]", "array(1, 2)[-1]", "element_at(map('a', 1), 'b')", "make_date(2023, 2, 29)",
        "cast('NaN' as double) :: int", "99999999999999999999999999999999999999 + 1", "elt(5, 'a', 'b')", "map('a', 1, 'a', 2)",
        "split_part('a,b', ',', 0)", "date_add(date '9999-12-31', 2147483647)", "to_date('x', 'yyyy')", "unhex('zz')",
        "slice(array(1), 0, 1)", "sequence(1, 5, -1)", "interval '1' day / 0", "try_add(2147483647, 1)", "try_cast('x' as int)",
    ],
)  # fmt: skip
def test_failure_is_null(text: str) -> None:
    assert value(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coalesce(1 / 0, 5D)", 5.0),
        ("coalesce(cast('x' as int), -1)", -1),
        ("if(1 / 0 is null, 'none', 'some')", "none"),
        ("concat('a', coalesce(cast(2147483647 + 1 as string), '?'))", "a?"),
        ("transform(array('1', 'x', '3'), x -> cast(x as int))", [1, None, 3]),
        ("(2147483647 + 1) is null and 1 = 1", True),
        ("array(1 / 0, 2D)", [None, 2.0]),
        ("-2147483648 % -1", 0),
    ],
)
def test_only_the_failing_part_is_null(text: str, expected: object) -> None:
    assert value(text) == expected


def test_rows_fail_one_by_one() -> None:
    rows = pa.record_batch({"a": pa.array([1, 2147483647, None, 5] * 1000, pa.int32()), "s": pa.array(["1", "x", None, " 7 "] * 1000)})
    assert evaluated("a + 1", rows).to_pylist() == [2, None, None, 6] * 1000
    assert evaluated("cast(s as int) + a", rows).to_pylist() == [2, None, None, 12] * 1000
    assert evaluated("10 / (a - 1)", rows).to_pylist() == [None, 10 / 2147483646, None, 2.5] * 1000


def test_wide_decimals_are_exact() -> None:
    digits = decimal.Context(prec=60)
    a, b = decimal.Decimal("12345678901234567890.123456789012345678"), decimal.Decimal("-0.000000000987654321")
    rows = pa.record_batch({"a": pa.array([a], pa.decimal128(38, 18)), "b": pa.array([b], pa.decimal128(38, 18))})
    product = digits.multiply(a, b).quantize(decimal.Decimal("1e-6"), rounding=decimal.ROUND_HALF_UP, context=digits)
    quotient = digits.divide(a, b).quantize(decimal.Decimal("1e-6"), rounding=decimal.ROUND_HALF_UP, context=digits)
    assert evaluated("a * b", rows).to_pylist() == [product]
    assert evaluated("a / b", rows).to_pylist() == [quotient]
    assert evaluated("a * a * a", rows).to_pylist() == [None]
