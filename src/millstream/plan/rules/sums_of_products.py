"""Where rows are grouped by the key on which they are joined, their combinations need not be made to be counted and summed up.

    SELECT a.k, sum(c.v), count(*) FROM a [RANGE 5 MINUTES] JOIN b [..] ON a.k = b.k JOIN c [..] ON b.k = c.k GROUP BY a.k

    Aggregate by k: sum(v), count(*)      Sums of products by k: sum(v), count(*)
      Join on b.k = c.k                     Window
        Join on a.k = b.k                     Source a
          Window                   =>       Window
            Source a                          Source b
          Window                            Window
            Source b                          Source c
        Window
          Source c

Fires only if:
  (1) all calls are COUNT of one column or of rows, or SUM of integers, and none of DISTINCT values.
  (2) the aggregate reads a join directly, and rows leave that by being taken back.
  (3) there are groups; each of their columns is one of the key, or equals one as joins below have it, and each of the key is one of
      them, once: then a group is all that has one key.
  (4) NULL equals nothing in the key.
A side that is a join itself is taken apart if (2), (3) and (4) hold for it, with those of its columns in the key for the groups'.
Returns `node` itself when it does not fire.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from millstream.plan.equal_columns import NONE_EQUAL, EqualColumns
from millstream.plan.physical import AggregateExec, Exec, JoinExec, ProductCall, ProductSumsExec


class _Side(NamedTuple):
    node: Exec
    keys: tuple[str, ...]
    names: dict[str, str]
    """Its columns by their names above."""


def sums_of_products(node: AggregateExec) -> Exec:
    join = node.input
    if (
        not node.keys
        or not isinstance(join, JoinExec)
        or not all(_fits(call.function, call.argument, join) and not call.distinct and not call.more for call in node.calls)
    ):
        return node  # (1), (2), (3)
    sides = _apart(join, node.keys)
    if len(sides) < 2:
        return node
    places = {name: (place, side.names[name]) for place, side in enumerate(sides) for name in side.names}
    calls = tuple(ProductCall(call.function, *places.get(call.argument or "", (-1, "")), call.type) for call in node.calls)
    return ProductSumsExec(tuple(side.node for side in sides), tuple(side.keys for side in sides), calls, node.schema)


def _apart(node: Exec, keys: tuple[str, ...]) -> list[_Side]:
    """What a join with this key, by the names of its columns above, is of; the node alone if it is none."""
    whole = [_Side(node, keys, {name: name for name in node.schema.names})]
    if not isinstance(node, JoinExec) or node.ends is not None:
        return whole
    names, by_side = _given(node), {name: key for key in node.keys for name in (key.left, key.right)}
    equal = _equal_below(node)
    chosen = [by_side.get(equal.one_of(by_side, names[key]) or "") for key in keys]
    if None in chosen or len({*chosen}) != len(keys) or len(keys) != len(node.keys):  # (3)
        return whole
    pairs = [key for key in chosen if key is not None]
    if any(key.null_safe for key in pairs):  # (4)
        return whole
    parts = [*_apart(node.left, tuple(key.left for key in pairs)), *_apart(node.right, tuple(key.right for key in pairs))]
    return [_renamed(side, names) for side in parts]


def _given(join: JoinExec) -> dict[str, str]:
    """The columns of its sides by their names above."""
    return dict(zip(join.schema.names, join.gives or (*join.left.schema.names, *join.right.schema.names), strict=True))


def _equal_below(join: JoinExec) -> EqualColumns:
    """Which columns of its sides have one value in every pair."""
    left, right = (_equal(side) if isinstance(side, JoinExec) else NONE_EQUAL for side in (join.left, join.right))
    return left.beside(right).joined((key.left, key.right) for key in join.keys)


def _equal(join: JoinExec) -> EqualColumns:
    return _equal_below(join).renamed({given: name for name, given in _given(join).items()})


def _renamed(side: _Side, names: dict[str, str]) -> _Side:
    return side._replace(names={above: side.names[name] for above, name in names.items() if name in side.names})


def _fits(function: str, argument: str | None, join: JoinExec) -> bool:
    if function == "count":
        return True
    return function == "sum" and argument is not None and pa.types.is_integer(join.schema[argument].type)
