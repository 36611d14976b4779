"""The greatest of all is the greatest of the greatest of each bucket: only those have to travel.

    SELECT a.g, max(b.v) FROM a [RANGE 5 MINUTES] JOIN b [RANGE 5 MINUTES] ON a.k = b.k GROUP BY a.g

    Aggregate by g: max(v)            Aggregate by g: max(top)
      Receive, by g                     Receive, by g
        Join, by k             =>         Aggregate by g: max(v) AS top, of each bucket
                                            Join, by k

Most pairs come and go without being the greatest of their group; without this each of them is sent, twice.  Counts change with every row,
so there is nothing to gain with them, but for the number of all groups of a query below: of these most only change.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.plan.logical import AggregateCall
from millstream.plan.physical import AggregateExec, Exec, FilterExec, PairExtremesExec, ProjectExec

_OVER_PARTS = {"min": "min", "max": "max", "count": "sum"}


def extremes_before_exchange(node: AggregateExec) -> tuple[AggregateCall, ...] | None:
    """The calls over what `node` finds in each bucket, where that gives the same; None if it does not fit."""
    fitting = {"min", "max"} | ({"count"} if not node.keys and _is_of_groups(node.input) else set())
    if not node.calls or not all(call.function in fitting for call in node.calls):
        return None
    if any(call.function == "count" and call.distinct for call in node.calls):
        return None
    return tuple(replace(call, function=_OVER_PARTS[call.function], argument=call.name, more=()) for call in node.calls)


def _is_of_groups(node: Exec) -> bool:
    while isinstance(node, FilterExec | ProjectExec):
        node = node.input
    return isinstance(node, AggregateExec | PairExtremesExec)
