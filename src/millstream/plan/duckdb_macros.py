"""What Spark does and DuckDB has no function for, as DuckDB macros.  A worker's connection defines them once.

A macro's argument is copied to each place where it is used, so a macro that needs its argument more than
once binds it first: `list_transform([x], lambda v: ...)[1]` evaluates `x` once, however it is written.
"""

from __future__ import annotations

_SPACE = r"[\x00-\x20\x7f]*"
_FLOATING = rf"(?i)^{_SPACE}([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)[df]?{_SPACE}$"
_SPECIAL = rf"(?i)^{_SPACE}([+-]?inf(?:inity)?|nan){_SPACE}$"
_DATE = rf"^{_SPACE}([+-]?[0-9]{{4,7}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T][\s\S]*)?)?)?{_SPACE}$"
_TIME = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?"
_ZONE = r"(?:Z|UTC|GMT|UT)?([+-][0-9]{1,2}(?::?[0-9]{2}(?::?[0-9]{2})?)?)?"
_TIMESTAMP = rf"^{_SPACE}([+-]?[0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T](?:{_TIME}[ ]*(?:{_ZONE})?)?)?)?)?{_SPACE}$"


def _bound(argument: str, body: str) -> str:
    """`body` over v, with `argument` evaluated once."""
    return f"list_transform([{argument}], lambda v: {body})[1]"


def _floating_text() -> str:
    """Java's Double.toString: plain between 0.001 and 10,000,000, else one digit, a point, digits, E and the exponent."""
    small = "regexp_extract(s, '^0[.](0*)', 1)"
    big_digits, small_digits = "rtrim(replace(s, '.', ''), '0')", "ltrim(replace(s, '.', ''), '0')"
    scientific = f"""CASE
        WHEN contains(s, 'e') THEN
            CASE WHEN contains(s, '.') THEN split_part(s, 'e', 1) ELSE split_part(s, 'e', 1) || '.0' END
            || 'E' || CAST(CAST(split_part(s, 'e', 2) AS INTEGER) AS VARCHAR)
        WHEN starts_with(s, '0.') THEN
            {small_digits}[1] || '.' || coalesce(nullif({small_digits}[2:], ''), '0') || 'E-' || CAST(length({small}) + 1 AS VARCHAR)
        ELSE
            {big_digits}[1] || '.' || coalesce(nullif({big_digits}[2:], ''), '0') || 'E'
            || CAST(length(split_part(s, '.', 1)) - 1 AS VARCHAR)
        END"""
    text = f"list_transform([CAST(abs(v) AS VARCHAR)], lambda s: {scientific})[1]"
    return f"""CASE
        WHEN v IS NULL THEN NULL
        WHEN isnan(v) THEN 'NaN'
        WHEN isinf(v) THEN CASE WHEN v > 0 THEN 'Infinity' ELSE '-Infinity' END
        WHEN v = 0 OR (abs(v) >= 0.001 AND abs(v) < 10000000) THEN CAST(v AS VARCHAR)
        ELSE CASE WHEN v < 0 THEN '-' ELSE '' END || {text}
        END"""


def _to_floating(type_: str) -> str:
    special = f"lower(regexp_extract(x, '{_SPECIAL}', 1))"
    return f"""coalesce(
        TRY_CAST(regexp_extract(x, '{_FLOATING}', 1) AS {type_}),
        CASE WHEN {special} = 'nan' THEN CAST('nan' AS {type_})
             WHEN starts_with({special}, '-') THEN CAST('-inf' AS {type_})
             WHEN {special} <> '' THEN CAST('inf' AS {type_}) END)"""


def _number(field: str, default: int = 0) -> str:
    return f"coalesce(TRY_CAST({field} AS BIGINT), {default})"


def _zone_us() -> str:
    """The offset in v.z (`+1`, `+01:30`, `-0130`) in microseconds."""
    digits = "regexp_extract(v.z, '([+-])([0-9]{1,2}):?([0-9]{2})?:?([0-9]{2})?', ['sign', 'h', 'm', 's'])"
    seconds = f"{_number('o.h')} * 3600 + {_number('o.m')} * 60 + {_number('o.s')}"
    return f"list_transform([{digits}], lambda o: CASE WHEN o.sign = '-' THEN -1 ELSE 1 END * ({seconds}) * 1000000)[1]"


def _to_timestamp(*, zoned: bool) -> str:
    parts = f"regexp_extract(x, '{_TIMESTAMP}', ['y', 'mo', 'd', 'h', 'mi', 's', 'f', 'z'])"
    date = f"TRY(make_date(TRY_CAST(v.y AS BIGINT), {_number('v.mo', 1)}, {_number('v.d', 1)}))"
    hour, minute, second = (_number(f"v.{field}") for field in ("h", "mi", "s"))
    fraction = _number("rpad(left(v.f, 6), 6, '0')")
    clock = f"({hour} * 3600 + {minute} * 60 + {second}) * 1000000 + {fraction}"
    valid = f"{hour} < 24 AND {minute} < 60 AND {second} < 60"
    zone = _zone_us() if zoned else "0"
    moment = f"TRY(make_timestamp(epoch_us(CAST({date} AS TIMESTAMP)) + {clock} - {zone}))"
    return _bound(parts, f"CASE WHEN {valid} THEN {moment} END")


def _to_date() -> str:
    parts = f"regexp_extract(x, '{_DATE}', ['y', 'm', 'd'])"
    return _bound(parts, f"TRY(make_date(TRY_CAST(v.y AS BIGINT), {_number('v.m', 1)}, {_number('v.d', 1)}))")


def _unscaled() -> str:
    """A decimal's digits as a whole number."""
    return "CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)"


MACROS: dict[str, str] = {
    "millstream_double_to_string(x)": _bound("x", _floating_text()),
    "millstream_float_to_string(x)": _bound("x", _floating_text()),
    "millstream_to_double(x)": _to_floating("DOUBLE"),
    "millstream_to_float(x)": _to_floating("FLOAT"),
    "millstream_to_date(x)": _to_date(),
    "millstream_to_timestamp(x)": _to_timestamp(zoned=True),
    "millstream_to_timestamp_ntz(x)": _to_timestamp(zoned=False),
    "millstream_unscaled(x)": _unscaled(),
}


def macro_statements() -> list[str]:
    return [f"CREATE TEMP MACRO {head} AS {body}" for head, body in MACROS.items()]
