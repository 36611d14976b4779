"""The window below filters and projections of a stream: taken away, or exchanged for another above them."""

from __future__ import annotations

from dataclasses import replace

from millstream.plan.logical import Filter, Plan, Project, Union, Window
from millstream.plan.window import WindowSpec


def streams_below(plan: Plan) -> list[Plan]:
    """The rows as they arrive, filtered and projected, of each stream: a window over the plan holds these, and counts these."""
    match plan:
        case Window(input=stream):
            return [stream]
        case Filter() | Project():
            return [replace(plan, input=stream) for stream in streams_below(plan.input)]
        case Union():
            return [stream for child in plan.inputs for stream in streams_below(child)]
    raise AssertionError(f"{type(plan).__name__} does not commute with a window")


def with_window(plan: Plan, spec: WindowSpec) -> Plan:
    """The same rows in another window."""
    windows = tuple(Window(stream, spec) for stream in streams_below(plan))
    return windows[0] if len(windows) == 1 else Union(windows)
