"""What CQL adds to SQL's syntax tree: windows behind a table, and ISTREAM/DSTREAM/RSTREAM around the select list.

FROM trades [RANGE 5 MINUTES] AS t      exp.Table(..., stream_window=StreamWindow(kind="range", ...))
FROM (SELECT ...) [NOW] AS t            exp.Subquery(..., stream_window=StreamWindow(kind="now"))
SELECT ISTREAM(DISTINCT a AS x, b)      exp.Select(expressions=[a AS x, b], distinct=..., to_stream="istream")
"""

from __future__ import annotations

from sqlglot import exp


class StreamWindow(exp.Expression):
    """A window in brackets.  Lengths are integers of microseconds, instants integers of microseconds since 1970.

    kind        range | rows | now | unbounded | between
    range_us    for range, and for rows with RANGE
    exclusive   True for RANGE ... EXCLUSIVE
    slide_us    for RANGE ... SLIDE
    rows        for rows
    partition_by  list of exp.Column, for rows
    begin, end  for between (BEGIN ... END ...): WindowEdge each
    """

    arg_types = {
        "kind": True, "range_us": False, "exclusive": False, "slide_us": False,
        "rows": False, "partition_by": False, "begin": False, "end": False,
    }  # fmt: skip


class WindowEdge(exp.Expression):
    """An end of a BEGIN/END window: a fixed instant, or `NOW - back_us` (back_us = 0: NOW itself)."""

    arg_types = {"instant": False, "back_us": False}
