"""FROM: streams with their windows, subqueries, and joins of them, as a plan whose columns are in scope.

    trades [RANGE 5 MINUTES] AS t     Window([RANGE 5 MINUTES], Scan(trades))
    trades                            Window([UNBOUNDED], Scan(trades)), not explicit
    ... JOIN ... ON ...               join_binder

Relations and queries come here next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from millstream.core.errors import AlreadyExists, MillstreamError, StreamNotFound, WindowInvalid
from millstream.language.catalog import Catalog, QueryEntry, RelationEntry, SinkEntry, StreamEntry, kind_of
from millstream.language.join_binder import (
    anti_join,
    conjuncts,
    inner_join,
    merged_names,
    outer_join,
    renamed,
    semi_join,
    using,
    with_merged,
)
from millstream.language.nodes import StreamWindow
from millstream.language.scope import Scope, Source, Visible
from millstream.language.spans import span_of
from millstream.language.unsupported import check_expression, check_source, not_supported
from millstream.language.window_binder import bind_window
from millstream.plan.logical import Filter, Plan, Project, Scan, Union, Window, scans
from millstream.plan.window import RowsWindow, TimeWindow, WindowSpec


@dataclass(frozen=True)
class BoundSelect:
    """A SELECT without its ToStream: its columns, and what decides whether it is a stream by default."""

    plan: Plan
    columns: tuple[Visible, ...]
    has_window: bool  # written by the user
    grows_only: bool  # rows never leave the answer
    mixes_rows: bool = False  # a row of it is not one row of a stream: grouped, joined


class Queries(Protocol):
    """Who binds the queries inside a query."""

    def body(self, tree: exp.Expr) -> BoundSelect: ...

    def named(self, name: str) -> BoundSelect | None: ...


def bind_from(select: exp.Select, catalog: Catalog, queries: Queries, sql: str) -> tuple[BoundSelect, Scope, list[exp.Expr]]:
    """What FROM holds now, the names it gives to it, and the conditions of WHERE that are not in it yet, over the plan's columns."""
    joins: list[exp.Join] = select.args.get("joins") or []
    bound, scope = _item(select.args["from_"].this, catalog, queries, sql)
    where = select.args.get("where")
    if not joins:
        return bound, scope, [scope.bare(where.this)] if where is not None else []
    items = [(bound, scope)]
    for join in joins:
        items.append(_distinct_names(_item(join.this, catalog, queries, sql), items))
    return _joined(items, joins, where, sql)


def _item(item: exp.Expr, catalog: Catalog, queries: Queries, sql: str) -> tuple[BoundSelect, Scope]:
    match item:
        case exp.Table():
            check_source(item, sql)
            found = queries.named(item.name) if isinstance(item.this, exp.Identifier) else None
            return _table(item, catalog, sql) if found is None else _derived(found, item, item.alias or item.name, sql)
        case exp.Subquery():
            check_source(item, sql)
            return _subquery(item, queries, sql)
    raise not_supported(f"{type(item).__name__.upper()} in FROM", item, sql)


# --- joins ----------------------------------------------------------------------------------


def _distinct_names(item: tuple[BoundSelect, Scope], before: list[tuple[BoundSelect, Scope]]) -> tuple[BoundSelect, Scope]:
    bound, scope = item
    taken = [name for other, _ in before for name in other.plan.schema.names]
    plan, columns = renamed(bound.plan, bound.columns, taken)
    return replace(bound, plan=plan, columns=columns), Scope((replace(scope.sources[0], columns=columns),), scope.sql)


def _joined(
    items: list[tuple[BoundSelect, Scope]], joins: list[exp.Join], where: exp.Where | None, sql: str
) -> tuple[BoundSelect, Scope, list[exp.Expr]]:
    _check_qualifiers([scope.sources[0] for _, scope in items], joins, sql)
    kinds = [_kind(join, sql) for join in joins]
    scopes = [items[0][1]]
    for join, kind, (_, own) in zip(joins, kinds, items[1:], strict=True):
        scopes.append(_scope_after(join, kind, scopes[-1], own.sources[0], sql))
    pending = [scopes[-1].bare(condition) for condition in conjuncts(where.this if where is not None else None)]
    whole = items[0][0]
    for i, (join, kind, (right, own)) in enumerate(zip(joins, kinds, items[1:], strict=True)):
        names = merged_names(join, scopes[i], own.sources[0], sql)
        both = Scope((*scopes[i].sources, *own.sources), sql)
        conditions = [
            *using(names, scopes[i], own.sources[0], join),
            *(both.bare(condition) for condition in conjuncts(join.args.get("on"))),
        ]
        if kind == "INNER" and not {"RIGHT", "FULL"} & {*kinds[i + 1 :]}:  # those bring rows back that WHERE is to judge
            fitting, pending = _fitting(pending, whole.plan, right.plan)
            conditions += fitting
        whole = _combined(whole, right, kind, conditions, both)
        if kind == "FULL" and names:
            whole = replace(whole, plan=with_merged(whole.plan, scopes[i + 1], names, join))
    return replace(whole, columns=scopes[-1].starred), scopes[-1], pending


def _combined(left: BoundSelect, right: BoundSelect, kind: str, conditions: list[exp.Expr], scope: Scope) -> BoundSelect:
    match kind:
        case "INNER":
            plan = inner_join(left.plan, right.plan, conditions, scope, "ON")
        case "SEMI":
            plan = semi_join(left.plan, right.plan, conditions, scope)
        case "ANTI":
            plan = anti_join(left.plan, right.plan, conditions, scope)
        case _:
            plan = outer_join(left.plan, right.plan, conditions, scope, kind)
    grows_only = left.grows_only and right.grows_only and kind in ("INNER", "SEMI")
    return BoundSelect(plan, (), left.has_window or right.has_window, grows_only, mixes_rows=True)


def _scope_after(join: exp.Join, kind: str, before: Scope, source: Source, sql: str) -> Scope:
    """What the names mean after a join: columns of USING are one, whichever side has them."""
    if kind in ("SEMI", "ANTI"):
        merged_names(join, before, source, sql)
        return before
    names = {name.lower() for name in merged_names(join, before, source, sql)}
    left_too = kind in ("RIGHT", "FULL")
    sources = [_hiding(own, names) if left_too else own for own in before.sources]
    sources.append(source if kind == "RIGHT" else _hiding(source, names))
    if kind == "FULL" and names:
        merged = tuple(visible for visible in before.starred if visible.name.lower() in names)
        sources.insert(0, Source(None, "USING", tuple(replace(visible, column=f"_using_{visible.column}") for visible in merged)))
    return Scope(tuple(sources), sql)


def _hiding(source: Source, names: set[str]) -> Source:
    hidden = frozenset(visible.column for visible in source.columns if visible.name.lower() in names)
    return replace(source, merged=source.merged | hidden)


def _fitting(conditions: list[exp.Expr], left: Plan, right: Plan) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Equalities of WHERE that are about these two sides, and the other conditions."""
    both = {*left.schema.names, *right.schema.names}
    fitting: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for condition in conditions:
        names = {node.name for node in condition.find_all(exp.Column)}
        is_key = isinstance(condition, exp.EQ | exp.NullSafeEQ) and names <= both
        (fitting if is_key and names & {*left.schema.names} and names & {*right.schema.names} else others).append(condition)
    return fitting, others


def _kind(join: exp.Join, sql: str) -> str:
    """INNER, LEFT, RIGHT, FULL, SEMI or ANTI."""
    kind, side = (join.args.get("kind") or "").upper(), (join.args.get("side") or "").upper()
    condition = join.args.get("on")
    if condition is not None:
        check_expression(condition, sql)
    match side, kind:
        case "", "" | "INNER" | "CROSS":
            return "INNER"
        case "" | "LEFT", "SEMI" | "ANTI":
            return kind
        case "LEFT" | "RIGHT" | "FULL", "" | "OUTER":
            return side
    raise not_supported(f"{side} {kind} JOIN".strip(), join, sql)


def _check_qualifiers(sources: list[Source], joins: list[exp.Join], sql: str) -> None:
    seen: set[str] = set()
    for source, join in zip(sources, [None, *joins], strict=True):
        name = (source.qualifier or "").lower()
        if name and name in seen and join is not None:
            raise AlreadyExists(
                f'"{source.qualifier}" stands twice in FROM', hint=f"Give one another name: {source.qualifier} AS other.",
                span=span_of(join.this), sql=sql,
            )  # fmt: skip
        seen.add(name)


# --- streams --------------------------------------------------------------------------------


def _table(table: exp.Table, catalog: Catalog, sql: str) -> tuple[BoundSelect, Scope]:
    if not isinstance(table.this, exp.Identifier):
        raise not_supported("a table function", table, sql)
    entry = catalog.find(table.name, span_of(table.this), sql)
    window = table.args.get("stream_window")
    if not isinstance(entry, StreamEntry):
        raise _not_a_stream(entry, table, sql)
    columns = tuple(Visible(field.name, field.name, field.type) for field in entry.schema)
    scope = Scope((Source(table.alias or entry.name, f'stream "{entry.name}"', columns),), sql)
    spec = bind_window(window, scope) if window is not None else TimeWindow.unbounded()
    plan = Window(Scan(entry.name, tuple((field.name, field) for field in entry.schema)), spec)
    return BoundSelect(plan, columns, has_window=window is not None, grows_only=spec.grows_only), scope


def _not_a_stream(entry: RelationEntry | QueryEntry | SinkEntry, table: exp.Table, sql: str) -> MillstreamError:
    if isinstance(entry, SinkEntry):
        return StreamNotFound(f'"{entry.name}" is a sink and cannot be read', span=span_of(table.this), sql=sql)
    window = table.args.get("stream_window")
    if window is not None and not (isinstance(entry, QueryEntry) and entry.is_stream):
        what = f'"{entry.name}" is a relation' if isinstance(entry, RelationEntry) else f'query "{entry.name}" gives a relation'
        return _no_window(what, window, sql)
    return not_supported(f"a {kind_of(entry)} in FROM", table, sql)


def _no_window(what: str, window: StreamWindow, sql: str) -> WindowInvalid:
    return WindowInvalid(f"{what}, which takes no window", hint="Windows are for streams.", span=span_of(window), sql=sql)


# --- subqueries -----------------------------------------------------------------------------


def _subquery(subquery: exp.Subquery, queries: Queries, sql: str) -> tuple[BoundSelect, Scope]:
    if subquery.this.args.get("to_stream"):
        raise not_supported("ISTREAM, DSTREAM or RSTREAM in a subquery", subquery, sql, "Name it with CREATE QUERY.")
    return _derived(queries.body(subquery.this), subquery, subquery.alias or None, sql)


def _derived(bound: BoundSelect, item: exp.Table | exp.Subquery, qualifier: str | None, sql: str) -> tuple[BoundSelect, Scope]:
    """A query in place of a stream, by itself or by the name that WITH gave it."""
    window = item.args.get("stream_window")
    if window is not None:
        bound = _rewindowed(bound, window, sql)
    described = f'subquery "{qualifier}"' if qualifier else "the subquery"
    return bound, Scope((Source(qualifier, described, bound.columns),), sql)


def _rewindowed(bound: BoundSelect, window: StreamWindow, sql: str) -> BoundSelect:
    """A window over rows that were only filtered and projected: the same as over the stream itself."""
    if bound.has_window or not bound.grows_only:
        raise _no_window("the subquery is a relation", window, sql)
    if bound.mixes_rows:
        raise not_supported("a window over this subquery", window, sql)
    spec = bind_window(window, Scope((Source(None, "the subquery", bound.columns),), sql))
    if isinstance(spec, RowsWindow) and len(scans(bound.plan)) > 1:
        raise not_supported("a ROWS window over a union", window, sql)
    plan = Window(_stream(bound.plan), spec) if isinstance(spec, RowsWindow) else _with_window(bound.plan, spec)
    return replace(bound, plan=plan, has_window=True, grows_only=spec.grows_only)


def _stream(plan: Plan) -> Plan:
    """The rows as they arrive, filtered and projected: a window that counts rows counts these."""
    match plan:
        case Window(input=stream):
            return stream
        case Filter() | Project():
            return replace(plan, input=_stream(plan.input))
    raise AssertionError(f"{type(plan).__name__} does not commute with a window")


def _with_window(plan: Plan, spec: WindowSpec) -> Plan:
    match plan:
        case Window(input=stream):
            return Window(stream, spec)
        case Filter() | Project():
            return replace(plan, input=_with_window(plan.input, spec))
        case Union():
            return Union(tuple(_with_window(child, spec) for child in plan.inputs))
    raise AssertionError(f"{type(plan).__name__} does not commute with a window")
