"""Products and quotients of decimals whose exact result has more than 38 digits, as DuckDB macros.

Spark computes the exact result and rounds it, half up, to the digits that the result type keeps.  DuckDB's own
arithmetic overflows on the way there, so these macros work on the unscaled digits as HUGEINT (38 digits):

    product    in two halves of 19 digits, as by hand
    quotient   by long division, one digit a step

They are slow (microseconds a row) and are used for wide decimals only; see `scalar_arithmetic.decimal_template`.
"""

from __future__ import annotations

_HALF = "10000000000000000000::HUGEINT"  # 10^19


def _let(values: dict[str, str], name: str, body: str) -> str:
    """`body` over a struct of named values, each evaluated once."""
    fields = ", ".join(f"'{key}': {value}" for key, value in values.items())
    return f"list_transform([{{{fields}}}], lambda {name}: {body})[1]"


def _product() -> str:
    """abs(a * b) / 10^d, rounded half up, for d > 0."""
    # a * b = top * 10^38 + low
    top, low = f"(x.top + x.mid // {_HALF})", f"((x.mid % {_HALF}) * {_HALF} + x.low)"
    rounded = f"TRY({top} * millstream_power_of_ten(38 - d) + ({low} // millstream_power_of_ten(d - 1) + 5) // 10)"
    carried = _let(
        {
            "mid": f"w.m1 % {_HALF} + w.m2 % {_HALF} + w.lo // {_HALF}",
            "low": f"w.lo % {_HALF}",
            "top": f"w.hi + w.m1 // {_HALF} + w.m2 // {_HALF}",
        },
        "x",
        rounded,
    )
    crossed = _let({"lo": "v.a0 * v.b0", "m1": "v.a1 * v.b0", "m2": "v.a0 * v.b1", "hi": "v.a1 * v.b1"}, "w", carried)
    halves = {"a1": f"abs(a) // {_HALF}", "a0": f"abs(a) % {_HALF}", "b1": f"abs(b) // {_HALF}", "b0": f"abs(b) % {_HALF}"}
    return _let(halves, "v", crossed)


def _quotient() -> str:
    """abs(a / b) * 10^k, rounded half up."""
    step = "{'q': s.q * 10 + (s.r * 10) // v.b, 'r': (s.r * 10) % v.b}"
    start = "{'q': v.a // v.b, 'r': v.a % v.b}"
    divided = f"list_reduce(range(k), lambda s, i: {step}, {start})"
    rounded = f"list_transform([{divided}], lambda s: s.q + CASE WHEN s.r >= v.b - s.r THEN 1 ELSE 0 END)[1]"
    return _let({"a": "abs(a)", "b": "nullif(abs(b), 0)"}, "v", f"TRY({rounded})")


def _scaled_text() -> str:
    """A whole number of units of 10^-s as text, with the point in its place."""
    digits = "CASE WHEN length(v) <= s THEN lpad(v, s + 1, '0') ELSE v END"
    placed = f"list_transform([{digits}], lambda t: left(t, length(t) - s) || '.' || right(t, s))[1]"
    return f"CASE WHEN negative THEN '-' ELSE '' END || list_transform([CAST(u AS VARCHAR)], lambda v: {placed})[1]"


def _signed(magnitude: str) -> str:
    """The text of a result of scale s whose magnitude is known, with the sign of a and b."""
    return f"millstream_scaled_text({magnitude}, (a < 0) <> (b < 0), s)"


DECIMAL_MACROS: dict[str, str] = {
    "millstream_unscaled(x)": "CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)",
    "millstream_power_of_ten(n)": "CAST(rpad('1', n + 1, '0') AS HUGEINT)",
    "millstream_scaled_text(u, negative, s)": _scaled_text(),
    "millstream_wide_product(a, b, d)": _product(),
    "millstream_wide_quotient(a, b, k)": _quotient(),
    "millstream_multiply(a, b, d, s)": _signed("millstream_wide_product(millstream_unscaled(a), millstream_unscaled(b), d)"),
    "millstream_divide(a, b, k, s)": _signed("millstream_wide_quotient(millstream_unscaled(a), millstream_unscaled(b), k)"),
}
