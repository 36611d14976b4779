"""Spark's grammar as sqlglot reads it, made strict.

sqlglot reads many dialects and forgives a lot: trailing commas, clauses that end after their first word,
parameters, other systems' syntax.  Here all that is an error with a place.  Two rules whose backtracking
is exponential are cut off, and steps are counted, so that no damaged text can hang the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import ParseError, Span
from millstream.language.cursor import Cursor, token_span
from millstream.language.limit_syntax import parse_fetch, refuse_limit_options
from millstream.language.spans import mark

T = TypeVar("T")
E = TypeVar("E", bound=exp.Expr)

_NOT_AFTER_COMMA = {
    TokenType.SENTINEL, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.COMMA, TokenType.FROM, TokenType.WHERE,
    TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
}  # fmt: skip


class SyntaxFailure(SqlglotParseError):
    """sqlglot's parse error with the place it means; may be caught again while sqlglot tries another reading."""

    def __init__(self, description: str, span: Span) -> None:
        super().__init__(description)
        self.description = description
        self.span = span


class StrictParser(SparkParser):
    # other dialects' parameters, JSON arrows and braces
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Callable[..., exp.Expr | None]]] = {}
    COLUMN_OPERATORS = {token: SparkParser.COLUMN_OPERATORS[token] for token in (TokenType.DOT, TokenType.DCOLON)}
    BRACKETS = frozenset({TokenType.L_BRACKET})
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}  # array(1, 2)[0] is an element

    def open(self, tokens: list[Token], sql: str) -> Cursor:
        """Starts reading one statement."""
        self.reset()
        self.sql = sql
        self._most_steps = 50 * len(tokens) + 5_000  # a sound statement takes two steps a token
        self._chunks = [tokens]
        self._advance_chunk()
        return Cursor(self)

    def reset(self) -> None:
        super().reset()
        self._steps, self._most_steps = 0, 5_000

    def parse_query(self) -> exp.Query:
        """SELECT, WITH or a set operation of these."""
        start = self._curr
        query = self._parse_ddl_select()
        if not isinstance(query, exp.Query):
            self.raise_error("expected a query", start)
        assert isinstance(query, exp.Query)
        self._mark(query, start)
        return query

    def parse_scalar(self) -> exp.Expr | None:
        """One expression without an alias; None if none stands here."""
        start = self._curr
        expression = self._parse_disjunction()
        self._mark(expression, start)
        return expression

    def raise_error(self, message: str, token: Token = SENTINEL_NONE) -> None:
        token = token or self._curr
        end = len(self.sql)
        raise SyntaxFailure(message, token_span(token) if token else Span(end, end + 1))

    def expression(self, instance: E, token: Token | None = None, comments: list[str] | None = None) -> E:
        node = super().expression(instance, token, comments)
        if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier | exp.Star):
            self.raise_error("expected the name of a field behind the dot", self._prev)
        return node

    def _mark(self, node: exp.Expr | None, start: Token) -> None:
        if isinstance(node, exp.Expr) and start and self._prev and self._prev.end >= start.start:
            mark(node, start.start, self._prev.end + 1)

    def _advance(self, times: int = 1) -> None:
        self._steps += 1
        if self._steps > self._most_steps:
            hint = "Check for missing parentheses, commas and ON."
            raise ParseError("the statement is too tangled to be read", hint=hint, span=Span(0, 1), sql=self.sql)
        super()._advance(times)

    def _parse_statement(self) -> exp.Expr | None:
        # WITH and parentheses come through here: only a query may stand behind or inside them
        return self.parse_query()

    def _parse_csv(self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA) -> list[T]:
        def item() -> T | None:
            after_comma = self._prev.token_type == sep
            result = parse_method()
            if result is None and (self._curr.token_type == sep or (after_comma and self._curr.token_type in _NOT_AFTER_COMMA)):
                self.raise_error("expected an item beside the comma")
            return result

        return super()._parse_csv(item, sep)

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
        alias = super()._parse_table_alias(*args, **kwargs)
        self._refuse_dangling(TokenType.ALIAS, alias)
        return alias

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        window = super()._parse_window(this, alias)
        self._refuse_dangling(TokenType.OVER, window)
        return window

    def _parse_group(self, *args: Any, **kwargs: Any) -> exp.Group | None:
        group = super()._parse_group(*args, **kwargs)
        self._refuse_dangling(TokenType.GROUP_BY, group)
        return group

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        node = super()._parse_in(this, alias)
        if not any(node.args.get(key) for key in ("expressions", "query", "unnest", "field")):
            self.raise_error("IN needs at least one value", self._prev)
        return node

    def _refuse_dangling(self, word: TokenType, node: exp.Expr | None) -> None:
        """sqlglot forgives a clause that ends right after its word; SQL does not."""
        if self._prev.token_type == word and (node is not None or word == TokenType.ALIAS):
            self.raise_error("expected more")

    def _parse_limit(self, this: exp.Expr | None = None, top: bool = False, skip_limit_token: bool = False) -> exp.Expr | None:
        return parse_fetch(Cursor(self)) or super()._parse_limit(this, top, skip_limit_token)

    def _parse_limit_options(self) -> exp.LimitOptions | None:
        refuse_limit_options(Cursor(self), token_span(self._prev))
        return None

    def _parse_limit_by(self) -> list[exp.Expr] | None:
        return None  # LIMIT ... BY is not Spark's

    # --- rules that are not Spark's ---------------------------------------------------------

    def _parse_into(self) -> exp.Into | None:
        return None  # SELECT ... INTO is not Spark's

    def _parse_stream(self) -> exp.Stream | None:
        return None  # `FROM stream` is a name here, not Snowflake's STREAM

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._curr
        table = super()._parse_table(*args, **kwargs)
        if isinstance(table, exp.Table) and any(isinstance(table.args.get(part), str) for part in ("this", "db", "catalog")):
            self.raise_error("expected a table", start)
        return table

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        # sqlglot swallows the error of a table behind a comma; we want to see it
        start = self._curr
        if start.token_type != TokenType.COMMA:
            join = super()._parse_join(*args, **kwargs)
            self._refuse_dangling(TokenType.ON, join)
            self._mark(join, start)
            return join
        self._advance()
        table = self._parse_table(alias_tokens=kwargs.get("alias_tokens"))
        return self.expression(exp.Join(this=table, kind="CROSS"))

    def _parse_joins(self, *args: Any, **kwargs: Any) -> Iterator[exp.Join]:
        # with `alias_tokens` sqlglot asks for a JOIN (b JOIN c ON ..) ON .. without parentheses: not Spark's, and exponential
        return iter(()) if "alias_tokens" in kwargs else super()._parse_joins(*args, **kwargs)

    def _parse_types(self, check_func: bool = False, *args: Any, **kwargs: Any) -> exp.Expr | None:
        # struct(..), array(..) and map(..) are functions; reading them as types first is exponential
        if check_func and self._curr.token_type in self.NESTED_TYPE_TOKENS and self._next.token_type == TokenType.L_PAREN:
            return None
        return super()._parse_types(check_func, *args, **kwargs)
