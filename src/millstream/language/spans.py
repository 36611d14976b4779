"""Where a node of the syntax tree stands in the statement's text.

sqlglot keeps the position of a token on identifiers, literals and function names only.  Our parser
adds what an error wants to underline: `mark` notes the first and the last character of whatever one
grammar rule has read, and `span_of` reads it back, or falls back on the children.  Marks live in
`node.meta`, so they survive copies and do not take part in equality.
"""

from __future__ import annotations

from sqlglot import exp

from millstream.core.errors import Span

_KEY = "span"


def mark(node: exp.Expr, start: int, end: int) -> None:
    """`node` was read from the characters [start, end).  The first mark wins: it is the tightest."""
    node.meta.setdefault(_KEY, (start, end))


def span_of(node: exp.Expr | None) -> Span | None:
    """The smallest span that covers everything inside `node` whose place is known; None if nothing is."""
    if node is None:
        return None
    found: list[tuple[int, int]] = []
    pending = [node]
    while pending:
        current = pending.pop()
        place = current.meta.get(_KEY)
        if place is not None:
            found.append(place)
            continue
        if (start := current.meta.get("start")) is not None:
            found.append((start, current.meta["end"] + 1))
        pending.extend(current.iter_expressions())
    if not found:
        return None
    return Span(min(start for start, _ in found), max(end for _, end in found))


def cover(*spans: Span | None) -> Span | None:
    """The smallest span around all of these."""
    known = [span for span in spans if span is not None]
    if not known:
        return None
    return Span(min(span.start for span in known), max(span.end for span in known))
