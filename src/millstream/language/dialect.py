"""Cql: Spark's SQL with windows behind tables and ISTREAM/DSTREAM/RSTREAM around the select list.

Only the grammar of queries lives here, on top of strict_parser.py and expression_parser.py.  Statements
(CREATE STREAM, ...) are read by the `*_syntax` modules through a `Cursor`; sqlglot's own statements are
never reached.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from millstream.core.errors import ParseError, WindowInvalid
from millstream.language.as_of_syntax import parse_as_of
from millstream.language.cursor import Cursor, token_span
from millstream.language.expression_parser import ExpressionParser
from millstream.language.generator import CqlGenerator
from millstream.language.join_syntax import opens_timed_clause, parse_timed_join
from millstream.language.nodes import AsOf
from millstream.language.window_syntax import parse_window

E = TypeVar("E", bound=exp.Expr)

TO_STREAM = {"ISTREAM", "DSTREAM", "RSTREAM"}


class CqlParser(ExpressionParser):
    def reset(self) -> None:
        super().reset()
        self._to_stream: tuple[str, bool] | None = None
        self._as_of: AsOf | None = None

    def expression(self, instance: E, token: Token | None = None, comments: list[str] | None = None) -> E:
        node = super().expression(instance, token, comments)
        if isinstance(node, exp.Select) and self._to_stream:
            kind, distinct = self._to_stream
            self._to_stream = None
            node.set("to_stream", kind)
            if distinct:
                node.set("distinct", exp.Distinct())
        return node

    # --- windows ---------------------------------------------------------------------------

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
        if isinstance(table, exp.Table | exp.Subquery):
            while self._curr.token_type == TokenType.L_BRACKET:
                span = token_span(self._curr)
                window = parse_window(Cursor(self))
                if table.args.get("stream_window"):
                    raise WindowInvalid("a stream takes one window only", span=span, sql=self.sql)
                table.set("stream_window", window)
            if isinstance(table, exp.Table) and self._as_of is not None:
                table.set("as_of", self._as_of)
                self._as_of = None
            self._mark(table, start)
        return table

    # --- as-of and zipper joins ------------------------------------------------------------

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        return parse_timed_join(Cursor(self)) or super()._parse_join(*args, **kwargs)

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
        self._as_of = parse_as_of(Cursor(self)) or self._as_of
        is_pivot = self._curr.text.upper() in ("PIVOT", "UNPIVOT") and self._next.token_type == TokenType.L_PAREN
        return None if is_pivot or opens_timed_clause(Cursor(self)) else super()._parse_table_alias(*args, **kwargs)

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

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token, word = self._curr, self._curr.text.upper()
        if word in TO_STREAM and self._next.token_type == TokenType.L_PAREN and token.token_type == TokenType.VAR:
            hint = f"Write SELECT {word}(a, b) FROM ..."
            raise ParseError(f"{word} goes around the whole select list", hint=hint, span=token_span(token), sql=self.sql)
        return super()._parse_function_call(*args, **kwargs)


class CqlTokenizer(Spark.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()  # EXPLAIN and SHOW are read by us, not kept as text
    STRING_ESCAPES = [*Spark.Tokenizer.STRING_ESCAPES, "'", '"']  # 'it''s'


class Cql(Spark):
    Tokenizer = CqlTokenizer
    Parser = CqlParser
    Generator = CqlGenerator
