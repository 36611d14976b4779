"""A reading position in one statement: the words, names and literals that our own grammar rules ask for.

Wraps sqlglot's parser, so that a rule of ours can read a few words, hand over to sqlglot for an
expression or a query, and go on behind it.  Which words make a statement is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import ParseError, Span, did_you_mean

T = TypeVar("T")

_TEXTS = Parser.TEXT_MATCH_EXCLUDED_TOKENS


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


def token_span(token: Token) -> Span:
    return Span(token.start, token.end + 1)


class Cursor:
    def __init__(self, parser: Parser) -> None:
        self.parser = parser

    @property
    def sql(self) -> str:
        return self.parser.sql

    @property
    def at_end(self) -> bool:
        return not self.parser._curr

    @property
    def span(self) -> Span:
        """Of the current token; behind the last character at the end."""
        return token_span(self.parser._curr) if self.parser._curr else Span(len(self.sql), len(self.sql) + 1)

    @property
    def last_span(self) -> Span:
        """Of the token that was read last."""
        return token_span(self.parser._prev) if self.parser._prev else Span(0, 1)

    @property
    def word(self) -> str:
        """The current token in capitals; empty for quoted names, strings and the end."""
        token = self.parser._curr
        return "" if token.token_type in _TEXTS else token.text.upper()

    @property
    def shown(self) -> str:
        """The current token as it stands in the text, for messages."""
        if self.at_end:
            return "the end of the statement"
        text = self.sql[self.span.start : self.span.end]
        return f'"{text if len(text) <= 40 else text[:37] + "..."}"'

    def since(self, start: Span) -> Span:
        """From `start` to the last token that was read."""
        return Span(start.start, max(start.end, self.last_span.end))

    # --- words -----------------------------------------------------------------------------

    def accept(self, phrase: str) -> bool:
        """Reads `phrase` if it stands here.  A phrase may be several words; sqlglot joins some of them into one token."""
        index, rest = self.parser._index, phrase
        while rest:
            word = self.word
            if not word or not (rest + " ").startswith(word + " "):
                self.parser._retreat(index)
                return False
            rest = rest[len(word) + 1 :]
            self.parser._advance()
        return True

    def at(self, phrase: str) -> bool:
        index = self.parser._index
        found = self.accept(phrase)
        self.parser._retreat(index)
        return found

    def expect(self, phrase: str, hint: str | None = None) -> Span:
        start = self.span
        if not self.accept(phrase):
            self.unexpected(phrase if phrase[0].isalpha() else f'"{phrase}"', hint=hint, words=[phrase])
        return self.since(start)

    def choose(self, choices: Mapping[str, T], what: str) -> T:
        """Reads one of several phrases and gives what it stands for."""
        chosen = next((phrase for phrase in choices if self.accept(phrase)), None)
        if chosen is None:
            self.unexpected(what, words=choices)
        return choices[chosen]

    def unexpected(self, wanted: str, *, hint: str | None = None, words: Iterable[str] = ()) -> NoReturn:
        """An error at the current token, with the closest of `words` as the hint."""
        raise ParseError(
            f"expected {wanted}, found {self.shown}", hint=did_you_mean(self.word, words) or hint, span=self.span, sql=self.sql
        )

    def finish(self, clauses: Iterable[str] = ()) -> None:
        """The statement must end here."""
        if not self.at_end:
            raise ParseError(f"unexpected {self.shown}", hint=did_you_mean(self.word, clauses), span=self.span, sql=self.sql)

    # --- names and literals ----------------------------------------------------------------

    def name(self, what: str) -> Name:
        """An identifier; words that open clauses elsewhere are fine as names."""
        token = self.parser._curr
        if token.token_type != TokenType.IDENTIFIER and token.token_type not in self.parser.ID_VAR_TOKENS:
            self.unexpected(what)
        if not token.text:
            raise ParseError(f"{what} cannot be empty", span=token_span(token), sql=self.sql)
        self.parser._advance()
        return Name(token.text, token_span(token))

    def string(self, what: str) -> Name:
        token = self.parser._curr
        if token.token_type not in (TokenType.STRING, TokenType.RAW_STRING):
            self.unexpected(what, hint="Put it in single quotes." if token.token_type == TokenType.VAR else None)
        self.parser._advance()
        return Name(token.text, token_span(token))

    def number(self) -> str | None:
        """The digits of a number without sign, None if there is none here."""
        dot = "." if self.parser._curr.token_type == TokenType.DOT and self.parser._next.token_type == TokenType.NUMBER else ""
        if dot:
            self.parser._advance()
        if self.parser._curr.token_type != TokenType.NUMBER:
            return None
        self.parser._advance()
        return dot + self.parser._prev.text

    # --- shapes ----------------------------------------------------------------------------

    def listed(self, item: Callable[[], T]) -> list[T]:
        """item, item, ..."""
        items = [item()]
        while self.accept(","):
            items.append(item())
        return items

    def wrapped(self, item: Callable[[], T]) -> list[T]:
        """(item, item, ...)"""
        self.expect("(")
        items = self.listed(item)
        if not self.accept(")"):
            self.unexpected('"," or ")"')
        return items
