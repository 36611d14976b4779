"""GROUP BY: what each of its items stands for.  A position, an alias, a column or any expression; or ALL.

ROLLUP, CUBE and GROUPING SETS name several sets of keys; beside other items every set is joined to every other:

    GROUP BY a, ROLLUP(b, c)    (a, b, c), (a, b), (a)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from sqlglot import exp

from millstream.core.errors import ColumnNotFound
from millstream.language.aggregate_binder import refuse_aggregate
from millstream.language.aggregate_syntax import find_aggregate
from millstream.language.scope import Scope
from millstream.language.select_list import Item, refuse_stars, with_aliases
from millstream.language.spans import span_of
from millstream.language.unsupported import check_expression, not_supported

Keys = list[exp.Expr]

_MOST_SETS = 64


@dataclass(frozen=True)
class GroupBy:
    """The keys, with the plan's columns; `sets` are those to group by one after the other, None if it is just all of them."""

    keys: Keys
    sets: list[Keys] | None = None


def group_by(group: exp.Group | None, items: list[Item], scope: Scope) -> GroupBy:
    if group is None:
        return GroupBy([])
    if group.args.get("all"):
        return GroupBy([item.tree for item in items if find_aggregate(item.tree) is None])
    reader = _Reader(items, scope)
    if group.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS (..)
        keys = [reader.key(tree) for tree in group.expressions]
        return GroupBy(keys, reader.sets(group.args["grouping_sets"][0]))
    for kind, name in ((exp.Rollup, "rollup"), (exp.Cube, "cube")):
        if group.args.get(name):  # GROUP BY a, b WITH ROLLUP
            return reader.joined([kind(expressions=[tree.copy() for tree in group.expressions])], group)
    return reader.joined(group.expressions, group)


@dataclass(frozen=True)
class _Reader:
    items: list[Item]
    scope: Scope

    def joined(self, trees: list[exp.Expr], place: exp.Expr) -> GroupBy:
        """All combinations of the sets that the items name."""
        parts = [self.sets(tree) for tree in trees]
        sets = [[key for keys in combination for key in keys] for combination in itertools.product(*parts)]
        if len(sets) > _MOST_SETS:
            raise not_supported(f"GROUP BY with {len(sets)} grouping sets", place, self.scope.sql, f"Up to {_MOST_SETS} are.")
        keys = [key for part in parts for keys in part for key in keys]
        is_plain = not any(isinstance(tree, exp.Rollup | exp.Cube | exp.GroupingSets) for tree in trees)
        return GroupBy(keys, None if is_plain else sets)

    def sets(self, tree: exp.Expr) -> list[Keys]:
        match tree:
            case exp.Rollup():
                parts = [self._together(part) for part in tree.expressions]
                return [_flat(parts[:n]) for n in range(len(parts), -1, -1)]
            case exp.Cube():
                parts = [self._together(part) for part in tree.expressions]
                return [_flat(chosen) for n in range(len(parts), -1, -1) for chosen in itertools.combinations(parts, n)]
            case exp.GroupingSets():
                return [keys for part in tree.expressions for keys in self.sets(part)]
        return [self._together(tree)]

    def _together(self, tree: exp.Expr) -> Keys:
        """Keys in parentheses, which come and go together; or a single one."""
        return [self.key(part) for part in tree.expressions] if isinstance(tree, exp.Tuple) else [self.key(tree)]

    def key(self, tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.Literal) and tree.is_int:
            key = _at_position(tree, self.items, self.scope.sql)
        else:
            check_expression(tree, self.scope.sql)
            refuse_stars(tree, self.scope.sql)
            key = self.scope.bare(with_aliases(tree, self.items, self.scope))
        refuse_aggregate(key, "GROUP BY", self.scope.sql, tree)
        return key


def _flat(parts: list[Keys] | tuple[Keys, ...]) -> Keys:
    return [key for keys in parts for key in keys]


def _at_position(literal: exp.Literal, items: list[Item], sql: str) -> exp.Expr:
    position = int(literal.name) if len(literal.name) < 10 else 0
    if not 1 <= position <= len(items):
        hint = f"Positions go from 1 to {len(items)}."
        raise ColumnNotFound(f"GROUP BY {literal.name[:20]} is no position of the select list", hint=hint, span=span_of(literal), sql=sql)
    return items[position - 1].tree
