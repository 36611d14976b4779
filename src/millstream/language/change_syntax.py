"""INSERT, UPDATE and DELETE, each with an optional `AT TIMESTAMP '...'` at its end."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import ParseError, Span
from millstream.core.instant import Micros
from millstream.language.cursor import Cursor
from millstream.language.dialect import CqlParser
from millstream.language.durations import parse_timestamp
from millstream.language.statements import DeleteFrom, InsertValues, UpdateSet

At = tuple[Micros | None, dict[str, Span]]
_ASSIGNED = "assigned"


def split_at(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """The statement, and its AT clause.  Taken off first: to SQL, `FROM t AT` would make AT an alias."""
    for length in (3, 2):
        tail = tokens[-length:]
        words = [token.text.upper() for token in tail[:2]]
        if len(tokens) > length and words == ["AT", "TIMESTAMP"] and tail[0].token_type == TokenType.VAR:
            return tokens[:-length], tail
    return tokens, []


def parse_at(cursor: Cursor) -> At:
    """The clause that `split_at` took off."""
    if cursor.at_end:
        return None, {}
    start = cursor.expect("AT")
    return parse_timestamp(cursor), {"at": cursor.since(start)}


def parse_insert(cursor: Cursor, parser: CqlParser, at: At) -> InsertValues:
    """Behind INSERT."""
    instant, spans = at
    cursor.expect("INTO")
    target = cursor.name("a stream's or relation's name")
    spans["target"] = target.span
    columns: tuple[str, ...] = ()
    if cursor.at("(") and not cursor.at("( SELECT"):
        names = cursor.wrapped(lambda: cursor.name("a column's name"))
        spans.update({f"columns.{i}": name.span for i, name in enumerate(names)})
        columns = tuple(name.text for name in names)
    rows: tuple[tuple[exp.Expr, ...], ...] = ()
    select = None
    if cursor.accept("VALUES"):
        rows = tuple(cursor.listed(lambda: tuple(cursor.wrapped(lambda: _expression(cursor, parser)))))
    elif cursor.word in ("SELECT", "WITH", "("):
        select = parser.parse_query()
    else:
        cursor.unexpected("VALUES or SELECT", words=("VALUES", "SELECT"))
    _finish(cursor)
    return InsertValues(target.text, columns, rows, select, instant, text=cursor.sql, spans=spans)


def parse_delete(cursor: Cursor, parser: CqlParser, at: At) -> DeleteFrom:
    """Behind DELETE."""
    instant, spans = at
    cursor.expect("FROM")
    target = cursor.name("a relation's name")
    spans["target"] = target.span
    return DeleteFrom(target.text, _where(cursor, parser), instant, text=cursor.sql, spans=spans)


def parse_update(cursor: Cursor, parser: CqlParser, at: At) -> UpdateSet:
    """Behind UPDATE."""
    instant, spans = at
    target = cursor.name("a relation's name")
    spans["target"] = target.span
    cursor.expect("SET")
    assignments: dict[str, exp.Expr] = {}

    def assignment() -> None:
        column = cursor.name("a column's name")
        if column.text.lower() in (other.lower() for other in assignments):
            raise ParseError(f'column "{column.text}" is set twice', span=column.span, sql=cursor.sql)
        spans[f"assignments.{len(assignments)}"] = column.span
        cursor.expect("=")
        assignments[column.text] = value = _expression(cursor, parser)
        value.meta[_ASSIGNED] = column.span

    cursor.listed(assignment)
    return UpdateSet(target.text, assignments, _where(cursor, parser), instant, text=cursor.sql, spans=spans)


def assigned_place(value: exp.Expr) -> Span | None:
    """Where the column stands that UPDATE ... SET gives this value."""
    span: Span | None = value.meta.get(_ASSIGNED)
    return span


def _where(cursor: Cursor, parser: CqlParser) -> exp.Expr | None:
    where = _expression(cursor, parser) if cursor.accept("WHERE") else None
    _finish(cursor)
    return where


def _finish(cursor: Cursor) -> None:
    if cursor.at("AT"):
        raise ParseError("AT needs a timestamp", hint="Write AT TIMESTAMP '2024-01-31T12:00:00Z'.", span=cursor.span, sql=cursor.sql)
    cursor.finish(("WHERE", "AT"))


def _expression(cursor: Cursor, parser: CqlParser) -> exp.Expr:
    expression = parser.parse_scalar()
    if expression is None:
        cursor.unexpected("an expression")
    return expression
