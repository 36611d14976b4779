"""What Spark does and DuckDB has no function for, as DuckDB macros.  A worker's connection defines the ones it needs.

A macro's argument is copied to each place where it is used, so a macro that needs its argument more than
once binds it first: `list_transform([x], lambda v: ...)[1]` evaluates `x` once, however it is written.
"""

from __future__ import annotations

import re

from millstream.plan.duckdb_decimals import DECIMAL_MACROS

_SPACE = r"[\x00-\x20\x7f]*"
_FLOATING = rf"(?i)^{_SPACE}([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)[df]?{_SPACE}$"
_SPECIAL = rf"(?i)^{_SPACE}([+-]?inf(?:inity)?|nan){_SPACE}$"
_DATE = rf"^{_SPACE}([+-]?[0-9]{{4,7}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T][\s\S]*)?)?)?{_SPACE}$"
_ZONE = r"(?:Z|UTC|GMT|UT)?([+-][0-9]{1,2}(?::?[0-9]{2}(?::?[0-9]{2})?)?)?"
_SECONDS = rf":([0-9]{{1,2}})(?:\.([0-9]*))?[ ]*(?:{_ZONE})?"
_TIME = rf"([0-9]{{1,2}})(?::([0-9]{{1,2}})(?:{_SECONDS})?)?"
_TIMESTAMP = rf"^{_SPACE}([+-]?[0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{_TIME})?)?)?{_SPACE}$"
_PLAIN_DATE = r"\d{4}-\d{2}-\d{2}"
_PLAIN_TIMESTAMP = rf"{_PLAIN_DATE}[ T](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?"


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


def _fast_if(plain: str, type_: str, any_form: str) -> str:
    """The form that nearly all values have goes through DuckDB's own cast, 50 times as fast as taking the text apart."""
    hopeless = rf"NOT regexp_matches(x, '^{_SPACE}[+-]?[0-9]{{4}}')"
    return f"CASE WHEN regexp_full_match(x, '{plain}') THEN TRY_CAST(x AS {type_}) WHEN {hopeless} THEN NULL ELSE {any_form} END"


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
    valid = f"{hour} < 24 AND {minute} < 60 AND {second} < 60 AND abs({_zone_us()}) <= {18 * 3_600_000_000}"
    zone = _zone_us() if zoned else "0"
    moment = f"TRY(make_timestamp(epoch_us(TRY_CAST({date} AS TIMESTAMP)) + {clock} - {zone}))"
    any_form = _bound(parts, f"CASE WHEN {valid} THEN {moment} END")
    return _fast_if(_PLAIN_TIMESTAMP, "TIMESTAMP", any_form)


def _to_date() -> str:
    parts = f"regexp_extract(x, '{_DATE}', ['y', 'm', 'd'])"
    any_form = _bound(parts, f"TRY(make_date(TRY_CAST(v.y AS BIGINT), {_number('v.m', 1)}, {_number('v.d', 1)}))")
    return _fast_if(_PLAIN_DATE, "DATE", any_form)


def _crc32() -> str:
    """The checksum byte by byte, from a table of the 256 remainders."""
    table = []
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = (rest >> 1) ^ (0xEDB88320 if rest & 1 else 0)
        table.append(str(rest))
    remainders = f"CAST([{', '.join(table)}] AS BIGINT[])"
    digits = "CAST('0x' || hex(v)[2 * i - 1:2 * i] AS BIGINT)"
    one_byte = f"xor({remainders}[(xor(c, b) & 255) + 1], c >> 8)"
    every = f"list_reduce(list_transform(range(1, octet_length(v) + 1), lambda i: {digits}), lambda c, b: {one_byte}, 4294967295)"
    return _bound("x", f"xor({every}, 4294967295)")


_DISTINCT = """list_filter(v, lambda e, i: CASE
    WHEN e IS NULL THEN list_position(list_transform(v, lambda f: f IS NULL), TRUE) = i
    ELSE list_position(v, e) = i END)"""
_MONTHS_BETWEEN = """list_transform([{'a': a, 'b': b}], lambda v: CASE
    WHEN v.a IS NULL OR v.b IS NULL THEN NULL
    WHEN day(v.a) = day(v.b) OR (last_day(v.a) = CAST(v.a AS DATE) AND last_day(v.b) = CAST(v.b AS DATE))
    THEN CAST((year(v.a) - year(v.b)) * 12 + month(v.a) - month(v.b) AS DOUBLE)
    ELSE CASE WHEN rounded THEN round(millstream_months_exact(v.a, v.b), 8) ELSE millstream_months_exact(v.a, v.b) END END)[1]"""
_MONTHS_EXACT = """((year(a) - year(b)) * 12 + month(a) - month(b)
    + ((day(a) - day(b)) * 86400 + (epoch_us(a) - epoch_us(date_trunc('day', a))) // 1000000
       - (epoch_us(b) - epoch_us(date_trunc('day', b))) // 1000000) / (31 * 86400.0::DOUBLE))"""
_MONTHS_APART = """list_transform([{
    'a': CAST(a AS DATE), 'b': CAST(b AS DATE),
    'later': epoch_us(b) - epoch_us(date_trunc('day', b)) - epoch_us(a) + epoch_us(date_trunc('day', a))}],
    lambda v: list_transform([CASE
        WHEN v.b > v.a AND v.later < 0 THEN v.b - 1
        WHEN v.b < v.a AND v.later > 0 THEN v.b + 1
        ELSE v.b END], lambda e: (((year(e) - year(v.a)) * 12 + month(e) - month(v.a)) * 32 + day(e) - day(v.a)) // 32)[1])[1]"""
_WIDTH_BUCKET = """CASE
    WHEN n <= 0 OR n = 9223372036854775807 OR lo = hi OR isnan(x) OR NOT isfinite(lo) OR NOT isfinite(hi) THEN NULL
    WHEN lo < hi THEN CASE WHEN x < lo THEN 0 WHEN x >= hi THEN n + 1 ELSE CAST(floor(n * (x - lo) / (hi - lo)) AS BIGINT) + 1 END
    ELSE CASE WHEN x > lo THEN 0 WHEN x <= hi THEN n + 1 ELSE CAST(floor(n * (lo - x) / (lo - hi)) AS BIGINT) + 1 END END"""
_SUBSTRING_INDEX = """CASE
    WHEN n IS NULL OR d IS NULL THEN NULL
    WHEN n = 0 OR d = '' THEN CASE WHEN x IS NOT NULL THEN '' END
    WHEN n > 0 THEN millstream_join(string_split(x, d)[:n], d)
    ELSE millstream_join(string_split(x, d)[n:], d) END"""
_QUOTE = """chr(39) || replace(x, chr(39), chr(92) || chr(39)) || chr(39)"""
_ARRAY_INSERT = """CASE
    WHEN p IS NULL OR x IS NULL OR p = 0 THEN NULL
    WHEN p > 0 THEN CASE
        WHEN p <= len(x) + 1 THEN list_concat(list_append(x[:p - 1], e), x[p:])
        ELSE list_append(list_resize(x, p - 1), e) END
    WHEN -p <= len(x) + 1 THEN list_concat(list_append(x[:len(x) + p + 1], e), x[len(x) + p + 2:])
    ELSE list_prepend(e, list_concat(list_resize(x[1:0], -p - 1 - len(x)), x)) END"""
_SLICE = """CASE
    WHEN s = 0 OR n < 0 THEN NULL
    WHEN s > 0 THEN x[s:s + n - 1]
    WHEN -s > len(x) THEN x[1:0]
    ELSE x[len(x) + s + 1:len(x) + s + n] END"""
_SPLIT = """list_transform([{'parts': string_split_regex(x, p), 'gaps': regexp_extract_all(x, p)}], lambda v: CASE
    WHEN v.parts IS NULL THEN NULL
    WHEN len(v.parts) <= n THEN v.parts
    ELSE list_append(v.parts[1:n - 1], array_to_string(list_transform(range(n, len(v.parts) + 1), lambda i:
        v.parts[i] || CASE WHEN i < len(v.parts) THEN v.gaps[i] ELSE '' END), '')) END)[1]"""
_STR_TO_MAP = """TRY(map_from_entries(list_transform(string_split(x, d), lambda e: {
    'key': CASE WHEN strpos(e, kv) > 0 THEN left(e, strpos(e, kv) - 1) ELSE e END,
    'value': CASE WHEN strpos(e, kv) > 0 THEN substring(e, strpos(e, kv) + length(kv)) END})))"""
_HYPOT = """CASE
    WHEN a IS NULL OR b IS NULL THEN NULL
    WHEN isinf(a) OR isinf(b) THEN CAST('inf' AS DOUBLE)
    WHEN isnan(a) OR isnan(b) THEN CAST('nan' AS DOUBLE)
    WHEN a = 0 AND b = 0 THEN 0.0::DOUBLE
    ELSE greatest(abs(a), abs(b)) * sqrt(1 + pow(least(abs(a), abs(b)) / greatest(abs(a), abs(b)), 2)) END"""

MACROS: dict[str, str] = {
    "millstream_floor_div(a, n)": "((a - ((a % n) + n) % n) // n)",
    "millstream_half_up_div(a, n)": "(CASE WHEN (a < 0) = (n < 0) THEN 1 ELSE -1 END"
    " * ((2 * abs(CAST(a AS HUGEINT)) + abs(CAST(n AS HUGEINT))) // nullif(2 * abs(CAST(n AS HUGEINT)), 0)))",
    "millstream_months_apart(a, b)": _MONTHS_APART,
    "millstream_base64(x)": "rtrim(regexp_replace(to_base64(x), '(.{76})', '\\1' || chr(13) || chr(10), 'g'), chr(13) || chr(10))",
    "millstream_join(x, d)": "CASE WHEN len(x) = 0 THEN '' ELSE list_reduce(x, lambda a, b: a || d || b) END",
    "millstream_hypot(a, b)": _HYPOT,
    "millstream_width_bucket(x, lo, hi, n)": _WIDTH_BUCKET,
    "millstream_bit_get(x, p)": "CASE WHEN p BETWEEN 0 AND 63 THEN CAST((CAST(x AS BIGINT) >> p) & 1 AS TINYINT) END",
    "millstream_initcap(x)": "array_to_string(list_transform(string_split(lower(x), ' '),"
    " lambda w: CASE w[1] WHEN 'ß' THEN 'Ss' ELSE upper(w[1]) END || w[2:]), ' ')",
    "millstream_overlay(x, r, p, n)": "(left(x, greatest(p - 1, 0)) || r || substring(x, CASE WHEN p + n = 0 THEN 1 ELSE p + n END))",
    "millstream_substring_index(x, d, n)": _SUBSTRING_INDEX,
    "millstream_quote(x)": _QUOTE,
    "millstream_url_encode(x)": "replace(replace(replace(url_encode(x), '%20', '+'), '%2A', '*'), '~', '%7E')",
    "millstream_url_decode(x)": "CASE WHEN regexp_full_match(x, '(?s)(?:[^%]|%[0-9A-Fa-f]{2})*')"
    " THEN TRY(url_decode(replace(x, '+', ' '))) END",
    "millstream_crc32(x)": _crc32(),
    "millstream_months_exact(a, b)": _MONTHS_EXACT,
    "millstream_months_between(a, b, rounded)": _MONTHS_BETWEEN,
    "millstream_array_distinct(x)": f"list_transform([x], lambda v: {_DISTINCT})[1]",
    "millstream_array_except(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE millstream_array_distinct(list_filter(a, lambda g:"
    " CASE WHEN g IS NULL THEN list_count(b) = len(b) ELSE NOT list_contains(b, g) END)) END",
    "millstream_array_intersect(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE millstream_array_distinct(list_filter(a, lambda g:"
    " CASE WHEN g IS NULL THEN list_count(b) < len(b) ELSE list_contains(b, g) END)) END",
    "millstream_array_union(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE millstream_array_distinct(list_concat(a, b)) END",
    "millstream_array_insert(x, p, e)": _ARRAY_INSERT,
    "millstream_slice(x, s, n)": _SLICE,
    "millstream_sequence(a, b, s)": "CASE WHEN a = b THEN [a]"
    " WHEN (b > a AND s > 0) OR (b < a AND s < 0) THEN TRY(generate_series(a, b, s)) END",
    "millstream_split(x, p, n)": _SPLIT,
    "millstream_str_to_map(x, d, kv)": _STR_TO_MAP,
    "millstream_double_to_string(x)": _bound("x", _floating_text()),
    "millstream_float_to_string(x)": _bound("x", _floating_text()),
    "millstream_to_double(x)": _to_floating("DOUBLE"),
    "millstream_to_float(x)": _to_floating("FLOAT"),
    "millstream_to_date(x)": _to_date(),
    "millstream_to_timestamp(x)": _to_timestamp(zoned=True),
    "millstream_to_timestamp_ntz(x)": _to_timestamp(zoned=False),
}


_STATEMENTS = {head.split("(")[0]: f"CREATE TEMP MACRO {head} AS {body}" for head, body in (MACROS | DECIMAL_MACROS).items()}
_NAME = re.compile(r"\bmillstream_\w+")


def macros_in(sql: str) -> dict[str, str]:
    """The macros that `sql` needs, by name: the statements that define them, those that others build on first."""
    found: dict[str, str] = {}
    for name in _NAME.findall(sql):
        if name in _STATEMENTS and name not in found:
            found |= macros_in(_STATEMENTS[name].partition(" AS ")[2])
            found[name] = _STATEMENTS[name]
    return found
