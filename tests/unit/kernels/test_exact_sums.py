"""Exact totals where short random histories do not reach: long histories, outliers, carries, huge counts."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.kernels.decimal_sum import WIDTH, decimal_averages, decimal_sums
from millstream.kernels.integer_sum import integer_averages
from millstream.kernels.limbs import nearest_double
from millstream.operators.aggregates.aggregate import Changes
from millstream.operators.aggregates.avg import DecimalAvgAgg
from millstream.operators.aggregates.sum import DoubleSumAgg
from millstream.operators.aggregates.totals import bound_of


def limbs_of(value: int, limbs: int) -> np.ndarray:
    """Two's complement, least significant limb first."""
    return np.frombuffer((value % 2 ** (64 * limbs)).to_bytes(8 * limbs, "little"), np.int64).copy()


def changes_of(codes: np.ndarray, signs: np.ndarray) -> Changes:
    """Changes each at an instant of its own."""
    return Changes(
        np.arange(len(codes)), codes, np.arange(len(codes), dtype=np.int32), signs, len(codes), np.zeros(2 * len(codes), np.int64)
    )


def float_of(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(st.integers(-(2**300), 2**300), st.integers(0, 320).flatmap(lambda n: st.integers(2**n - 3, 2**n + 3))),
    st.integers(-1074, 900),
)
def test_nearest_double_rounds_once(value: int, exponent: int) -> None:
    number, scratch = limbs_of(value, 6), np.empty(6, np.int64)
    rounded = nearest_double(number.ctypes.data, 6, exponent, scratch.ctypes.data)
    assert rounded == float_of(Fraction(value) * Fraction(2) ** exponent)


@pytest.mark.parametrize("spread", [1, 40, 300])
def test_double_sums_stay_exact_in_long_histories(spread: int) -> None:
    """Values of very different sizes come and go; at every instant the sum is the true one, rounded once."""
    rng = np.random.default_rng(spread)
    groups, n = 5, 6000
    totals, present = [Fraction(0)] * groups, [[] for _ in range(groups)]
    codes, values, signs, expected = [], [], [], []
    for _ in range(n):
        g = int(rng.integers(0, groups))
        if present[g] and rng.random() < 0.5:
            value, sign = present[g].pop(int(rng.integers(0, len(present[g])))), -1
        else:
            value, sign = float(rng.normal() * 10.0 ** rng.integers(-spread, spread)), 1
            present[g].append(value)
        before = (float_of(totals[g]), len(present[g]) - sign)
        totals[g] += sign * Fraction(value)
        codes.append(g), values.append(value), signs.append(sign)
        expected += [before, (float_of(totals[g]), len(present[g]))]
    sums = DoubleSumAgg(pa.float64())
    sums.reserve(groups)
    result = sums.add(changes_of(np.array(codes), np.array(signs, np.int8)), [pa.array(values)]).take(None)
    assert result.to_pylist() == [total if count else None for total, count in expected]


def test_wide_numbers_are_given_back() -> None:
    """An outlier takes a wide number for as long as its group has values, not longer."""
    sums = DoubleSumAgg(pa.float64())
    sums.reserve(1000)
    codes = np.arange(1000)
    for _ in range(20):
        for value, sign in [(1.0, 1), (1e300, 1), (1e300, -1), (1.0, -1)]:
            result = sums.add(changes_of(codes, np.full(1000, sign, np.int8)), [pa.array(np.full(1000, value))])
        assert result.take(None).null_count == 1000
    assert len(sums._sums.wide) <= 2048
    assert not sums._sums.sums.any()
    assert int(sums._sums.wide[0, 1]) == len(sums._sums.wide) - 1


def test_more_than_all_doubles_and_back() -> None:
    """Beyond the largest double the sum is infinite, and finite again when enough has left."""
    sums = DoubleSumAgg(pa.float64())
    sums.reserve(1)
    values = pa.array([1.7e308, 1.7e308, -0.5, 1.7e308])
    result = sums.add(changes_of(np.zeros(4, np.int64), np.array([1, 1, 1, -1], np.int8)), [values]).take(None).to_pylist()
    assert result[1::2] == [1.7e308, math.inf, math.inf, 1.7e308]
    result = sums.add(changes_of(np.zeros(1, np.int64), np.array([-1], np.int8)), [pa.array([1.7e308])]).take(None).to_pylist()
    assert result[1] == -0.5


def test_a_sum_whose_values_cross_inside_an_instant() -> None:
    """As many values leave as enter, before the sum is zero: nothing may be forgotten between."""
    sums = DoubleSumAgg(pa.float64())
    sums.reserve(1)
    one_slot = Changes(
        np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(3, np.int32), np.array([-1, 1, 1], np.int8), 1, np.zeros(2, np.int64)
    )
    assert sums.add(one_slot, [pa.array([1e300, 2.5, 1e300])]).take(None).to_pylist() == [None, 2.5]


UNSCALED = st.one_of(st.integers(-(10**40), 10**40), st.integers(-(10**6), 10**6))


@settings(max_examples=300, deadline=None)
@given(UNSCALED, st.one_of(st.integers(1, 20), st.integers(2**31, 2**34), st.integers(2**62, 2**63 - 1)), st.integers(0, 4))
def test_decimal_averages_of_any_count(total: int, count: int, shift: int) -> None:
    sums = np.concatenate([limbs_of(total, 3), [count]]).reshape(1, WIDTH)
    out, valid = np.zeros((1, 2), np.int64), np.zeros(1, np.uint8)
    decimal_averages(sums, bound_of(38), 10**shift, bound_of(38), out, valid)
    quotient = int(abs(Fraction(total * 10**shift, count)) + Fraction(1, 2)) * (1 if total >= 0 else -1)
    assert bool(valid[0]) == (abs(total) < 10**38 and abs(quotient) < 10**38)
    if valid[0]:
        assert int.from_bytes(out.tobytes(), "little", signed=True) == quotient


@settings(deadline=None)
@given(UNSCALED, st.integers(0, 3), st.integers(1, 38))
def test_decimal_sums_have_their_digits(total: int, count: int, digits: int) -> None:
    sums = np.concatenate([limbs_of(total, 3), [count]]).reshape(1, WIDTH)
    out, valid = np.zeros((1, 2), np.int64), np.zeros(1, np.uint8)
    decimal_sums(sums, bound_of(digits), out, valid)
    assert bool(valid[0]) == (count > 0 and abs(total) < 10**digits)
    if valid[0]:
        assert int.from_bytes(out.tobytes(), "little", signed=True) == total


@settings(deadline=None)
@given(st.integers(-(2**126), 2**126), st.integers(1, 2**40))
def test_integer_averages(total: int, count: int) -> None:
    sums = np.concatenate([limbs_of(total, 2), [count, 0]]).reshape(1, 4)
    out, valid = np.zeros(1), np.zeros(1, np.uint8)
    integer_averages(sums, out, valid)
    assert out[0] == float(total) / count


@pytest.mark.parametrize("sign", ["", "-"])
def test_average_of_decimals_rounds_ties_away_from_zero(sign: str) -> None:
    average = DecimalAvgAgg(pa.decimal128(9, 6), pa.decimal128(5, 2))
    average.reserve(1)
    values = pa.array([Decimal(f"{sign}0.01"), *[Decimal("0.00")] * 31], pa.decimal128(5, 2))
    result = average.add(changes_of(np.zeros(32, np.int64), np.ones(32, np.int8)), [values]).take(None)
    assert result[-1].as_py() == Decimal(f"{sign}0.000313")  # 0.0003125
