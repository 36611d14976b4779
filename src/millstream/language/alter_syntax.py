"""ALTER QUERY: another window, another question, another time to keep its past, a pause.

ALTER QUERY q SET WINDOW [t] [RANGE 5 MINUTES]      ALTER QUERY q SET RETAIN 2 HOURS | FOR EVER      ALTER QUERY q PAUSE
ALTER QUERY q AS SELECT ...                                                                          ALTER QUERY q RESUME
"""

from __future__ import annotations

from sqlglot import exp

from millstream.core.errors import Span, WindowInvalid, did_you_mean
from millstream.language.create_syntax import refuse_tables
from millstream.language.cursor import Cursor, Name
from millstream.language.dialect import CqlParser
from millstream.language.durations import parse_duration
from millstream.language.statements import Alter, AlterRetain, AlterSelect, AlterWindow, CreateQuery, Pause, Resume
from millstream.language.window_syntax import parse_window

_HINT = "Write SET WINDOW [...], SET RETAIN ..., AS SELECT ..., PAUSE or RESUME."


def parse_alter(cursor: Cursor, parser: CqlParser) -> Alter:
    """Behind ALTER."""
    refuse_tables(cursor, "ALTER", "QUERY")
    cursor.expect("QUERY", hint="Only queries can be altered: drop the others and create them again.")
    name = cursor.name("the query's name")
    spans = {"name": name.span}
    if cursor.accept("PAUSE"):
        return Pause(name.text, text=cursor.sql, spans=spans)
    if cursor.accept("RESUME"):
        return Resume(name.text, text=cursor.sql, spans=spans)
    if cursor.accept("AS"):
        start = cursor.span
        select = parser.parse_query()
        return AlterSelect(name.text, select, text=cursor.sql, spans={**spans, "select": cursor.since(start)})
    if not cursor.accept("SET"):
        cursor.unexpected("SET, AS, PAUSE or RESUME", hint=_HINT, words=("SET", "AS", "PAUSE", "RESUME"))
    return _set(cursor, name, spans)


def _set(cursor: Cursor, name: Name, spans: dict[str, Span]) -> Alter:
    if cursor.accept("RETAIN"):
        retain_us = None if cursor.accept("FOR EVER") else parse_duration(cursor, "RETAIN")
        return AlterRetain(name.text, retain_us, text=cursor.sql, spans=spans)
    cursor.expect("WINDOW", hint=_HINT)
    of = None
    if not cursor.at("["):
        named = cursor.name("a window, or the name of what gets it")
        of, spans["of"] = named.text, named.span
    start = cursor.span
    window = parse_window(cursor)
    spans["window"] = cursor.since(start)
    return AlterWindow(name.text, window, of, text=cursor.sql, spans=spans)


def with_window(created: CreateQuery, statement: AlterWindow) -> exp.Query:
    """The query of the statement that created it, with the other window."""
    select = created.select.copy()
    tables = [table for table in select.find_all(exp.Table, exp.Subquery) if table.alias_or_name]
    windowed = [table for table in tables if table.args.get("stream_window") is not None]
    if statement.of is None:
        found = windowed or [table for table in tables if isinstance(table, exp.Table)]
    else:
        found = [table for table in tables if table.alias_or_name.lower() == statement.of.lower()]
    if len(found) != 1:
        raise _unclear(statement, len(found), sorted({table.alias_or_name for table in windowed or tables}))
    found[0].set("stream_window", statement.window.copy())
    return select


def _unclear(statement: AlterWindow, found: int, names: list[str]) -> WindowInvalid:
    place = statement.place("of") or statement.place("window")
    if statement.of is None:
        message = f'query "{statement.name}" has {found} windows'
        hint = f"Say which one: SET WINDOW {names[0]} [...]." if names else None
    elif found:
        message, hint = f'"{statement.of}" stands in query "{statement.name}" more than once', "Use ALTER QUERY ... AS SELECT ..."
    else:
        message = f'query "{statement.name}" reads nothing that is called "{statement.of}"'
        hint = did_you_mean(statement.of, names) or (f"There is {', '.join(names)}." if names else None)
    return WindowInvalid(message, hint=hint, span=place, sql=statement.text)
