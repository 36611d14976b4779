"""Text to statements: cuts a script at its semicolons, finds the rule for each statement, gives every failure a place.

    parse("CREATE STREAM ...; SELECT ...")  ->  [CreateStream(...), Select(...)]

Each statement keeps its own text, without the semicolon; all places are relative to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import MillstreamError, ParseError, Span, did_you_mean
from millstream.core.secrets import secret_ranges
from millstream.language.alter_syntax import parse_alter
from millstream.language.change_syntax import At, parse_at, parse_delete, parse_insert, parse_update, split_at
from millstream.language.create_syntax import parse_create, refuse_tables
from millstream.language.cursor import Cursor, token_span
from millstream.language.dialect import TO_STREAM, Cql, CqlParser, CqlTokenizer
from millstream.language.expiry_syntax import split_expiry, with_expiry
from millstream.language.rate_syntax import parse_rate, split_rate, with_rate
from millstream.language.register_syntax import parse_invoke, parse_register, parse_unregister, split_bounds, with_bounds
from millstream.language.statements import CreateQuery, Describe, Drop, Explain, Kind, Kinds, Select, Show, Statement
from millstream.language.strict_parser import SyntaxFailure
from millstream.language.window_syntax import parse_bounds

_KINDS: dict[str, Kind] = {"STREAM": "stream", "RELATION": "relation", "QUERY": "query", "SINK": "sink"}
_PLURALS: dict[str, Kinds] = {"STREAMS": "streams", "RELATIONS": "relations", "QUERIES": "queries", "SINKS": "sinks", "SHARING": "sharing"}
_REGISTERED: dict[str, Kinds] = {"REGISTERED QUERIES": "registered", "REGISTERED": "registered"}
_OPENING_WORDS = (
    "SELECT", "WITH", "CREATE", "ALTER", "INSERT", "UPDATE", "DELETE", "DROP", "SHOW", "DESCRIBE", "EXPLAIN", "REGISTER", "INVOKE",
    "UNREGISTER",
)  # fmt: skip
_QUERY_WORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "OUTER",
    "CROSS", "USING", "UNION", "INTERSECT", "EXCEPT", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "OVER", "PARTITION",
    *TO_STREAM,
)  # fmt: skip
_TRAILING_COMMENTS = re.compile(r"\s+|--[^\n]*|/\*.*?\*/", re.DOTALL)


def parse(text: str) -> list[Statement]:
    """All statements of a script, in order."""
    return [_statement(tokens, sql) for tokens, sql in _split(text)]


def parse_one(text: str) -> Statement:
    """The one statement of `text`; a semicolon behind it is fine."""
    pieces = _split(text)
    if not pieces:
        raise ParseError("there is no statement", hint="Write one, such as SELECT * FROM my_stream.", span=Span(0, 1), sql=text)
    if len(pieces) > 1:
        place = text.find(pieces[1][1], len(pieces[0][1]))
        raise ParseError("expected one statement, found several", span=Span(max(place, 0), max(place, 0) + 1), sql=text)
    return _statement(*pieces[0])


# --- cutting a script into statements --------------------------------------------------------


def _split(text: str) -> list[tuple[list[Token], str]]:
    """Each statement's tokens, placed relative to its own text."""
    tokens = _tokens(text)
    pieces: list[tuple[list[Token], str]] = []
    piece: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            piece.append(token)
        elif piece:
            pieces.append(_piece(piece, text))
            piece = []
    if piece:
        pieces.append(_piece(piece, text))
    return pieces


def _piece(tokens: list[Token], text: str) -> tuple[list[Token], str]:
    start = tokens[0].start
    for token in tokens:
        token.start -= start
        token.end -= start
    return tokens, text[start : start + tokens[-1].end + 1]


def _tokens(text: str) -> list[Token]:
    tokenizer = CqlTokenizer(dialect=Cql)
    try:
        tokens = tokenizer.tokenize(text)
    except TokenError:
        raise _unreadable(text, tokenizer._core._start) from None
    except RecursionError:
        raise _too_deep(text) from None
    for token in tokens:
        token.comments = []  # sqlglot would keep them in the tree, and obey some of them
    end = tokens[-1].end + 1 if tokens else 0
    while match := _TRAILING_COMMENTS.match(text, end):
        end = match.end()
    if text.startswith("/*", end):
        raise _unreadable(text, end)
    return tokens


def _unreadable(text: str, start: int) -> ParseError:
    if text.startswith("/*", start):
        return ParseError("the comment is never closed", hint="Close it with */.", span=Span(start, start + 2), sql=text)
    quote = text[start : start + 1]
    if quote in ("'", '"', "`"):
        return ParseError(f"the quote {quote} is never closed", hint=f"Close it with {quote}.", span=Span(start, start + 1), sql=text)
    return ParseError("the text cannot be read from here on", span=Span(start, start + 1), sql=text)


# --- one statement -------------------------------------------------------------------------


def _statement(tokens: list[Token], sql: str) -> Statement:
    parser = CqlParser(dialect=Cql)
    try:
        _check_brackets(tokens, sql)
        return _read(tokens, sql, parser)
    except MillstreamError as error:
        raise error.in_sql(sql) from None
    except SyntaxFailure as failure:
        raise _explained(failure, tokens, sql) from None
    except RecursionError:
        raise _too_deep(sql) from None
    except Exception as error:
        # sqlglot's rules trip over damaged texts in many ways of their own; to the user all of them are one
        place = parser._curr or parser._prev
        # and what they say of it may quote it
        cause = None if secret_ranges(sql) else error
        raise ParseError("the statement cannot be read", span=token_span(place) if place else Span(0, 1), sql=sql) from cause


def _read(tokens: list[Token], sql: str, parser: CqlParser) -> Statement:
    word = tokens[0].text.upper() if tokens[0].token_type != TokenType.IDENTIFIER else ""
    if word in _CHANGES:
        tokens, tail = split_at(tokens)
        at = parse_at(parser.open(tail, sql))
        return _CHANGES[word](parser.open(tokens[1:], sql), parser, at)
    tokens, rate = split_rate(tokens)
    tokens, expiry = split_expiry(tokens)
    if not rate:  # the clauses may stand in either order
        tokens, rate = split_rate(tokens)
    demanded = parse_rate(parser.open(rate, sql))
    tokens, bounds = split_bounds(tokens) if word == "REGISTER" else (tokens, [])
    window = parse_bounds(parser.open(bounds, sql)) if bounds else None
    cursor = parser.open(tokens, sql)
    if word in _RULES:
        cursor.accept(word)
        statement = _RULES[word](cursor, parser)
    elif word in ("SELECT", "WITH", "FROM", "("):
        statement = Select(parser.parse_query(), text=sql)
    else:
        cursor.unexpected("a statement", hint=f"Statements start with {', '.join(_OPENING_WORDS)}.", words=_OPENING_WORDS)
    if not cursor.at_end:
        parser.raise_error("unexpected token")
    if window is not None:
        statement = with_bounds(statement, window)
    return with_rate(with_expiry(statement, expiry, sql), demanded, sql)


def _drop(cursor: Cursor, parser: CqlParser) -> Drop:
    wanted = "STREAM, RELATION, QUERY or SINK"
    refuse_tables(cursor, "DROP", wanted)
    kind = cursor.choose(_KINDS, wanted)
    if_exists = cursor.accept("IF EXISTS")
    name = cursor.name(f"the {kind}'s name")
    return Drop(kind, name.text, if_exists, text=cursor.sql, spans={"name": name.span})


def _show(cursor: Cursor, parser: CqlParser) -> Show:
    wanted = "STREAMS, RELATIONS, QUERIES, SINKS or SHARING"
    refuse_tables(cursor, "SHOW", wanted)
    return Show(cursor.choose({**_REGISTERED, **_PLURALS}, wanted), text=cursor.sql)


def _describe(cursor: Cursor, parser: CqlParser) -> Describe:
    name = cursor.name("a name")
    return Describe(name.text, text=cursor.sql, spans={"name": name.span})


def _explain(cursor: Cursor, parser: CqlParser) -> Explain:
    analyze = cursor.accept("ANALYZE")
    if cursor.accept("CREATE"):
        start = cursor.last_span
        statement = parse_create(cursor, parser)
        if not isinstance(statement, CreateQuery):
            raise ParseError("EXPLAIN takes a query", hint="Write EXPLAIN SELECT ...", span=cursor.since(start), sql=cursor.sql)
        return Explain(statement, analyze, text=cursor.sql)
    if cursor.word not in ("SELECT", "WITH", "("):
        cursor.unexpected("SELECT", words=("SELECT", "ANALYZE", "WITH", "CREATE QUERY"))
    return Explain(Select(parser.parse_query(), text=cursor.sql), analyze, text=cursor.sql)


_CHANGES: dict[str, Callable[[Cursor, CqlParser, At], Statement]] = {"INSERT": parse_insert, "UPDATE": parse_update, "DELETE": parse_delete}
_RULES: dict[str, Callable[[Cursor, CqlParser], Statement]] = {
    "CREATE": parse_create, "ALTER": parse_alter, "DROP": _drop, "SHOW": _show,
    "DESCRIBE": _describe, "DESC": _describe, "EXPLAIN": _explain,
    "REGISTER": parse_register, "INVOKE": parse_invoke, "UNREGISTER": parse_unregister,
}  # fmt: skip


# --- errors ----------------------------------------------------------------------------------


def _check_brackets(tokens: list[Token], sql: str) -> None:
    closing = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
    opened: list[Token] = []
    for token in tokens:
        if token.token_type in closing:
            opened.append(token)
        elif token.token_type in closing.values():
            if not opened or closing[opened[-1].token_type] != token.token_type:
                hint = f'"{opened[-1].text}" is still open before it.' if opened else None
                raise ParseError(f'nothing opens this "{token.text}"', hint=hint, span=token_span(token), sql=sql)
            opened.pop()
    if opened:
        raise ParseError(f'"{opened[-1].text}" is never closed', span=token_span(opened[-1]), sql=sql)


def _explained(failure: SyntaxFailure, tokens: list[Token], sql: str) -> ParseError:
    """sqlglot's words replaced by ours: where it stopped, and what was probably meant."""
    index = next((i for i, token in enumerate(tokens) if token.start >= failure.span.start), len(tokens))
    for token in tokens[max(index - 1, 0) : index + 1][::-1]:
        # a misspelt keyword is often taken for an alias, and the error shows one token later
        if token.token_type == TokenType.VAR and len(token.text) > 2 and token.text.upper() not in _QUERY_WORDS:
            hint = did_you_mean(token.text, _QUERY_WORDS)
            if hint:
                return ParseError(f'unexpected "{token.text}"', hint=hint, span=token_span(token), sql=sql)
    if index == len(tokens):
        return ParseError("the statement ends too early", span=Span(len(sql), len(sql) + 1), sql=sql)
    token = tokens[index]
    return ParseError(f'unexpected "{sql[token.start : token.end + 1][:40]}"', span=token_span(token), sql=sql)


def _too_deep(sql: str) -> ParseError:
    return ParseError("the statement is nested too deeply", hint="Break it into several queries.", span=Span(0, 1), sql=sql)
