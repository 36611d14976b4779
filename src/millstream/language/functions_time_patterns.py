"""Date and time patterns such as `yyyy-MM-dd HH:mm:ss`, for printing and for reading.

A pattern is Java's: letters are fields, their number is the width, text in quotes stands for itself.  Printing
becomes a call of DuckDB's strftime; reading becomes a regular expression with one group per field, because
strptime accepts what Spark refuses (`2024-1-5` for `yyyy-MM-dd`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.plan.duckdb_sql import in_template, text

_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_FULL_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"

_PRINTED = {
    "yyyy": "%Y", "yy": "%y", "MM": "%m", "M": "%-m", "MMM": "%b", "MMMM": "%B", "LL": "%m", "L": "%-m",
    "LLL": "%b", "LLLL": "%B",
    "dd": "%d", "d": "%-d", "DDD": "%j", "D": "%-j", "E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "HH": "%H", "H": "%-H", "hh": "%I",
    "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S", "a": "%p", "Z": "+0000", "ZZ": "+0000", "ZZZ": "+0000", "X": "Z", "XX": "Z",
    "XXX": "Z", "x": "+00", "xx": "+0000", "xxx": "+00:00", "z": "UTC", "zz": "UTC", "zzz": "UTC", "VV": "UTC",
}  # fmt: skip
_ONE_OR_TWO, _TWO = r"\d{1,2}", r"\d{2}"
_READ = {
    "yyyy": ("year", r"\d{4}"), "y": ("year", r"\d{1,6}"), "yy": ("short_year", _TWO), "MM": ("month", _TWO), "M": ("month", _ONE_OR_TWO),
    "MMM": ("month_name", _MONTHS), "MMMM": ("month_name", _FULL_MONTHS), "dd": ("day", _TWO), "d": ("day", _ONE_OR_TWO),
    "HH": ("hour", _TWO), "H": ("hour", _ONE_OR_TWO), "hh": ("half_day_hour", _TWO), "h": ("half_day_hour", _ONE_OR_TWO),
    "mm": ("minute", _TWO), "m": ("minute", _ONE_OR_TWO), "ss": ("second", _TWO), "s": ("second", _ONE_OR_TWO), "a": ("half", "AM|PM"),
    "X": ("zone", r"Z|[+-]\d{2}(?:\d{2})?"), "XX": ("zone", r"Z|[+-]\d{4}"), "XXX": ("zone", r"Z|[+-]\d{2}:\d{2}"),
    "Z": ("zone", r"[+-]\d{4}"), "x": ("zone", r"[+-]\d{2}(?:\d{2})?"), "xx": ("zone", r"[+-]\d{4}"), "xxx": ("zone", r"[+-]\d{2}:\d{2}"),
}  # fmt: skip


@dataclass(frozen=True)
class _Piece:
    value: str
    is_field: bool


def _pieces(pattern: str) -> list[_Piece]:
    """The pattern cut into fields and literal text."""
    found, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if char == "'":
            end, literal = _quoted(pattern, i)
            found.append(_Piece(literal, is_field=False))
            i = end
        elif char.isascii() and char.isalpha():
            end = i
            while end < len(pattern) and pattern[end] == char:
                end += 1
            found.append(_Piece(pattern[i:end], is_field=True))
            i = end
        elif char in "[]{}#":
            raise NotSupported(f"the pattern '{pattern}' has optional parts, which are not supported")
        else:
            found.append(_Piece(char, is_field=False))
            i += 1
    return found


def _quoted(pattern: str, start: int) -> tuple[int, str]:
    """Text in quotes; two quotes are one."""
    if pattern.startswith("''", start):
        return start + 2, "'"
    end, literal = start + 1, ""
    while end < len(pattern):
        if pattern.startswith("''", end):
            literal += "'"
            end += 2
        elif pattern[end] == "'":
            return end + 1, literal
        else:
            literal += pattern[end]
            end += 1
    raise TypeMismatch(f"the pattern {pattern} has a quote that does not end")


def printed(pattern: str, moment: str) -> str:
    """SQL for `moment` (a timestamp) in the pattern, as a template."""
    parts: list[str] = []
    plain = ""
    for piece in _pieces(pattern):
        if not piece.is_field:
            plain += piece.value.replace("%", "%%")
        elif piece.value in _PRINTED:
            plain += _PRINTED[piece.value]
        else:
            parts += [_strftime(plain, moment)] if plain else []
            parts.append(_computed(piece.value, pattern, moment))
            plain = ""
    if plain or not parts:
        parts.append(_strftime(plain, moment))
    return "(" + " || ".join(parts) + ")" if len(parts) > 1 else parts[0]


def _strftime(format_: str, moment: str) -> str:
    return f"strftime({moment}, {in_template(text(format_))})"


def _computed(field: str, pattern: str, moment: str) -> str:
    letter, width = field[0], len(field)
    if letter == "S" and width <= 9:
        digits = f"left(strftime({moment}, '%f'), {min(width, 6)})"
        return digits if width <= 6 else f"({digits} || '{'0' * (width - 6)}')"
    if field == "y":
        return f"CAST(year({moment}) AS VARCHAR)"
    if letter in "Qq" and width <= 3:
        prefix = {1: "", 2: "0", 3: "Q"}[width]
        return f"('{prefix}' || CAST(quarter({moment}) AS VARCHAR))"
    raise NotSupported(f"the field '{field}' of the pattern '{pattern}' is not supported")


def read(pattern: str, value: str) -> str:
    """SQL that reads the string `value` in the pattern and gives a TIMESTAMP, or NULL; a template."""
    regex, fields = _regex(pattern)
    names = ", ".join(f"'{name}'" for name in fields)
    parts = f"regexp_extract({value}, {in_template(text(regex))}, [{names}])"
    return f"list_transform([{parts}], lambda v: {_assembled(fields)})[1]"


def _regex(pattern: str) -> tuple[str, list[str]]:
    regex, fields = "(?i)^", []
    for piece in _pieces(pattern):
        if not piece.is_field:
            regex += re.escape(piece.value)
            continue
        if set(piece.value) == {"S"} and len(piece.value) <= 9:
            name, expression = "fraction", rf"\d{{{len(piece.value)}}}"
        elif piece.value in _READ:
            name, expression = _READ[piece.value]
        else:
            raise NotSupported(f"the field '{piece.value}' of the pattern '{pattern}' is not supported")
        if name in fields:
            raise NotSupported(f"the pattern '{pattern}' has a field twice")
        fields.append(name)
        regex += f"({expression})"
    if not fields:
        raise TypeMismatch(f"the pattern '{pattern}' has no fields")
    return regex + "$", fields


def _assembled(fields: list[str]) -> str:
    """The timestamp made of the groups in v."""
    year = _number("year") if "year" in fields else f"(2000 + {_number('short_year')})" if "short_year" in fields else "1970"
    month = _number("month") if "month" in fields else _month_number() if "month_name" in fields else "1"
    day = _number("day") if "day" in fields else "1"
    hour = _hour(fields)
    finer = [(name, us) for name, us in (("minute", 60_000_000), ("second", 1_000_000)) if name in fields]
    clock = " + ".join([f"{hour} * 3600000000", *(f"{_number(name)} * {us}" for name, us in finer)])
    clock += " + TRY_CAST(rpad(left(v.fraction, 6), 6, '0') AS BIGINT)" if "fraction" in fields else ""
    checks = [f"v.{fields[0]} <> ''", f"{hour} BETWEEN 0 AND 23", *(f"{_number(name)} < 60" for name, _ in finer)]
    checks += [f"{_number('half_day_hour')} BETWEEN 1 AND 12"] if "half_day_hour" in fields else []
    zone = _zone() if "zone" in fields else ""
    moment = f"epoch_us(CAST(TRY(make_date({year}, {month}, {day})) AS TIMESTAMP)) + {clock}{zone}"
    return f"CASE WHEN {' AND '.join(checks)} THEN TRY(make_timestamp({moment})) END"


def _number(name: str) -> str:
    return f"TRY_CAST(v.{name} AS BIGINT)"


def _hour(fields: list[str]) -> str:
    if "hour" in fields:
        return _number("hour")
    if "half_day_hour" not in fields:
        return "0"
    afternoon = " + CASE WHEN upper(v.half) = 'PM' THEN 12 ELSE 0 END" if "half" in fields else ""
    return f"({_number('half_day_hour')} % 12{afternoon})"


def _month_number() -> str:
    return "((strpos('janfebmaraprmayjunjulaugsepoctnovdec', lower(left(v.month_name, 3))) + 2) // 3)"


def _zone() -> str:
    hours, minutes = "TRY_CAST(v.zone[2:3] AS BIGINT)", "coalesce(TRY_CAST(replace(v.zone, ':', '')[4:5] AS BIGINT), 0)"
    offset = f"CASE WHEN v.zone[1] = '-' THEN -1 ELSE 1 END * ({hours} * 60 + {minutes}) * 60000000"
    return f" - (CASE WHEN upper(v.zone) = 'Z' THEN 0 ELSE {offset} END)"
