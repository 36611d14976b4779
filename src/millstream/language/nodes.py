"""What CQL adds to SQL's syntax tree: windows behind a table, and ISTREAM/DSTREAM/RSTREAM around the select list.

FROM trades [RANGE 5 MINUTES] AS t      exp.Table(..., stream_window=StreamWindow(kind="range", ...))
FROM trades AS OF NOW                   exp.Table(..., as_of=AsOf())
FROM (SELECT ...) [NOW] AS t            exp.Subquery(..., stream_window=StreamWindow(kind="now"))
SELECT ISTREAM(DISTINCT a AS x, b)      exp.Select(expressions=[a AS x, b], distinct=..., to_stream="istream")

The binder adds one: a call of a function with OVER, its window written out.
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


class AsOf(exp.Expression):
    """An instant behind a table; without one, NOW: as far as what it names is final."""

    arg_types = {"instant": False}


class OverFunction(exp.Expression):
    """function(expressions) OVER (PARTITION BY partition_by ORDER BY order spec).

    this        the function's name, as written; not a call in the tree, for sum(x) OVER (...) is no aggregate of the query
    directions  for each item of `order` whether it is descending and whether NULLs come first
    spec        the frame as exp.WindowSpec, if there is one
    condition   that of FILTER
    nulls       IGNORE or RESPECT, if that is said
    """

    arg_types = {
        "this": True, "expressions": False, "partition_by": False, "order": False, "directions": False, "spec": False, "condition": False,
        "nulls": False,
    }  # fmt: skip
