"""The words between the brackets of a window.

RANGE w [EXCLUSIVE]      RANGE w SLIDE s      NOW      UNBOUNDED      RANGE UNBOUNDED      ROWS UNBOUNDED
ROWS n [RANGE w]         PARTITION BY a, b ROWS n [RANGE w]           BEGIN x END y

Builds `nodes.StreamWindow` and refuses what can never hold a row or makes no sense; what the window
means is `plan.window`'s business.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from millstream.core.errors import Span, WindowInvalid, did_you_mean
from millstream.language.cursor import Cursor
from millstream.language.durations import parse_duration, parse_timestamp
from millstream.language.nodes import StreamWindow, WindowEdge
from millstream.language.spans import mark

MOST_ROWS = 10**15
_OPENING_WORDS = ("RANGE", "ROWS", "NOW", "UNBOUNDED", "PARTITION BY", "BEGIN")
_FOLLOWING_WORDS = {"range": ("EXCLUSIVE", "SLIDE"), "rows": ("RANGE",)}


def parse_window(cursor: Cursor) -> StreamWindow:
    """From the opening bracket to the closing one."""
    start = cursor.expect("[")
    window = _contents(cursor)
    if cursor.at_end:
        cursor.unexpected('"]"', hint="A window ends with a closing bracket.")
    if not cursor.accept("]"):
        words = _FOLLOWING_WORDS.get(window.args["kind"], ())
        _invalid(cursor, f"unexpected {cursor.shown} in a window", did_you_mean(cursor.word, words))
    span = cursor.since(start)
    mark(window, span.start, span.end)
    return window


def parse_bounds(cursor: Cursor) -> StreamWindow:
    """`BEGIN x END y` without brackets, at the end of a statement."""
    start = cursor.expect("BEGIN")
    window = _between(cursor, start)
    if not cursor.at_end:
        _invalid(cursor, f"unexpected {cursor.shown} behind a window", "BEGIN ... END ... stands at the end.")
    span = cursor.since(start)
    mark(window, span.start, span.end)
    return window


def _contents(cursor: Cursor) -> StreamWindow:
    start = cursor.span
    if cursor.accept("NOW"):
        return StreamWindow(kind="now")
    if cursor.accept("UNBOUNDED"):
        return StreamWindow(kind="unbounded")
    if cursor.accept("RANGE"):
        return StreamWindow(kind="unbounded") if cursor.accept("UNBOUNDED") else _range(cursor, start)
    if cursor.accept("ROWS"):
        return StreamWindow(kind="unbounded") if cursor.accept("UNBOUNDED") else _rows(cursor, None)
    if cursor.accept("PARTITION BY"):
        columns = cursor.listed(lambda: _column(cursor))
        if not cursor.accept("ROWS"):
            _invalid(cursor, f"expected ROWS after PARTITION BY, found {cursor.shown}", "Write [PARTITION BY k ROWS n].")
        return _rows(cursor, columns)
    if not cursor.accept("BEGIN"):
        hint = did_you_mean(cursor.word, _OPENING_WORDS) or f"A window starts with {', '.join(_OPENING_WORDS)}."
        _invalid(cursor, f"no window starts with {cursor.shown}", hint)
    return _between(cursor, start)


def _range(cursor: Cursor, start: Span) -> StreamWindow:
    range_us = parse_duration(cursor, "RANGE", WindowInvalid)
    exclusive = cursor.accept("EXCLUSIVE")
    slide_us = None
    if cursor.accept("SLIDE"):
        slide_start = cursor.last_span
        slide_us = parse_duration(cursor, "SLIDE", WindowInvalid)
        if slide_us == 0:
            _invalid(cursor, "a window cannot slide by 0", "Leave SLIDE out for a window that moves with every instant.", slide_start)
        if exclusive or cursor.accept("EXCLUSIVE"):
            _invalid(cursor, "EXCLUSIVE and SLIDE do not go together", "A window with SLIDE leaves its newer end out already.", start)
    if range_us == 0 and (exclusive or slide_us is not None):
        hint = "Use [NOW] for the rows of this instant."
        _invalid(cursor, f"RANGE 0 {'EXCLUSIVE' if exclusive else 'with SLIDE'} never holds a row", hint, start)
    if range_us == 0:
        return StreamWindow(kind="now")
    return StreamWindow(kind="range", range_us=range_us, exclusive=exclusive or None, slide_us=slide_us)


def _rows(cursor: Cursor, partition_by: list[exp.Expr] | None) -> StreamWindow:
    start = cursor.span
    if cursor.at("-"):
        _invalid(cursor, "a window cannot hold a negative number of rows", None)
    digits = cursor.number()
    if digits is None or not digits.isdecimal():
        _invalid(cursor, "ROWS needs a whole number of rows", "Write [ROWS 10] or [ROWS UNBOUNDED].", start)
    if len(digits) > len(str(MOST_ROWS)) or int(digits) > MOST_ROWS:
        _invalid(cursor, "ROWS is too large", "Use [ROWS UNBOUNDED] to keep all rows.", start)
    if int(digits) == 0:
        _invalid(cursor, "a ROWS window cannot hold 0 rows", "Use a positive number of rows.", start)
    range_us = parse_duration(cursor, "RANGE", WindowInvalid) if cursor.accept("RANGE") else None
    return StreamWindow(kind="rows", rows=int(digits), partition_by=partition_by, range_us=range_us)


def _column(cursor: Cursor) -> exp.Expr:
    start = cursor.span
    column = cursor.parser._parse_column()
    if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier):
        _invalid(cursor, "PARTITION BY in a window takes column names", None, cursor.since(start) if column else start)
    return column


def _between(cursor: Cursor, start: Span) -> StreamWindow:
    begin = _edge(cursor)
    if not cursor.accept("END"):
        _invalid(cursor, f"expected END after BEGIN, found {cursor.shown}", "Write [BEGIN x END y].")
    end = _edge(cursor)
    for key in ("instant", "back_us"):
        first, last = begin.args.get(key), end.args.get(key)
        # going back further is earlier
        if first is not None and last is not None and (first > last if key == "instant" else first < last):
            _invalid(cursor, "the window ends before it begins", "Swap BEGIN and END.", cursor.since(start))
    return StreamWindow(kind="between", begin=begin, end=end)


def _edge(cursor: Cursor) -> WindowEdge:
    if cursor.at("TIMESTAMP"):
        return WindowEdge(instant=parse_timestamp(cursor, WindowInvalid))
    if not cursor.accept("NOW"):
        hint = "An end is TIMESTAMP '...', NOW, or NOW - a length of time."
        _invalid(cursor, f"expected an end of the window, found {cursor.shown}", did_you_mean(cursor.word, ("TIMESTAMP", "NOW")) or hint)
    if cursor.at("+"):
        _invalid(cursor, "a window cannot reach into the future", "Write NOW - a length of time.")
    return WindowEdge(back_us=parse_duration(cursor, "NOW -", WindowInvalid) if cursor.accept("-") else 0)


def _invalid(cursor: Cursor, message: str, hint: str | None, span: Span | None = None) -> NoReturn:
    raise WindowInvalid(message, hint=hint, span=span or cursor.span, sql=cursor.sql)
