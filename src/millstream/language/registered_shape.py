"""What a registered query may be: streams joined under one window of time, and anything made of what they hold then.

Checked on the text, where every part has its place.  What is allowed here the binder gives a plan whose lower part is scans, windows of
equal bounds, filters, projections and inner joins: the part that PSoup keeps at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from millstream.core.errors import NotSupported, WindowInvalid
from millstream.language.catalog import SYSTEM_STREAM, Catalog, StreamEntry, kind_of
from millstream.language.from_binder import stream_scope
from millstream.language.nodes import AsOf, StreamWindow
from millstream.language.python_functions import functions_in
from millstream.language.register_syntax import from_items
from millstream.language.spans import span_of
from millstream.language.window_binder import bind_window
from millstream.plan.window import RowsWindow, TimeWindow

_CREATE_QUERY = "CREATE QUERY takes it: such a query goes on by itself."


def check_registered(query: exp.Expr, catalog: Catalog, sql: str) -> None:
    """NOT_SUPPORTED or WINDOW_INVALID at the first part that cannot be."""
    while isinstance(query, exp.Subquery) and query.is_wrapper:
        query = query.this
    for what, node, hint in _refused(query, catalog):
        place = node
        while span_of(place) is None and place.parent is not None:
            place = place.parent
        raise NotSupported(f"a registered query cannot have {what}", hint=hint, span=span_of(place), sql=sql)
    assert isinstance(query, exp.Select)
    _check_windows(query, catalog, sql)


def _refused(query: exp.Expr, catalog: Catalog) -> Iterator[tuple[str, exp.Expr, str]]:
    if not isinstance(query, exp.Select):
        yield "UNION, INTERSECT or EXCEPT", query, "Register its parts, and put their answers together."
        return
    if query.args.get("with_"):
        yield "WITH", query.args["with_"], "Write the query out."
    if kind := query.args.get("to_stream"):
        yield kind.upper(), query, "It answers with a relation, when it is invoked; " + _CREATE_QUERY
    for item in from_items(query):
        yield from _refused_item(item, catalog)
    for join in query.args.get("joins") or []:
        yield from _refused_join(join)
    for inner in query.find_all(exp.Select, exp.SetOperation):
        if inner is not query:
            yield "a query inside it", inner, _CREATE_QUERY
    for call in query.find_all(exp.Anonymous):
        if functions_in(call, catalog.functions):
            yield "functions in Python", call, _CREATE_QUERY


def _refused_item(item: exp.Expr, catalog: Catalog) -> Iterator[tuple[str, exp.Expr, str]]:
    if item.args.get("pivots"):
        yield "PIVOT", item, _CREATE_QUERY
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
        yield "anything but streams in FROM", item, _CREATE_QUERY
        return
    if (as_of := item.args.get("as_of")) is not None:
        assert isinstance(as_of, AsOf)
        yield "AS OF", as_of, "It is asked as of now; a SELECT that is answered once may ask for the past."
    entry = catalog.entries.get(item.name.lower())
    if entry is SYSTEM_STREAM:
        yield f'the system stream "{entry.name}" in FROM', item.this, _CREATE_QUERY
    elif entry is not None and not isinstance(entry, StreamEntry):
        yield f'the {kind_of(entry)} "{entry.name}" in FROM', item.this, f"It reads streams only. {_CREATE_QUERY}"


def _refused_join(join: exp.Join) -> Iterator[tuple[str, exp.Expr, str]]:
    kind = (join.args.get("kind") or "").upper()
    side = (join.args.get("side") or "").upper()
    method = (join.args.get("method") or "").upper()
    if side or kind in ("SEMI", "ANTI"):
        yield f"{' '.join(filter(None, (side, kind)))} JOIN".replace("  ", " "), join, f"Inner joins only. {_CREATE_QUERY}"
    elif method not in ("", "NATURAL") or join.args.get("within_us") is not None or join.args.get("match_condition") is not None:
        yield f"{method or 'this kind of'} JOIN", join, f"Inner joins only. {_CREATE_QUERY}"


def _check_windows(select: exp.Select, catalog: Catalog, sql: str) -> None:
    """All in time, and all the same: a combination of rows is in the window if all of its rows are."""
    first: TimeWindow | None = None
    for item in from_items(select):
        entry = catalog.find(item.name, span_of(item.this), sql)
        assert isinstance(entry, StreamEntry)
        window: StreamWindow | None = item.args.get("stream_window")
        spec = bind_window(window, stream_scope(entry)) if window is not None else TimeWindow.unbounded()
        if isinstance(spec, RowsWindow) or spec.slide_us is not None:
            what = "ROWS" if isinstance(spec, RowsWindow) else "SLIDE"
            hint = f"Write [RANGE ...] or [BEGIN ... END ...]. {_CREATE_QUERY}"
            raise NotSupported(f"a registered query cannot have a window with {what}", hint=hint, span=span_of(window), sql=sql)
        spec = replace(spec, text="")
        if first is not None and spec != first:
            hint = "Give the same one to all streams, or write BEGIN ... END ... once, at the end."
            place = span_of(window) or span_of(item)
            raise WindowInvalid("the streams of a registered query have one window, the same for all", hint=hint, span=place, sql=sql)
        first = spec
