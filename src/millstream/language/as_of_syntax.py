"""`name AS OF TIMESTAMP '...'` and `name AS OF NOW` in FROM: what something held at an instant, for questions that are answered once."""

from __future__ import annotations

from millstream.language.cursor import Cursor
from millstream.language.durations import parse_timestamp
from millstream.language.nodes import AsOf
from millstream.language.spans import mark


def parse_as_of(cursor: Cursor) -> AsOf | None:
    """None if none stands here; a table may also be called OF."""
    if not (cursor.at("AS OF TIMESTAMP") or cursor.at("AS OF NOW")):
        return None
    start = cursor.span
    cursor.accept("AS OF")
    as_of = AsOf() if cursor.accept("NOW") else AsOf(instant=parse_timestamp(cursor))
    span = cursor.since(start)
    mark(as_of, span.start, span.end)
    return as_of
