"""Names of the outer query inside an inner one, where no equality of the inner WHERE can stand for them.

    ... WHERE NOT EXISTS (SELECT 1 FROM b WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.x = a.x AND c.y = b.y))

Then the inner query is asked once for each different combination of the outer columns that it names: those are joined to its
FROM, its conditions and the queries inside it see them like columns of its own, and in the end its rows go back to the outer rows
that have the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from millstream.core.errors import ColumnNotFound, NotSupported
from millstream.language.bound_select import BoundSelect
from millstream.language.scope import Scope, Source, Visible, is_bound, plan_column
from millstream.language.spans import span_of
from millstream.plan.expression import Named, column
from millstream.plan.logical import Aggregate, Plan, Project


class Selects(Protocol):
    """Who binds the inner queries."""

    def body(self, tree: exp.Expr) -> BoundSelect: ...

    def from_of(self, select: exp.Select) -> tuple[BoundSelect, Scope]:
        """FROM alone, without WHERE."""
        ...

    def filtered(self, bound: BoundSelect, scope: Scope, conditions: list[exp.Expr]) -> BoundSelect:
        """The rows for which all conditions are true; queries may stand in them."""
        ...


@dataclass(frozen=True)
class Outer:
    """What the outer query calls its columns; `bare` turns its names into columns of its plan."""

    scope: Scope
    bare: Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class OuterRows:
    """The combinations of outer columns, each once.  `columns` has our column for each column of the outer plan."""

    plan: Plan
    columns: dict[str, str]
    sources: tuple[Source, ...]

    def scope(self, own: Scope) -> Scope:
        """The names of the inner query, and behind them those of the outer one."""
        hidden = [self._hidden(source, own) for source in self.sources]
        return Scope((*own.sources, *hidden), own.sql, own.equal, own.used)

    def _hidden(self, source: Source, own: Scope) -> Source:
        """Where the inner query has a column of the same name, the outer one goes by its qualifier only."""
        taken = {visible.column for visible in source.columns if own.knows(exp.column(exp.to_identifier(visible.name)))}
        return replace(source, merged=source.merged | taken)

    def in_place(self, tree: exp.Expr) -> exp.Expr:
        """`tree` over the outer plan's columns, over ours."""

        def swap(node: exp.Expr) -> exp.Expr:
            is_outer = isinstance(node, exp.Column) and node.name in self.columns
            return plan_column(self.columns[node.name], node) if is_outer else node

        return tree.copy().transform(swap, copy=False)

    def same(self, place: exp.Expr) -> list[exp.Expr]:
        """The conditions under which an outer row has these values."""
        return [
            exp.NullSafeEQ(this=plan_column(theirs, place), expression=plan_column(ours, place)) for theirs, ours in self.columns.items()
        ]


def outer_rows(plan: Plan, outer: Outer, named: Iterable[exp.Column], taken: Iterable[str]) -> OuterRows:
    """Those of `plan`, with the columns that are named; ours have no name of `taken`."""
    used = {*plan.schema.names, *taken}
    columns: dict[str, str] = {}
    visible_as: dict[str, str] = {}
    for name in named:
        own_name = name.name if is_bound(name) else outer.scope.visible(name).column
        theirs = outer.bare(name if is_bound(name) else plan_column(own_name, name)).name
        if theirs not in columns:
            columns[theirs] = _fresh(f"_outer_{theirs}", used)
        visible_as[own_name] = columns[theirs]
    values = tuple(Named(ours, column(theirs, plan.schema[theirs].type)) for theirs, ours in columns.items())
    rows = Aggregate(Project(plan, values), tuple(columns.values()), ())
    sources = tuple(
        replace(
            source,
            columns=tuple(
                replace(visible, column=visible_as[visible.column]) for visible in source.columns if visible.column in visible_as
            ),
            merged=frozenset(visible_as[name] for name in source.merged if name in visible_as),
        )
        for source in outer.scope.sources
    )
    known = {visible.column for visible in outer.scope.columns}
    beside = tuple(Visible("", ours, rows.schema[ours].type) for own_name, ours in visible_as.items() if own_name not in known)
    return OuterRows(rows, columns, (*sources, Source(None, "a query", beside, frozenset(visible.column for visible in beside))))


@contextmanager
def refused_elsewhere(outer: Scope, parts: Iterable[exp.Expr | None]) -> Iterator[None]:
    """A name that an inner query of `parts` does not find, but the outer one would, is said to be in a wrong place."""
    try:
        yield
    except ColumnNotFound as error:
        inner = [query for part in parts if part is not None for query in part.find_all(exp.Select)]
        for name in (name for query in inner for name in query.find_all(exp.Column)):
            if span_of(name) == error.span and outer.knows(name):
                outer.visible(name)
                what = f'"{".".join(part.name for part in name.parts)}" is a column of the outer query, which cannot be named here'
                hint = (
                    "Outer columns may stand in the WHERE of a query of FROM and WHERE, "
                    "and of one that aggregates without GROUP BY or has LIMIT 1."
                )
                raise NotSupported(what, hint=hint, span=error.span, sql=error.sql) from None
        raise


def _fresh(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    used.add(name)
    return name


def outer_columns(tree: exp.Expr, own: Scope, outer: Scope, selects: Selects) -> list[exp.Column]:
    """The columns in `tree`, a part of the inner query, that are the outer query's, also inside further queries."""
    return [name for name in _free(tree, (own,), selects) if is_bound(name) or outer.knows(name)]


def _free(tree: exp.Expr, known: tuple[Scope, ...], selects: Selects) -> Iterator[exp.Column]:
    for node in tree.walk(prune=lambda node: isinstance(node, exp.Select)):
        if isinstance(node, exp.Column) and (is_bound(node) or not any(scope.knows(node) for scope in known)):
            yield node
        elif isinstance(node, exp.Select) and node.args.get("from_") is not None and not node.args.get("with_"):
            _, scope = selects.from_of(node)
            for part in (*node.expressions, *(node.args.get(clause) for clause in ("where", "group", "having", "order"))):
                if part is not None:
                    yield from _free(part, (*known, scope), selects)
