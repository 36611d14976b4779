"""From which instant on a new query's windows hold all that they should, where the log does not reach back far enough.

rows dropped by retention │ whole_from ──── created ────────── complete_from
                [ a window of this length holds less than it should until ... ]
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.core.instant import LAST, NEVER_BEFORE, Micros
from millstream.plan.physical import Exec, PhysicalPlan, ReceiveExec, SourceExec, WindowExec, inputs
from millstream.plan.window import RowsWindow
from millstream.runtime.tick import InputLog

Reach = tuple[Micros | None, int]
"""How far back in time windows look, None for ever, and how many rows, if they are by count alone."""


def complete_from(plan: PhysicalPlan, logs: Mapping[str, InputLog], partial_to: Mapping[str, Micros], created_at: Micros) -> Micros:
    """NEVER_BEFORE: nothing is missing.  LAST: nobody can say, something may be missing for ever.

    `partial_to` says of queries among its inputs until when they are incomplete themselves.
    """
    known = [
        max(_complete_from(logs[name], logs[name].whole_from, reach, created_at), _later(partial_to.get(name, NEVER_BEFORE), reach))
        for name, reaches in _reaches(plan).items()
        for reach in reaches
    ]
    latest = max(known, default=NEVER_BEFORE)
    return latest if latest > created_at else NEVER_BEFORE


def _complete_from(log: InputLog, whole_from: Micros, reach: Reach, created_at: Micros) -> Micros:
    time, rows = reach
    if whole_from == NEVER_BEFORE or time == 0:
        return NEVER_BEFORE
    if time is not None:
        return whole_from + time
    there = sum(chunk.rows for chunk in log.chunks_after(whole_from - 1) if whole_from <= chunk.min_ts and chunk.max_ts <= created_at)
    return NEVER_BEFORE if 0 < rows <= there else LAST


def _later(partial_to: Micros, reach: Reach) -> Micros:
    if partial_to in (NEVER_BEFORE, LAST):
        return partial_to
    return LAST if reach[0] is None else partial_to + reach[0]


def _reaches(plan: PhysicalPlan) -> dict[str, set[Reach]]:
    """By input: of each way from the answer to it, how far its windows look back together."""
    found: dict[str, set[Reach]] = {}

    def walk(node: Exec, reach: Reach) -> None:
        if isinstance(node, SourceExec):
            found.setdefault(node.name, set()).add((0, 0) if node.retracts else reach)
        elif isinstance(node, ReceiveExec):
            walk(plan.fragments[node.fragment].root, reach)
        for below in inputs(node):
            walk(below, _further(reach, node) if isinstance(node, WindowExec) else reach)

    walk(plan.fragments[-1].root, (0, 0))
    return found


def _further(reach: Reach, node: WindowExec) -> Reach:
    time, rows = reach
    own = node.spec.history_us
    if isinstance(node.spec, RowsWindow) and own is None:
        return None, node.spec.rows if reach == (0, 0) and not node.spec.partition_by else 0
    return None if time is None or own is None else time + own, rows
