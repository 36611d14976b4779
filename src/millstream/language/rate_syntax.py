"""`... WITH RATE 10 PER SECOND`, behind a query: how often it needs to hear from those who feed its streams."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import ParseError, Span, did_you_mean
from millstream.core.instant import UNITS
from millstream.language.cursor import Cursor
from millstream.language.statements import AlterSelect, CreateQuery, Explain, Select, Statement
from millstream.plan.rate import Rate

_LONGEST = 6
"""Words of the clause, with a sign where none belongs."""


def split_rate(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """The statement, and its RATE clause.  Taken off first: to SQL, WITH would begin something else."""
    for start in range(len(tokens) - 2, max(0, len(tokens) - _LONGEST - 1), -1):
        if tokens[start].token_type == TokenType.WITH and tokens[start + 1].text.upper() == "RATE":
            return tokens[:start], tokens[start:]
    return tokens, []


def parse_rate(cursor: Cursor) -> tuple[Rate, Span] | None:
    """What `split_rate` took off, if it did."""
    if cursor.at_end:
        return None
    start = cursor.expect("WITH RATE")
    digits = cursor.number()
    if digits is None:
        cursor.unexpected("how often", hint="Write WITH RATE 10 PER SECOND.")
    if not Decimal(digits) > 0:
        hint = "Drop or stop the query if it needs nothing."
        raise ParseError("the RATE must be positive", hint=hint, span=cursor.last_span, sql=cursor.sql)
    cursor.expect("PER", hint="Write WITH RATE 10 PER SECOND.")
    rate = Rate(digits, _unit(cursor))
    cursor.finish()
    return rate, cursor.since(start)


def with_rate(statement: Statement, clause: tuple[Rate, Span] | None, sql: str) -> Statement:
    """The statement with the clause that stood behind it."""
    if clause is None:
        return statement
    rate, span = clause
    match statement:
        case CreateQuery() | Select() | AlterSelect():
            return replace(statement, rate=rate)
        case Explain():
            return replace(statement, statement=replace(statement.statement, rate=rate))
        case _:
            raise ParseError("only a query has a RATE", hint="Leave it away.", span=span, sql=sql)


def _unit(cursor: Cursor) -> str:
    word = cursor.word
    if word not in UNITS:
        hint = did_you_mean(word, UNITS) or f"Units are {', '.join(UNITS)}."
        raise ParseError(f"the RATE needs a unit of time, found {cursor.shown}", hint=hint, span=cursor.span, sql=cursor.sql)
    cursor.accept(word)
    return word
