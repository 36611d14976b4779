"""The greatest value of all pairs does not need the pairs.

    SELECT a.g, max(b.v) FROM a [RANGE 5 MINUTES] JOIN b [RANGE 5 MINUTES] ON a.k = b.k GROUP BY a.g

    Aggregate by g: max(v)                 Extremes of pairs, by g: max(v)
      Join on a.k = b.k, gives g, v          Window, rows say when they end
        Window                        =>       Source a
          Source a                           Window, rows say when they end
        Window                                 Source b
          Source b

A row that leaves a window would take back each pair it has made.  If it is known when it leaves, so is when a pair ends; then nearly all
pairs are seen to be useless when they are made (operators/pair_extremes.py).

Fires only if:
  (1) all calls are MIN or MAX, of columns whose values are numbers to us: numbers, dates, instants, booleans.  The bytes of strings
      would have to be kept as long as a row that has them.
  (2) the aggregate reads a join directly, and rows leave that by being taken back.  Where its pairs say when they end, that is how
      expiry is to be done.
  (3) both sides are time-based windows, perhaps with filters and projections above: their rows end in the order in which they come,
      and nobody takes one back.
  (4) there are groups, and their columns are all of one side: a row of it then has one group, whatever it meets.
  (5) there are no more calls than one word has bits: a row says in one which of its values are NULL.
Returns `node` itself when it does not fire.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from millstream.plan.expiry import ending
from millstream.plan.logical import JoinKey
from millstream.plan.physical import AggregateExec, Exec, FilterExec, JoinExec, PairExtremesExec, ProjectExec, WindowExec

_MOST_CALLS = 63


def extremes_of_pairs(node: AggregateExec) -> Exec:
    join = node.input
    if not isinstance(join, JoinExec) or join.ends is not None:  # (2)
        return node
    if not node.calls or not all(call.function in ("min", "max") and _is_number(join.schema[call.columns[0]].type) for call in node.calls):
        return node  # (1)
    if len(node.calls) > _MOST_CALLS:  # (5)
        return node
    left, right = (ending(side) if _is_window(side) else None for side in (join.left, join.right))
    if left is None or right is None:  # (3)
        return node
    given = join.gives or (*join.left.schema.names, *join.right.schema.names)
    names = dict(zip(join.schema.names, given, strict=True))
    groups = tuple(names[key] for key in node.keys)
    on_left, on_right = ({*groups} <= {*side.schema.names} for side in (join.left, join.right))
    if not groups or not (on_left or on_right):  # (4)
        return node
    calls = tuple(replace(call, argument=names[call.columns[0]], distinct=False) for call in node.calls)
    if on_left:
        return PairExtremesExec(left, right, join.keys, groups, calls, node.schema)
    keys = tuple(JoinKey(key.right, key.left, key.null_safe) for key in join.keys)
    return PairExtremesExec(right, left, keys, groups, calls, node.schema)


def _is_window(node: Exec) -> bool:
    while isinstance(node, FilterExec | ProjectExec):
        node = node.input
    return isinstance(node, WindowExec)


def _is_number(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)
    return any(is_such(type_) for is_such in kinds)
