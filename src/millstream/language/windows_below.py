"""The window below filters and projections of a stream: taken away, or exchanged for another."""

from __future__ import annotations

from dataclasses import replace

from millstream.plan.logical import Filter, Plan, Project, Union, Window
from millstream.plan.window import WindowSpec


def stream_of(plan: Plan) -> Plan:
    """The rows as they arrive, filtered and projected: a window that counts rows counts these."""
    match plan:
        case Window(input=stream):
            return stream
        case Filter() | Project():
            return replace(plan, input=stream_of(plan.input))
    raise AssertionError(f"{type(plan).__name__} does not commute with a window")


def with_window(plan: Plan, spec: WindowSpec) -> Plan:
    """The same rows in another window: a window that goes by time commutes with filters and projections."""
    match plan:
        case Window(input=stream):
            return Window(stream, spec)
        case Filter() | Project():
            return replace(plan, input=with_window(plan.input, spec))
        case Union():
            return Union(tuple(with_window(child, spec) for child in plan.inputs))
    raise AssertionError(f"{type(plan).__name__} does not commute with a window")
