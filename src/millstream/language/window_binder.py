"""The brackets behind a stream, as the window of the plan."""

from __future__ import annotations

from millstream.core.instant import Micros
from millstream.language.dialect import Cql
from millstream.language.nodes import StreamWindow, WindowEdge
from millstream.language.scope import Scope
from millstream.plan.window import RowsWindow, TimeWindow, WindowSpec


def bind_window(window: StreamWindow, scope: Scope) -> WindowSpec:
    """`scope` is the stream's own, for PARTITION BY."""
    args = window.args
    match args["kind"]:
        case "now":
            return TimeWindow.now()
        case "unbounded":
            return TimeWindow.unbounded()
        case "between":
            return _between(window, args["begin"], args["end"])
        case "rows":
            partition_by = tuple(scope.bare(column).name for column in args.get("partition_by") or ())
            return RowsWindow(_text(window), args["rows"], partition_by, args.get("range_us"))
    slide_us: Micros | None = args.get("slide_us")
    if slide_us is not None:
        return TimeWindow.slide(args["range_us"], slide_us)
    return TimeWindow.range_(args["range_us"], exclusive=bool(args.get("exclusive")))


def _between(window: StreamWindow, begin: WindowEdge, end: WindowEdge) -> TimeWindow:
    """An end that moves with NOW says when rows enter or leave, a fixed one which rows ever count."""
    back_us: Micros | None = begin.args.get("back_us")
    return TimeWindow(
        _text(window),
        delay_us=end.args.get("back_us") or 0,
        length_us=back_us + 1 if back_us is not None else None,
        since=begin.args.get("instant"),
        until=end.args.get("instant"),
    )


def _text(window: StreamWindow) -> str:
    return window.sql(dialect=Cql)[1:-1]
