"""Regular expressions.  Spark's are Java's, DuckDB's are RE2's: what RE2 cannot read, or reads differently, is refused.

Patterns are string literals as a rule, so they are checked while binding; a pattern that comes from a column and
does not compile gives NULL.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

import duckdb
import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.language.coercion import BOOLEAN, INT, STRING, VOID, is_atomic
from millstream.language.functions import Call, Function, Param, coerced, custom
from millstream.language.scalar_literals import constant_text, integer, string, whole_number
from millstream.plan.expression import Expr

_TEXT = Param("STRING", lambda found: STRING if is_atomic(found) or found == VOID else None)
_INT = Param("INT", lambda found: INT if found in (INT, VOID, pa.int8(), pa.int16(), pa.int64(), STRING) else None)
_DIFFERENT = re.compile(r"&&|\\[hHRXGZ]|\(\?<[=!]|\(\?[=!>]|[*+?}]\+|\\[1-9]|\\p\{(?:javaLower|javaUpper|Is|In)")


@cache
def _reader() -> duckdb.DuckDBPyConnection:
    """A DuckDB that is only asked whether it can read a pattern."""
    return duckdb.connect(":memory:", config={"threads": 1})


@lru_cache(maxsize=1024)
def groups_of(pattern: str) -> int | None:
    """The number of groups of a pattern that RE2 can read; None if it cannot."""
    try:
        _reader().execute("SELECT regexp_matches('', $1)", [pattern]).fetchall()
    except duckdb.Error:
        return None
    return len(re.findall(r"(?<!\\)(?:\\\\)*\((?!\?)|\(\?P?<[a-zA-Z]", re.sub(r"\[(?:\\.|[^\]\\])*\]", "", pattern)))


def checked_pattern(name: str, pattern: Expr) -> int | None:
    """Refuses a literal pattern that would not mean the same; gives its number of groups, None if it is no literal."""
    value = constant_text(pattern)
    if value is None:
        return None
    hint = "Look-around, back references, possessive quantifiers and class intersections are not available."
    groups = None if _DIFFERENT.search(value) else groups_of(value)
    if groups is None:
        raise NotSupported(f"{name}: the pattern '{value}' is not supported", hint=hint)
    return groups


def _typed(call: Call) -> tuple[Call, int | None]:
    """The call with text and pattern as strings, and the number of groups of the pattern."""
    typed = call.with_args([coerced(call, 0, _TEXT), coerced(call, 1, _TEXT), *call.args[2:]])
    return typed, checked_pattern(call.name, typed.args[1])


def _like(call: Call) -> Expr:
    typed, groups = _typed(call)
    found = "regexp_matches({0}, {1})"
    return typed.gives(BOOLEAN, found if groups is not None else f"TRY({found})")


def _index(call: Call, groups: int | None, default: int) -> tuple[Call, str]:
    """The group's number: checked if it can be, and as SQL."""
    position = call.args[2] if len(call.args) > 2 else integer(default)
    index = whole_number(position)
    if index is None or groups is None:
        raise NotSupported(f"{call.name}: the pattern and the group must be written in the query")
    if not 0 <= index <= groups:
        raise call.refuse(f"the pattern has {groups} groups, there is no group {index}")
    return call.with_args([*call.args[:2], position]), str(index)


def _extract(call: Call) -> Expr:
    typed, groups = _typed(call)
    typed, index = _index(typed, groups, 1)
    return typed.gives(STRING, f"regexp_extract({{0}}, {{1}}, {index})")


def _extract_all(call: Call) -> Expr:
    typed, groups = _typed(call)
    typed, index = _index(typed, groups, 1)
    return typed.gives(pa.list_(STRING), f"regexp_extract_all({{0}}, {{1}}, {index})")


def _count(call: Call) -> Expr:
    typed, groups = _typed(call)
    found = "CAST(length(regexp_extract_all({0}, {1})) AS INTEGER)"
    return typed.gives(INT, found if groups is not None else f"TRY({found})")


def _substr(call: Call) -> Expr:
    typed, groups = _typed(call)
    if groups is None:
        return typed.gives(STRING, "CASE WHEN TRY(regexp_matches({0}, {1})) THEN TRY(regexp_extract({0}, {1})) END")
    return typed.gives(STRING, "CASE WHEN regexp_matches({0}, {1}) THEN regexp_extract({0}, {1}) END")


def _instr(call: Call) -> Expr:
    typed, groups = _typed(call)
    typed = typed.with_args(typed.args[:2])
    # what stands before the first match, and one more
    found = "CASE WHEN regexp_matches({0}, {1}) THEN CAST(strpos({0}, regexp_extract({0}, {1})) AS INTEGER) WHEN {0} IS NOT NULL THEN 0 END"
    if groups is None:
        raise NotSupported("regexp_instr: the pattern must be written in the query")
    return typed.gives(INT, found)


def _replacement(written: str) -> str:
    """Java's replacement ($1, \\$) as RE2's (\\1)."""
    result, i = "", 0
    while i < len(written):
        char = written[i]
        if char == "\\" and i + 1 < len(written):
            result += written[i + 1] if written[i + 1] != "\\" else "\\\\"
            i += 2
        elif char == "$":
            if i + 1 >= len(written) or not written[i + 1].isdigit():
                raise NotSupported("regexp_replace: $ in a replacement is followed by the number of a group")
            result += "\\" + written[i + 1]
            i += 2
        else:
            result += char
            i += 1
    return result


def _replace(call: Call) -> Expr:
    typed, groups = _typed(call)
    replacement = constant_text(coerced(call, 2, _TEXT))
    if groups is None or replacement is None:
        raise NotSupported("regexp_replace: the pattern and the replacement must be written in the query")
    if len(call.args) > 3 and whole_number(call.args[3]) != 1:
        raise NotSupported("regexp_replace from a position is not supported")
    typed = typed.with_args([*typed.args[:2], string(_replacement(replacement))])
    return typed.gives(STRING, "regexp_replace({0}, {1}, {2}, 'g')")


def _split(call: Call) -> Expr:
    typed, groups = _typed(call)
    if groups is None:
        raise NotSupported("split: the pattern must be written in the query")
    if len(call.args) > 2:
        limit = whole_number(call.args[2])
        if limit is None:
            raise NotSupported("split: the limit must be written in the query")
        if limit > 0:
            return typed.gives(pa.list_(STRING), f"millstream_split({{0}}, {{1}}, {limit})")
    return typed.gives(pa.list_(STRING), "string_split_regex({0}, {1})")


FUNCTIONS: tuple[Function, ...] = (
    custom("rlike", "regexp", "regexp_like", least=2, most=2, bind=_like),
    custom("regexp_extract", least=2, most=3, bind=_extract),
    custom("regexp_extract_all", least=2, most=3, bind=_extract_all),
    custom("regexp_count", least=2, most=2, bind=_count),
    custom("regexp_substr", least=2, most=2, bind=_substr),
    custom("regexp_instr", least=2, most=2, bind=_instr),
    custom("regexp_replace", least=3, most=4, bind=_replace),
    custom("split", least=2, most=3, bind=_split),
)
