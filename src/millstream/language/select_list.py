"""The select list: stars become columns, every item gets its name, and aliases stand for what they name.

Spark's rules for aliases: an item may use the aliases before it; GROUP BY may use all of them; everywhere a
column of FROM comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.core.errors import ColumnAmbiguous, ColumnNotFound, ParseError, did_you_mean
from millstream.language.column_names import column_name
from millstream.language.scope import Scope, Visible, at_place, plan_column
from millstream.language.spans import span_of
from millstream.language.unsupported import check_expression, not_supported


@dataclass(frozen=True)
class Item:
    """`tree` has the plan's columns; aliases are replaced by what they stand for."""

    name: str
    tree: exp.Expr
    alias: str | None


def bind_items(select: exp.Select, scope: Scope) -> list[Item]:
    items: list[Item] = []
    for tree in select.expressions:
        star = _star(tree)
        if star is not None:
            items += [Item(visible.name, plan_column(visible.column, tree), None) for visible in _expanded(tree, star, scope)]
            continue
        inner = tree.this if isinstance(tree, exp.Alias) else tree
        check_expression(inner, scope.sql)
        refuse_stars(inner, scope.sql)
        bare = scope.bare(with_aliases(inner, items, scope))
        items.append(Item(column_name(scope.dotted(tree)), bare, tree.alias if isinstance(tree, exp.Alias) else None))
    return items


def with_aliases(tree: exp.Expr, items: list[Item], scope: Scope) -> exp.Expr:
    """`tree` with aliases written out where FROM has no such column."""

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or len(node.parts) > 1 or scope.knows(node):
            return node
        item = find_alias(node, items, scope.sql)
        return written_out(item, node) if item is not None else node

    return tree.copy().transform(swap, copy=False)


def find_alias(column: exp.Column, items: list[Item], sql: str) -> Item | None:
    matches = [item for item in items if item.alias is not None and item.alias.lower() == column.name.lower()]
    if len(matches) > 1:
        raise ColumnAmbiguous(f'the alias "{column.name}" is given {len(matches)} times', span=span_of(column), sql=sql)
    return matches[0] if matches else None


def written_out(item: Item, place: exp.Expr) -> exp.Expr:
    """What an alias stands for, in place of the alias."""
    return at_place(exp.paren(item.tree.copy(), copy=False), place)


def refuse_stars(tree: exp.Expr, sql: str) -> None:
    """A star may stand alone, or as count(*)."""
    for node in tree.walk():
        if isinstance(node, exp.Star) and not _is_count(node.parent):
            raise not_supported("* in an expression", node.parent if isinstance(node.parent, exp.Column) else node, sql)


def _is_count(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "count" and len(node.expressions) == 1


# --- stars ----------------------------------------------------------------------------------


def _star(tree: exp.Expr) -> exp.Star | None:
    inner = tree.this if isinstance(tree, exp.Column) else tree
    return inner if isinstance(inner, exp.Star) else None


def _expanded(tree: exp.Expr, star: exp.Star, scope: Scope) -> list[Visible]:
    if star.args.get("replace") or star.args.get("rename"):
        raise not_supported("REPLACE or RENAME behind *", tree, scope.sql)
    columns = scope.source(tree.args["table"]).columns if isinstance(tree, exp.Column) else scope.starred
    left_out = star.args.get("except_") or []
    for column in left_out:
        if column.name.lower() not in (visible.name.lower() for visible in columns):
            hint = did_you_mean(column.name, [visible.name for visible in columns])
            raise ColumnNotFound(
                f'EXCEPT names the column "{column.name}", which is not there', hint=hint, span=span_of(column), sql=scope.sql
            )
    names = {column.name.lower() for column in left_out}
    kept = [visible for visible in columns if visible.name.lower() not in names]
    if not kept:
        raise ParseError("EXCEPT leaves no column", span=span_of(tree), sql=scope.sql)
    return kept
