"""Names in a query: which columns FROM makes visible, and what a column in an expression refers to.

Spark's rules: names compare without case; `x` may come from any source; `t.x` from the source that is
called t; `c.f` and `t.c.f` reach into a struct column c.  A source with an alias goes by the alias only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ColumnAmbiguous, ColumnNotFound, Span, did_you_mean
from millstream.language.spans import mark, span_of
from millstream.plan.logical import Plan

E = TypeVar("E", bound=exp.Expr)

_BOUND = "bound"
_MOST_LISTED = 20
_VALUE = "value"


def plan_column(name: str, place: exp.Expr) -> exp.Column:
    """The plan's column `name`, for errors where `place` stands.  `Scope.bare` leaves it alone."""
    column = at_place(exp.column(exp.to_identifier(name, quoted=True)), place)
    column.meta[_BOUND] = True
    return column


def value_column(name: str, place: exp.Expr) -> exp.Column:
    """A column that a join brings in the place of a query (subquery_values)."""
    column = plan_column(name, place)
    column.meta[_VALUE] = True
    return column


def is_value(column: exp.Column) -> bool:
    return bool(column.meta.get(_VALUE))


def is_bound(column: exp.Column) -> bool:
    """The column is one of a plan already."""
    return bool(column.meta.get(_BOUND))


def at_place(node: E, place: exp.Expr) -> E:
    span = span_of(place)
    if span is not None:
        mark(node, span.start, span.end)
    return node


@dataclass(frozen=True)
class Visible:
    """A column as the user names it, and as the plan does."""

    name: str
    column: str
    type: pa.DataType


@dataclass(frozen=True)
class Source:
    """One item of FROM.  `described` is for messages: `stream "trades"`.

    `merged` columns were joined to those of an item before with USING: they are meant only with the qualifier.
    """

    qualifier: str | None
    described: str
    columns: tuple[Visible, ...]
    merged: frozenset[str] = frozenset()  # plan columns

    def named(self, name: str) -> list[Visible]:
        return [visible for visible in self.columns if visible.name.lower() == name.lower()]


@dataclass(frozen=True)
class Scope:
    """`equal` are columns of the plan that have one value in every row: then their common name is not ambiguous.
    `used` are names, in lower case, by which USING has joined something that left no columns: a semi join's.
    """

    sources: tuple[Source, ...]
    sql: str
    equal: tuple[frozenset[str], ...] = ()
    used: frozenset[str] = frozenset()

    def with_equal(self, conditions: Iterable[exp.Expr]) -> Scope:
        """The same names where these conditions, over the plan's columns, hold for every row."""
        types = {visible.column: visible.type for visible in self.columns}
        equal: list[frozenset[str]] = []
        for condition in conditions:
            one, other = condition.args.get("this"), condition.args.get("expression")
            if isinstance(condition, exp.EQ) and isinstance(one, exp.Column) and isinstance(other, exp.Column):
                pair = frozenset({one.name, other.name})
                if types[one.name] == types[other.name] and not pa.types.is_floating(types[one.name]):  # 0.0 = -0.0
                    joined = pair.union(*(group for group in equal if group & pair))
                    equal = [group for group in equal if not group & pair] + [joined]
        return replace(self, equal=tuple(equal))

    @property
    def columns(self) -> tuple[Visible, ...]:
        return tuple(visible for source in self.sources for visible in source.columns)

    @property
    def starred(self) -> tuple[Visible, ...]:
        """What * means: every column once, those of USING first."""
        shown = [visible for source in self.sources for visible in source.columns if visible.column not in source.merged]
        merged = {visible.name.lower() for source in self.sources for visible in source.columns if visible.column in source.merged}
        return tuple(sorted(shown, key=lambda visible: visible.name.lower() not in merged | self.used))

    def type_of(self, column: exp.Column) -> tuple[str, pa.DataType]:
        """For `bind_scalar`: the type of a column that `bare` has left in a tree."""
        type_ = next((visible.type for visible in self.columns if visible.column == column.name), None)
        if type_ is None:
            raise self._no_column(column.name, list(self.sources), span_of(column))
        return column.name, type_

    def source(self, qualifier: exp.Expr) -> Source:
        """The source that `qualifier` names, for `t.*`."""
        found = self._qualified(qualifier.name)
        if found is None:
            raise self._no_source(qualifier.name, span_of(qualifier), f'"{qualifier.name}.*"')
        return found

    def knows(self, column: exp.Column) -> bool:
        """The column's first name means something in FROM."""
        first = column.parts[0].name
        return bool(self._unqualified(first)) or (len(column.parts) > 1 and self._qualified(first) is not None)

    def visible(self, column: exp.Column) -> Visible:
        """The column that a dotted name starts with."""
        return self._resolve([part.name for part in column.parts], span_of(column))[0]

    def bare(self, tree: exp.Expr) -> exp.Expr:
        """A copy of `tree` whose columns are the plan's, with the same places."""

        def swap(node: exp.Expr) -> exp.Expr:
            return self._swapped(node) if isinstance(node, exp.Column) and not node.meta.get(_BOUND) else node

        return tree.copy().transform(swap, copy=False)

    def dotted(self, tree: exp.Expr) -> exp.Expr:
        """A copy of `tree` in which fields of structs stand behind dots, and no column has a qualifier."""

        def split(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or len(node.parts) == 1:
                return node
            names = [part.name for part in node.parts]
            source = self._qualified(names[0])
            is_qualified = source is not None and bool(source.named(names[1]))
            result: exp.Expr = exp.column(names[1] if is_qualified else names[0])
            for name in names[2 if is_qualified else 1 :]:
                result = exp.Dot(this=result, expression=exp.to_identifier(name))
            return result

        return tree.copy().transform(split, copy=False)

    def _swapped(self, column: exp.Column) -> exp.Expr:
        span = span_of(column)
        visible, fields = self._resolve([part.name for part in column.parts], span)
        result: exp.Expr = plan_column(visible.column, column)
        for field in fields:
            result = at_place(exp.Dot(this=result, expression=exp.to_identifier(field, quoted=True)), column)
        return result

    def _resolve(self, parts: list[str], span: Span | None) -> tuple[Visible, list[str]]:
        """The column that dotted names start with, and the fields inside it that follow."""
        source = self._qualified(parts[0]) if len(parts) > 1 else None
        if source is not None and source.named(parts[1]):
            return self._only(source.named(parts[1]), parts[1], span), parts[2:]
        matches = self._unqualified(parts[0])
        if matches:
            return self._only(matches, parts[0], span), parts[1:]
        if source is not None:
            raise self._no_column(parts[1], [source], span)
        if len(parts) > 1:
            raise self._no_source(parts[0], span, f'"{".".join(parts)}"')
        raise self._no_column(parts[0], list(self.sources), span)

    def _qualified(self, name: str) -> Source | None:
        return next((source for source in self.sources if source.qualifier and source.qualifier.lower() == name.lower()), None)

    def _unqualified(self, name: str) -> list[Visible]:
        return [visible for source in self.sources for visible in source.named(name) if visible.column not in source.merged]

    # --- errors ----------------------------------------------------------------------------

    def _only(self, matches: list[Visible], name: str, span: Span | None) -> Visible:
        columns = {visible.column for visible in matches}
        if len(matches) > 1 and not any(columns <= group for group in self.equal):
            hint = "Give the columns different names, or put the source's name before it."
            raise ColumnAmbiguous(f'column "{name}" could be any of {len(matches)}', hint=hint, span=span, sql=self.sql)
        return matches[0]

    def _no_column(self, name: str, sources: list[Source], span: Span | None) -> ColumnNotFound:
        where = " or ".join(source.described for source in sources)
        names = [visible.name for source in sources for visible in source.columns]
        hint = did_you_mean(name, names) or _listed(names)
        return ColumnNotFound(f'column "{name}" does not exist in {where}', hint=hint, span=span, sql=self.sql)

    def _no_source(self, name: str, span: Span | None, what: str) -> ColumnNotFound:
        names = [source.qualifier for source in self.sources if source.qualifier]
        hint = did_you_mean(name, names) or (f"FROM has {', '.join(names)}." if names else None)
        return ColumnNotFound(f'{what} does not exist: nothing in FROM is called "{name}"', hint=hint, span=span, sql=self.sql)


def _listed(names: list[str]) -> str:
    known = list(dict.fromkeys(names))
    shown = ", ".join(known[:_MOST_LISTED])
    return f"Columns: {shown}{', and more' if len(known) > _MOST_LISTED else ''}."


def plan_scope(sql: str, *plans: Plan) -> Scope:
    """The plans' own columns, for trees that name nothing else."""
    columns = tuple(Visible(field.name, field.name, field.type) for plan in plans for field in plan.schema)
    return Scope((Source(None, "the query", columns),), sql)
