"""LIMIT and its other spelling, FETCH FIRST n ROWS ONLY, as one: a number of rows.

sqlglot reads more than that (percents, ties, LIMIT ... BY) and keeps it where nobody looks; here it is refused.
"""

from __future__ import annotations

from sqlglot import exp

from millstream.core.errors import NotSupported, Span
from millstream.language.cursor import Cursor
from millstream.language.spans import mark


def parse_fetch(cursor: Cursor) -> exp.Limit | None:
    """FETCH {FIRST | NEXT} [n] {ROW | ROWS} ONLY, if it stands here."""
    start = cursor.span
    if not cursor.accept("FETCH"):
        return None
    if not cursor.accept("FIRST"):
        cursor.expect("NEXT")
    written = cursor.span
    digits = cursor.number() or "1"
    _refuse_percent(cursor, start, f"LIMIT {digits}")
    if not cursor.accept("ROW"):
        cursor.expect("ROWS")
    if not cursor.accept("ONLY"):
        _refuse_ties(cursor, start)
        cursor.unexpected("ONLY")
    count = exp.Literal.number(digits)
    mark(count, written.start, written.end)
    return exp.Limit(expression=count)


def refuse_limit_options(cursor: Cursor, start: Span) -> None:
    """Behind the number of LIMIT."""
    _refuse_percent(cursor, start, "LIMIT 10")
    _refuse_ties(cursor, start)


def _refuse_percent(cursor: Cursor, start: Span, instead: str) -> None:
    if cursor.accept("PERCENT") or cursor.accept("%"):
        hint = f"Say how many rows, as in {instead}, or keep those whose percent_rank() OVER (ORDER BY ...) is small."
        raise NotSupported("a percentage of the rows is not supported", hint=hint, span=cursor.since(start), sql=cursor.sql)


def _refuse_ties(cursor: Cursor, start: Span) -> None:
    if cursor.accept("WITH TIES"):
        hint = "Select rank() OVER (ORDER BY ...) AS n in a subquery, and the rows with n <= 3 from that."
        raise NotSupported("WITH TIES is not supported", hint=hint, span=cursor.since(start), sql=cursor.sql)
