"""FROM: streams with their windows, subqueries, and joins of them, as a plan whose columns are in scope.

    trades [RANGE 5 MINUTES] AS t     Window([RANGE 5 MINUTES], Scan(trades))
    trades                            Window([UNBOUNDED], Scan(trades)), not explicit
    (trades [NOW]) AS t               the same as without parentheses
    symbols                           Scan(symbols): a relation, or a query that answers with one
    ... JOIN ... ON ...               from_joins
    trades [NOW] AS t PIVOT (...)     pivot

A query that gives a stream is read like a stream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from sqlglot import exp

from millstream.core.errors import NotSupported, StreamNotFound, WindowInvalid
from millstream.core.schema import Field
from millstream.language.bound_select import BoundSelect
from millstream.language.catalog import Catalog, QueryEntry, RegisteredEntry, RelationEntry, SinkEntry, StreamEntry, kind_of
from millstream.language.from_joins import bind_joins
from millstream.language.nodes import StreamWindow
from millstream.language.outer_names import Selects
from millstream.language.pivot import pivoted
from millstream.language.scope import Scope, Source, Visible
from millstream.language.spans import span_of
from millstream.language.unsupported import check_source, not_supported
from millstream.language.window_binder import bind_window
from millstream.language.windows_below import streams_below, with_window
from millstream.plan.logical import Scan, Window
from millstream.plan.window import RowsWindow, TimeWindow

_NAME_IT = "Name the subquery with CREATE QUERY, and put the window on that name."


class Queries(Selects, Protocol):
    """Who binds the queries inside a query, and knows those of WITH."""

    def named(self, name: str) -> BoundSelect | None: ...


def bind_from(
    select: exp.Select, where: exp.Where | None, catalog: Catalog, queries: Queries, sql: str
) -> tuple[BoundSelect, Scope, list[exp.Expr]]:
    """What FROM holds now, the names it gives to it, and the conditions of WHERE that are not in it yet, over the plan's columns."""
    joins: list[exp.Join] = select.args.get("joins") or []
    bound, scope = _item(select.args["from_"].this, catalog, queries, sql)
    if not joins:
        return bound, scope, [scope.bare(where.this)] if where is not None else []
    items = [(bound, scope), *(_item(join.this, catalog, queries, sql) for join in joins)]
    return bind_joins(items, joins, where, queries, sql)


def _item(item: exp.Expr, catalog: Catalog, queries: Queries, sql: str) -> tuple[BoundSelect, Scope]:
    if item.args.get("pivots"):
        return _pivot(item, catalog, queries, sql)
    match item:
        case exp.Table():
            check_source(item, sql)
            found = queries.named(item.name) if isinstance(item.this, exp.Identifier) else None
            return _table(item, catalog, sql) if found is None else _derived(found, item, item.alias or item.name, sql)
        case exp.Subquery(this=exp.Table() as inner):
            check_source(item, sql)
            bound, scope = _item(inner, catalog, queries, sql)
            return _derived(bound, item, item.alias or scope.sources[0].qualifier, sql)
        case exp.Subquery():
            check_source(item, sql)
            return _subquery(item, queries, sql)
    raise not_supported(f"{type(item).__name__.upper()} in FROM", item, sql)


# --- streams --------------------------------------------------------------------------------


def _table(table: exp.Table, catalog: Catalog, sql: str) -> tuple[BoundSelect, Scope]:
    if not isinstance(table.this, exp.Identifier):
        raise not_supported("a table function", table, sql)
    if (as_of := table.args.get("as_of")) is not None:
        hint = "Ask once, with SELECT: a query that stands has an answer at every instant."
        raise NotSupported("AS OF is for questions that are answered once", hint=hint, span=span_of(as_of), sql=sql)
    entry = catalog.find(table.name, span_of(table.this), sql)
    if isinstance(entry, SinkEntry):
        raise StreamNotFound(f'"{entry.name}" is a sink and cannot be read', span=span_of(table.this), sql=sql)
    if isinstance(entry, RegisteredEntry):
        hint = f"INVOKE {entry.name} asks it; SELECT ... FROM {entry.name} does, once. A query that goes on is made with CREATE QUERY."
        message = f'"{entry.name}" is a registered query: it answers when it is asked, and no other query can go on from it'
        raise NotSupported(message, hint=hint, span=span_of(table.this), sql=sql)
    scan, columns = _scan(entry)
    scope = Scope((Source(table.alias or entry.name, f'{kind_of(entry)} "{entry.name}"', columns),), sql)
    window = table.args.get("stream_window")
    if scan.retracts:
        if window is not None:
            what = f'"{entry.name}" is a relation' if isinstance(entry, RelationEntry) else f'query "{entry.name}" gives a relation'
            raise _no_window(what, window, sql)
        return BoundSelect(scan, columns, has_window=False, grows_only=False), scope
    spec = bind_window(window, scope) if window is not None else TimeWindow.unbounded()
    return BoundSelect(Window(scan, spec), columns, has_window=window is not None, grows_only=spec.grows_only), scope


def stream_scope(stream: StreamEntry) -> Scope:
    """For a window of it alone."""
    _, columns = _scan(stream)
    return Scope((Source(stream.name, f'stream "{stream.name}"', columns),), "")


def _scan(entry: StreamEntry | RelationEntry | QueryEntry) -> tuple[Scan, tuple[Visible, ...]]:
    if not isinstance(entry, QueryEntry):
        named, is_relation = tuple((field.name, field) for field in entry.schema), isinstance(entry, RelationEntry)
        scan = Scan(entry.name, named, "relation" if is_relation else "stream", retracts=is_relation)
        return scan, tuple(Visible(field.name, field.name, field.type) for field in entry.schema)
    # columns of a query may have equal names; those of its changelog do not
    stored = tuple((name, Field(name, field.type)) for name, field in zip(entry.stored_as, entry.schema, strict=True))
    visible = tuple(Visible(field.name, name, field.type) for name, field in zip(entry.stored_as, entry.schema, strict=True))
    return Scan(entry.name, stored, "query", retracts=not entry.is_stream), visible


def _no_window(what: str, window: StreamWindow, sql: str) -> WindowInvalid:
    return WindowInvalid(f"{what}, which takes no window", hint="Windows are for streams.", span=span_of(window), sql=sql)


def _pivot(item: exp.Expr, catalog: Catalog, queries: Queries, sql: str) -> tuple[BoundSelect, Scope]:
    plain, pivots = item.copy(), item.args["pivots"]
    plain.set("pivots", None)
    _, scope = _item(plain, catalog, queries, sql)
    name = pivots[0].alias
    return _derived(queries.body(pivoted(plain, pivots, scope)), exp.Subquery(), name or None, sql)


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
        raise not_supported("a window over this subquery", window, sql, _NAME_IT)
    spec = bind_window(window, Scope((Source(None, "the subquery", bound.columns),), sql))
    if isinstance(spec, RowsWindow) and len(streams_below(bound.plan)) > 1:
        raise not_supported("a ROWS window over a union", window, sql, _NAME_IT)
    return replace(bound, plan=with_window(bound.plan, spec), has_window=True, grows_only=spec.grows_only)
