"""Joins that are not plain SQL's: as-of joins as Spark writes them, and zipper joins.

[INNER | LEFT [OUTER]] ASOF JOIN b MATCH_CONDITION (a.x >= b.y) [ON ... | USING (...)]     also ASOF LEFT JOIN
ZIPPER JOIN b WITHIN 5 SECONDS [ON ... | USING (...)]

Both become an `exp.Join` with its `method`; a zipper join has `within_us` besides.
"""

from __future__ import annotations

from sqlglot import exp

from millstream.core.errors import ParseError
from millstream.language.cursor import Cursor
from millstream.language.durations import parse_duration
from millstream.language.spans import mark, span_of

_SIDES = {"": None, "INNER": None} | {f"{side}{outer}": side for side in ("LEFT", "RIGHT", "FULL") for outer in ("", " OUTER")}
_ASOF = {f"{side} ASOF JOIN".strip(): key for side, key in _SIDES.items()} | {
    f"ASOF {side} JOIN": key for side, key in _SIDES.items() if side
}
_MATCHES = (exp.GTE, exp.GT, exp.LTE, exp.LT)


def parse_timed_join(cursor: Cursor) -> exp.Join | None:
    """None, and nothing read, if neither of them stands here."""
    start = cursor.span
    if cursor.accept("ZIPPER JOIN"):
        join = exp.Join(this=_table(cursor), method="ZIPPER")
        cursor.expect("WITHIN", hint="Say how far apart in time two rows may be: WITHIN 5 SECONDS.")
        join.set("within_us", parse_duration(cursor, "WITHIN"))
    else:
        phrase = next((phrase for phrase in _ASOF if cursor.accept(phrase)), None)
        if phrase is None:
            return None
        join = exp.Join(this=_table(cursor), method="ASOF", side=_ASOF[phrase])
        join.set("match_condition", _match_condition(cursor))
    _read_condition(cursor, join)
    span = cursor.since(start)
    mark(join, span.start, span.end)
    return join


def opens_timed_clause(cursor: Cursor) -> bool:
    """The word that stands here opens a clause of these joins: it is no alias."""
    if cursor.at("WITHIN"):
        following = cursor.parser._next.text[:1]
        return following.isdecimal() or following == "-"  # which is refused, as a length of time
    return cursor.at("ZIPPER JOIN") or cursor.at("MATCH_CONDITION (")


def _table(cursor: Cursor) -> exp.Expr:
    table = cursor.parser._parse_table()
    if table is None:
        cursor.unexpected("a stream, a relation or a query")
    return table


def _match_condition(cursor: Cursor) -> exp.Expr:
    cursor.expect("MATCH_CONDITION", hint="An as-of join says what is near: MATCH_CONDITION (a.ts >= b.ts).")
    cursor.expect("(")
    start = cursor.span
    condition = cursor.parser._parse_disjunction()
    if not isinstance(condition, _MATCHES):
        place = span_of(condition) or start
        hint = "Equal keys belong in ON." if isinstance(condition, exp.EQ | exp.And) else None
        raise ParseError("MATCH_CONDITION takes one comparison with >=, >, <= or <", hint=hint, span=place, sql=cursor.sql)
    cursor.expect(")")
    return condition


def _read_condition(cursor: Cursor, join: exp.Join) -> None:
    if cursor.accept("ON"):
        condition = cursor.parser._parse_disjunction()
        if condition is None:
            cursor.unexpected("a condition")
        join.set("on", condition)
    elif cursor.accept("USING"):
        join.set("using", cursor.parser._parse_using_identifiers())
