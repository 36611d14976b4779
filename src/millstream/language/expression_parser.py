"""Expressions: functions stay as they were written, and nodes know their places.

sqlglot gives functions classes of its own, rearranges their arguments and forgets their names.  What a
function means is Spark's business, so all but a few special forms are read as `exp.Anonymous`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from millstream.language.column_names import note_form, note_suffix, note_typed_literal
from millstream.language.strict_parser import StrictParser

_SPECIAL_FORMS = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "TRIM")
_WRAPPERS = (exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def _anonymous(name: str) -> Callable[[], exp.Expr]:
    return lambda: exp.Anonymous(this=name.lower(), expressions=[])


class ExpressionParser(StrictParser):
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

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token = self._curr
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

    def _parse_type(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        node = super()._parse_type(*args, **kwargs)
        note_typed_literal(node)
        return node

    def _parse_worded(self, name: str, worded: str, words: tuple[str, ...]) -> exp.Expr:
        """name(a, b, c), or with words instead of the commas, which is then called `worded`."""
        args = self._parse_csv(self._parse_bitwise)
        for word in words:
            if self._match_text_seq(word):
                name = worded
                args += self._parse_csv(self._parse_bitwise)
        return self.expression(exp.Anonymous(this=name.lower(), expressions=args))

    def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
        word = self._prev.text.upper()
        node = super().build_cast(strict, **kwargs)
        if word in Spark.Tokenizer.NUMERIC_LITERALS:
            note_suffix(node, word)
        else:
            note_form(node, "cast")
        return node


def _marking(rule: Callable[..., exp.Expr | None]) -> Callable[..., exp.Expr | None]:
    def marked(self: ExpressionParser, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._curr
        node = rule(self, *args, **kwargs)
        self._mark(node, start)
        return node

    return marked


# operators need no mark: their operands have one
for _rule in ("_parse_expression", "_parse_unary", "_parse_select", "_parse_with", "_parse_order", "_parse_limit", "_parse_lateral"):
    setattr(ExpressionParser, _rule, _marking(getattr(StrictParser, _rule)))
