"""FROM: streams with their windows, subqueries, and joins of them, as a plan whose columns are in scope.

    trades [RANGE 5 MINUTES] AS t     Window([RANGE 5 MINUTES], Scan(trades))
    trades                            Window([UNBOUNDED], Scan(trades)), not explicit
    ... JOIN ... ON ...               join_binder

Relations and queries come here next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.core.errors import AlreadyExists, MillstreamError, StreamNotFound, WindowInvalid
from millstream.language.catalog import Catalog, QueryEntry, RelationEntry, SinkEntry, StreamEntry, kind_of
from millstream.language.join_binder import conjuncts, inner_join, merged_names, renamed, using
from millstream.language.nodes import StreamWindow
from millstream.language.scope import Scope, Source, Visible
from millstream.language.spans import span_of
from millstream.language.unsupported import check_expression, check_source, not_supported
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


def bind_from(select: exp.Select, catalog: Catalog, bind_select: BindSelect, sql: str) -> tuple[BoundSelect, Scope, list[exp.Expr]]:
    """What FROM holds now, the names it gives to it, and the conditions of WHERE that are not in it yet, over the plan's columns."""
    joins: list[exp.Join] = select.args.get("joins") or []
    bound, scope = _item(select.args["from_"].this, catalog, bind_select, sql)
    where = select.args.get("where")
    if not joins:
        return bound, scope, [scope.bare(where.this)] if where is not None else []
    items = [(bound, scope)]
    for join in joins:
        items.append(_distinct_names(_item(join.this, catalog, bind_select, sql), items))
    return _joined(items, joins, where, sql)


def _item(item: exp.Expr, catalog: Catalog, bind_select: BindSelect, sql: str) -> tuple[BoundSelect, Scope]:
    match item:
        case exp.Table():
            check_source(item, sql)
            return _table(item, catalog, sql)
        case exp.Subquery():
            check_source(item, sql)
            return _subquery(item, bind_select, sql)
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
    bound, scope = items[0]
    merged: list[tuple[Scope, Source, list[str]]] = []
    scopes = [scope]
    for join, (_, own) in zip(joins, items[1:], strict=True):
        source = own.sources[0]
        names = merged_names(join, scope, source, sql)
        merged.append((scope, source, names))
        hidden = frozenset(visible.column for visible in source.columns if visible.name.lower() in map(str.lower, names))
        scope = Scope((*scope.sources, replace(source, merged=hidden)), sql)
        scopes.append(scope)
    pending = [scope.bare(condition) for condition in conjuncts(where.this if where is not None else None)]
    plan = bound.plan
    for join, (right, _), (before, source, names), after in zip(joins, items[1:], merged, scopes[1:], strict=True):
        _check_join(join, sql)
        conditions = [*using(names, before, source, join), *(after.bare(condition) for condition in conjuncts(join.args.get("on")))]
        fitting, pending = _fitting(pending, plan, right.plan)
        plan = inner_join(plan, right.plan, [*conditions, *fitting], after, "ON")
    bounds = [bound for bound, _ in items]
    whole = BoundSelect(
        plan, scope.starred, any(bound.has_window for bound in bounds), all(bound.grows_only for bound in bounds),
        any(bound.has_aggregate for bound in bounds),
    )  # fmt: skip
    return whole, scope, pending


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


def _check_join(join: exp.Join, sql: str) -> None:
    kind, side = join.args.get("kind") or "", join.args.get("side") or ""
    if side or kind not in ("", "INNER", "CROSS"):
        raise not_supported(f"{side} {kind} JOIN".strip().replace("  ", " "), join, sql)
    condition = join.args.get("on")
    if condition is not None:
        check_expression(condition, sql)


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
