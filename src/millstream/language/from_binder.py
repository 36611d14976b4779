"""FROM: a stream with its window, or a subquery over one, as a plan whose columns are in scope.

    trades [RANGE 5 MINUTES] AS t     Window([RANGE 5 MINUTES], Scan(trades))
    trades                            Window([UNBOUNDED], Scan(trades)), not explicit

Relations, queries and joins come here next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.core.errors import MillstreamError, StreamNotFound, WindowInvalid
from millstream.language.catalog import Catalog, QueryEntry, RelationEntry, SinkEntry, StreamEntry, kind_of
from millstream.language.nodes import StreamWindow
from millstream.language.scope import Scope, Source, Visible
from millstream.language.spans import span_of
from millstream.language.unsupported import check_source, not_supported
from millstream.language.window_binder import bind_window
from millstream.plan.logical import Filter, Plan, Project, Scan, Window
from millstream.plan.window import RowsWindow, TimeWindow, WindowSpec


@dataclass(frozen=True)
class BoundSelect:
    """A SELECT without its ToStream: its columns, and what decides whether it is a stream by default."""

    plan: Plan
    columns: tuple[Visible, ...]
    has_window: bool  # written by the user
    grows_only: bool  # rows never leave the answer
    has_aggregate: bool = False


BindSelect = Callable[[exp.Select], BoundSelect]


def bind_from(from_: exp.From, catalog: Catalog, bind_select: BindSelect, sql: str) -> tuple[BoundSelect, Scope]:
    """What FROM holds now, and the names it gives to it."""
    item = from_.this
    match item:
        case exp.Table():
            check_source(item, sql)
            return _table(item, catalog, sql)
        case exp.Subquery():
            check_source(item, sql)
            return _subquery(item, bind_select, sql)
    raise not_supported(f"{type(item).__name__.upper()} in FROM", item, sql)


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
    spec = _bind_window(window, scope, sql) if window is not None else TimeWindow.unbounded()
    plan = Window(Scan(entry.name, tuple((field.name, field) for field in entry.schema)), spec)
    return BoundSelect(plan, columns, has_window=window is not None, grows_only=_grows_only(spec)), scope


def _not_a_stream(entry: RelationEntry | QueryEntry | SinkEntry, table: exp.Table, sql: str) -> MillstreamError:
    if isinstance(entry, SinkEntry):
        return StreamNotFound(f'"{entry.name}" is a sink and cannot be read', span=span_of(table.this), sql=sql)
    window = table.args.get("stream_window")
    if window is not None and not (isinstance(entry, QueryEntry) and entry.is_stream):
        what = f'"{entry.name}" is a relation' if isinstance(entry, RelationEntry) else f'query "{entry.name}" gives a relation'
        return _no_window(what, window, sql)
    return not_supported(f"a {kind_of(entry)} in FROM", table, sql)


def _bind_window(window: StreamWindow, scope: Scope, sql: str) -> WindowSpec:
    spec = bind_window(window, scope)
    if isinstance(spec, RowsWindow):
        raise not_supported("a ROWS window", window, sql, "Use RANGE.")
    return spec


def _grows_only(spec: WindowSpec) -> bool:
    return isinstance(spec, TimeWindow) and spec.grows_only


def _no_window(what: str, window: StreamWindow, sql: str) -> WindowInvalid:
    return WindowInvalid(f"{what}, which takes no window", hint="Windows are for streams.", span=span_of(window), sql=sql)


# --- subqueries -----------------------------------------------------------------------------


def _subquery(subquery: exp.Subquery, bind_select: BindSelect, sql: str) -> tuple[BoundSelect, Scope]:
    select = subquery.this
    if not isinstance(select, exp.Select):
        raise not_supported("this subquery", subquery, sql)
    if select.args.get("to_stream"):
        raise not_supported("ISTREAM, DSTREAM or RSTREAM in a subquery", subquery, sql, "Name it with CREATE QUERY.")
    bound = bind_select(select)
    window = subquery.args.get("stream_window")
    if window is not None:
        bound = _rewindowed(bound, window, sql)
    qualifier = subquery.alias or None
    described = f'subquery "{qualifier}"' if qualifier else "the subquery"
    return bound, Scope((Source(qualifier, described, bound.columns),), sql)


def _rewindowed(bound: BoundSelect, window: StreamWindow, sql: str) -> BoundSelect:
    """A window over rows that were only filtered and projected: the same as over the stream itself."""
    if bound.has_window or not bound.grows_only:
        raise _no_window("the subquery is a relation", window, sql)
    if bound.has_aggregate:
        raise not_supported("a window over this subquery", window, sql)
    spec = _bind_window(window, Scope((), sql), sql)
    return replace(bound, plan=_with_window(bound.plan, spec), has_window=True, grows_only=_grows_only(spec))


def _with_window(plan: Plan, spec: WindowSpec) -> Plan:
    match plan:
        case Window(input=stream):
            return Window(stream, spec)
        case Filter() | Project():
            return replace(plan, input=_with_window(plan.input, spec))
    raise AssertionError(f"{type(plan).__name__} does not commute with a window")
