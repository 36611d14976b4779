"""`... WITH EXPIRY strategy`, behind a query: how its operators learn that rows have left their windows."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import ParseError, did_you_mean
from millstream.language.cursor import token_span
from millstream.language.statements import AlterSelect, CreateQuery, Explain, Select, Statement
from millstream.plan.expiry import DEFAULT_EXPIRY, EXPIRIES, Expiry


def split_expiry(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """The statement, and its EXPIRY clause.  Taken off first: to SQL, WITH would begin something else."""
    for length in (3, 2):
        tail = tokens[-length:]
        if (
            len(tokens) > length
            and [token.text.upper() for token in tail[:2]] == ["WITH", "EXPIRY"]
            and tail[0].token_type == TokenType.WITH
        ):
            return tokens[:-length], tail
    return tokens, []


def with_expiry(statement: Statement, clause: list[Token], sql: str) -> Statement:
    """The statement with the clause that `split_expiry` took off."""
    if not clause:
        return statement
    match statement:
        case CreateQuery() | Select() | AlterSelect():
            return replace(statement, expiry=_named(clause, sql))
        case Explain():
            return replace(statement, statement=replace(statement.statement, expiry=_named(clause, sql)))
        case _:
            raise ParseError("only a query has an EXPIRY", hint="Leave it away.", span=token_span(clause[0]), sql=sql)


def with_default_expiry(statement: Statement, default: Expiry) -> Statement:
    """A query keeps the strategy with which it was created: what a database's own default is not has to be said."""
    match statement:
        case CreateQuery() | Select() | AlterSelect() if statement.expiry is None and default != DEFAULT_EXPIRY:
            return replace(statement, expiry=default)
        case Explain():
            inner = with_default_expiry(statement.statement, default)
            assert isinstance(inner, CreateQuery | Select)
            return replace(statement, statement=inner)
        case _:
            return statement


def _named(clause: list[Token], sql: str) -> Expiry:
    names = f"Write one of {', '.join(EXPIRIES)}."
    if len(clause) == 2:
        raise ParseError("the EXPIRY has no name", hint=names, span=token_span(clause[1]), sql=sql)
    for expiry in EXPIRIES:
        if clause[2].text.lower() == expiry:
            return expiry
    text = clause[2].text
    raise ParseError(
        f'there is no EXPIRY "{text}"', hint=did_you_mean(text.lower(), EXPIRIES) or names, span=token_span(clause[2]), sql=sql
    )
