"""Cql: Spark's SQL with windows behind tables and ISTREAM/DSTREAM/RSTREAM around the select list.

Only the grammar of queries and expressions lives here.  Statements of our own (CREATE STREAM, ...)
are read by the `*_syntax` modules through a `Cursor`; sqlglot's own statements are switched off, so
that nothing falls back to its "unsupported command".

Besides reading, the parser here
    marks nodes with their places (spans.py),
    leaves functions as they were written, `exp.Anonymous`: their meaning is Spark's, not sqlglot's,
    counts its steps: sqlglot's backtracking is exponential for some damaged texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import ParseError, Span, WindowInvalid
from millstream.language.column_names import note_form, note_suffix
from millstream.language.cursor import Cursor, token_span
from millstream.language.generator import CqlGenerator
from millstream.language.spans import mark
from millstream.language.window_syntax import parse_window

T = TypeVar("T")
E = TypeVar("E", bound=exp.Expr)

TO_STREAM = {"ISTREAM", "DSTREAM", "RSTREAM"}
_NOT_AFTER_COMMA = {
    TokenType.SENTINEL, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.COMMA, TokenType.FROM, TokenType.WHERE,
    TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
}  # fmt: skip
_SPECIAL_FORMS = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "TRIM")
_WRAPPERS = (exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def _anonymous(name: str) -> Callable[[], exp.Expr]:
    return lambda: exp.Anonymous(this=name.lower(), expressions=[])


class SyntaxFailure(SqlglotParseError):
    """sqlglot's parse error with the place it means; may be caught again while sqlglot tries another reading."""

    def __init__(self, description: str, span: Span) -> None:
        super().__init__(description)
        self.description = description
        self.span = span


class CqlParser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS = {
        **{name: rule for name, rule in SparkParser.FUNCTION_PARSERS.items() if name in _SPECIAL_FORMS},
        "POSITION": lambda self: self._parse_worded("POSITION", "LOCATE", ("IN",)),
        "SUBSTR": lambda self: self._parse_worded("SUBSTR", "SUBSTRING", ("FROM", "FOR")),
        "SUBSTRING": lambda self: self._parse_worded("SUBSTRING", "SUBSTRING", ("FROM", "FOR")),
    }
    NO_PAREN_FUNCTION_PARSERS = {name: rule for name, rule in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("CASE", "IF")}
    NO_PAREN_FUNCTIONS = {token: _anonymous(token.name) for token in SparkParser.NO_PAREN_FUNCTIONS}
    STRING_PARSERS = {
        **SparkParser.STRING_PARSERS,
        TokenType.RAW_STRING: lambda self, token: self.expression(exp.Literal.string(token.text), token),
    }
    PRIMARY_PARSERS = {**SparkParser.PRIMARY_PARSERS, **STRING_PARSERS}
    # other dialects' parameters, JSON arrows and braces
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Callable[..., exp.Expr | None]]] = {}
    COLUMN_OPERATORS = {token: SparkParser.COLUMN_OPERATORS[token] for token in (TokenType.DOT, TokenType.DCOLON)}
    BRACKETS = frozenset({TokenType.L_BRACKET})

    def open(self, tokens: list[Token], sql: str) -> Cursor:
        """Starts reading one statement."""
        self.reset()
        self.sql = sql
        self._steps = 0
        self._most_steps = 50 * len(tokens) + 5_000  # a sound statement takes two steps a token
        self._to_stream: tuple[str, bool] | None = None
        self._chunks = [tokens]
        self._advance_chunk()
        return Cursor(self)

    def parse_query(self) -> exp.Query:
        """SELECT, WITH, VALUES or a set operation of these."""
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
        if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier | exp.Star | exp.Func):
            self.raise_error("expected a name behind the dot", self._prev)
        if isinstance(node, exp.Select) and self._to_stream:
            kind, distinct = self._to_stream
            self._to_stream = None
            node.set("to_stream", kind)
            if distinct:
                node.set("distinct", exp.Distinct())
        return node

    # --- guards ----------------------------------------------------------------------------

    def _advance(self, times: int = 1) -> None:
        self._steps += 1
        if self._steps > self._most_steps:
            raise ParseError("the statement is too tangled to be read", hint="Check for missing parentheses, commas and ON.", sql=self.sql)
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

    # --- windows ---------------------------------------------------------------------------

    def _parse_into(self) -> exp.Into | None:
        return None  # SELECT ... INTO is not Spark's

    def _parse_stream(self) -> exp.Stream | None:
        return None  # `FROM stream` is a name here, not Snowflake's STREAM

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if isinstance(this, exp.Table) and self._curr.token_type == TokenType.L_BRACKET:
            this.set("stream_window", parse_window(Cursor(self)))
            return this
        return super()._parse_bracket(this)

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        window = None
        if this and parse_alias and self._curr.token_type == TokenType.L_BRACKET:
            window = parse_window(Cursor(self))
        subquery = super()._parse_subquery(this, parse_alias)
        if subquery and window:
            subquery.set("stream_window", window)
        return subquery

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._curr
        table = super()._parse_table(*args, **kwargs)
        if isinstance(table, exp.Table) and any(isinstance(table.args.get(part), str) for part in ("this", "db", "catalog")):
            self.raise_error("expected a table", start)
        if isinstance(table, exp.Table | exp.Subquery):
            while self._curr.token_type == TokenType.L_BRACKET:
                span = token_span(self._curr)
                window = parse_window(Cursor(self))
                if table.args.get("stream_window"):
                    raise WindowInvalid("a stream takes one window only", span=span, sql=self.sql)
                table.set("stream_window", window)
            self._mark(table, start)
        return table

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        # sqlglot swallows the error of a table behind a comma; we want to see it
        if self._curr.token_type != TokenType.COMMA:
            join = super()._parse_join(*args, **kwargs)
            self._refuse_dangling(TokenType.ON, join)
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

    # --- the select list -------------------------------------------------------------------

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        word = self._curr.text.upper()
        if word not in TO_STREAM or self._next.token_type != TokenType.L_PAREN or self._curr.token_type == TokenType.IDENTIFIER:
            projections = super()._parse_projections()
            if not projections[0]:
                self.raise_error("expected a select list")
            return projections
        if self._prev.token_type != TokenType.SELECT:
            hint = f"Write SELECT {word}(DISTINCT ...)."
            raise ParseError(f"{word} must stand right after SELECT", hint=hint, span=token_span(self._curr), sql=self.sql)
        self._advance(2)
        distinct = self._match(TokenType.DISTINCT)
        items = self._parse_expressions()
        if not items:
            self.raise_error("expected a select list")
        self._match_r_paren()
        if self._curr.token_type in (TokenType.COMMA, TokenType.ALIAS) or self._curr.token_type in self.ID_VAR_TOKENS:
            hint = f"Put the whole list inside: {word}(a AS x, b)."
            raise ParseError(f"{word} takes the whole select list", hint=hint, span=token_span(self._curr), sql=self.sql)
        self._to_stream = (word.lower(), distinct)
        return items, None

    # --- places and names of functions -----------------------------------------------------

    def _mark(self, node: exp.Expr | None, start: Token) -> None:
        if isinstance(node, exp.Expr) and start and self._prev and self._prev.end >= start.start:
            mark(node, start.start, self._prev.end + 1)

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token = self._curr
        if token.text.upper() in TO_STREAM and self._next.token_type == TokenType.L_PAREN and token.token_type == TokenType.VAR:
            word = token.text.upper()
            hint = f"Write SELECT {word}(a, b) FROM ..."
            raise ParseError(f"{word} goes around the whole select list", hint=hint, span=token_span(token), sql=self.sql)
        node = super()._parse_function_call(*args, **kwargs)
        if node is not None:
            call = node
            while isinstance(call, _WRAPPERS):
                call = call.this
            note_form(call, token.text)
            self._mark(node, token)
        return node

    def _parse_primary(self) -> exp.Expr | None:
        start = self._curr
        node = super()._parse_primary()
        if isinstance(node, exp.Concat):  # strings side by side are one string
            node = exp.Literal.string("".join(part.name for part in node.expressions))
        self._mark(node, start)
        return node

    def _parse_worded(self, name: str, worded: str, words: tuple[str, ...]) -> exp.Expr:
        """name(a, b, c), or with words instead of the commas, which is then called `worded`."""
        args = self._parse_csv(self._parse_bitwise)
        for word in words:
            if self._match_text_seq(word):
                name = worded
                args += self._parse_csv(self._parse_bitwise)
        return self.expression(exp.Anonymous(this=name.lower(), expressions=args))

    def reset(self) -> None:
        super().reset()
        self._steps, self._most_steps = 0, 10_000

    def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
        word = self._prev.text.upper()
        node = super().build_cast(strict, **kwargs)
        if word in CqlTokenizer.NUMERIC_LITERALS:
            note_suffix(node, word)
        else:
            note_form(node, "cast")
        return node


def _marking(rule: Callable[..., exp.Expr | None]) -> Callable[..., exp.Expr | None]:
    def marked(self: CqlParser, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._curr
        node = rule(self, *args, **kwargs)
        self._mark(node, start)
        return node

    return marked


# operators need no mark: their operands have one
for _rule in ("_parse_expression", "_parse_unary"):
    setattr(CqlParser, _rule, _marking(getattr(SparkParser, _rule)))


class CqlTokenizer(Spark.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()  # EXPLAIN and SHOW are read by us, not kept as text
    STRING_ESCAPES = [*Spark.Tokenizer.STRING_ESCAPES, "'", '"']  # 'it''s'


class Cql(Spark):
    Tokenizer = CqlTokenizer
    Parser = CqlParser
    Generator = CqlGenerator
