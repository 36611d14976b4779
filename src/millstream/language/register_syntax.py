"""REGISTER QUERY, INVOKE, UNREGISTER: queries that are asked now and then.

REGISTER QUERY [IF NOT EXISTS] q [WITH (materialisation = 'none' | 'partial' | 'complete')] AS SELECT ... [BEGIN x END y]
INVOKE q                                                                                      UNREGISTER [QUERY] [IF EXISTS] q

A window at the end is that of all streams in FROM; each may have it behind its name instead, in brackets.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import ParseError, Span, WindowInvalid, did_you_mean
from millstream.language.cursor import Cursor, Name
from millstream.language.dialect import CqlParser
from millstream.language.nodes import StreamWindow
from millstream.language.spans import span_of
from millstream.language.statements import Invoke, Materialisation, Register, Statement, Unregister

_OPTIONS = ("materialisation", "materialization")
_MATERIALISATIONS: tuple[Materialisation, ...] = ("none", "partial", "complete")
_OPENING, _CLOSING = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)


def split_bounds(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """The statement, and BEGIN ... END ... behind it.  Taken off first: to SQL, `FROM t BEGIN` would make BEGIN an alias."""
    depth = 0
    for place, token in enumerate(tokens[:-1]):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0 and _is_word(token, "BEGIN") and (_is_word(tokens[place + 1], "NOW") or _is_word(tokens[place + 1], "TIMESTAMP")):
            return tokens[:place], tokens[place:]
    return tokens, []


def _is_word(token: Token, word: str) -> bool:
    return token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING) and token.text.upper() == word


def with_bounds(statement: Statement, window: StreamWindow) -> Statement:
    """The statement with the clause that `split_bounds` took off."""
    if not isinstance(statement, Register) or not isinstance(statement.select, exp.Select):
        return statement
    select = statement.select.copy()
    for item in from_items(select):
        if item.args.get("stream_window") is not None:
            hint = "Leave one of them away: BEGIN ... END ... at the end is for all streams."
            raise WindowInvalid("the stream has a window already", hint=hint, span=span_of(window), sql=statement.text)
        if isinstance(item, exp.Table):
            item.set("stream_window", window.copy())
    own, end = statement.place("select"), span_of(window)
    spans = {**statement.spans, "select": Span(own.start, end.end)} if own is not None and end is not None else statement.spans
    return replace(statement, select=select, spans=spans)


def from_items(select: exp.Select) -> list[exp.Expr]:
    """What stands in FROM, from left to right."""
    source = select.args.get("from_")
    return [] if source is None else [source.this, *(join.this for join in select.args.get("joins") or [])]


def as_register(name: str, select: str, materialise: Materialisation) -> str:
    """The statement that registers a query which is given without one."""
    quoted = "`" + name.replace("`", "``") + "`"
    return f"REGISTER QUERY {quoted} WITH (materialisation = '{materialise}') AS {select}"


def parse_register(cursor: Cursor, parser: CqlParser) -> Register:
    """Behind REGISTER."""
    cursor.expect("QUERY", hint="Write REGISTER QUERY name AS SELECT ...")
    if_not_exists = cursor.accept("IF NOT EXISTS")
    name = cursor.name("the query's name")
    if cursor.at("."):
        raise ParseError("the name of a query has no dots", span=cursor.span, sql=cursor.sql)
    materialise = _options(cursor) if cursor.accept("WITH") else "partial"
    cursor.expect("AS", hint="Write REGISTER QUERY name AS SELECT ...")
    start = cursor.span
    select = parser.parse_query()
    spans = {"name": name.span, "select": cursor.since(start)}
    return Register(name.text, select, materialise, if_not_exists, text=cursor.sql, spans=spans)


def _options(cursor: Cursor) -> Materialisation:
    found: list[Materialisation] = []

    def option() -> None:
        key = cursor.name("an option, such as materialisation")
        if key.text.lower() not in _OPTIONS:
            hint = did_you_mean(key.text, _OPTIONS[:1]) or "There is: materialisation."
            raise ParseError(f'a registered query has no option "{key.text}"', hint=hint, span=key.span, sql=cursor.sql)
        if found:
            raise ParseError(f'option "{key.text}" is given twice', span=key.span, sql=cursor.sql)
        cursor.accept("=")
        found.append(_materialisation(cursor))

    cursor.wrapped(option)
    return found[0]


def _materialisation(cursor: Cursor) -> Materialisation:
    is_quoted = cursor.parser._curr.token_type == TokenType.STRING
    value: Name = cursor.string("none, partial or complete") if is_quoted else cursor.name("none, partial or complete")
    for known in _MATERIALISATIONS:
        if value.text.lower() == known:
            return known
    hint = did_you_mean(value.text, _MATERIALISATIONS) or "Write one of none, partial, complete."
    raise ParseError(f'there is no materialisation "{value.text}"', hint=hint, span=value.span, sql=cursor.sql)


def parse_invoke(cursor: Cursor, parser: CqlParser) -> Invoke:
    """Behind INVOKE."""
    name = _own_name(cursor)
    return Invoke(name.text, text=cursor.sql, spans={"name": name.span})


def parse_unregister(cursor: Cursor, parser: CqlParser) -> Unregister:
    """Behind UNREGISTER."""
    following = cursor.parser._next
    if cursor.at("QUERY") and following:  # else it is the name
        cursor.expect("QUERY")
    if_exists = cursor.accept("IF EXISTS")
    name = _own_name(cursor)
    return Unregister(name.text, if_exists, text=cursor.sql, spans={"name": name.span})


def _own_name(cursor: Cursor) -> Name:
    name = cursor.name("the name of a registered query")
    cursor.finish()
    return name
