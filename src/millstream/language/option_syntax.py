"""Where rows come from or go to: `'kafka' OPTIONS (subscribe 'trades', maxOffsetsPerTrigger = 1000)`.

Options are what Spark's readers and writers take: text to text.  What they mean is up to the format.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from millstream.core.errors import ParseError
from millstream.core.secrets import Options
from millstream.language.cursor import Cursor, Name


def parse_source(cursor: Cursor) -> tuple[str, Options]:
    """'format' [OPTIONS (key 'value', ...)]"""
    format_ = cursor.string("a format in quotes, such as 'kafka'")
    options = Options()
    if cursor.accept("OPTIONS"):
        for key, value in cursor.wrapped(lambda: _option(cursor)):
            if key.text.lower() in (known.lower() for known in options):
                raise ParseError(f'option "{key.text}" is given twice', span=key.span, sql=cursor.sql)
            options[key.text] = value
    return format_.text, options


def _option(cursor: Cursor) -> tuple[Name, str]:
    """key 'value' or key = 'value'; the key may have dots or stand in quotes."""
    start = cursor.span
    if cursor.parser._curr.token_type == TokenType.STRING:
        key = cursor.string("an option's name").text
    else:
        key = cursor.name("an option's name").text
        while cursor.accept("."):
            key += "." + cursor.name("the rest of the option's name").text
    span = cursor.since(start)
    cursor.accept("=")
    return Name(key, span), _value(cursor)


def _value(cursor: Cursor) -> str:
    if cursor.word in ("TRUE", "FALSE"):
        word = cursor.word.lower()
        cursor.accept(cursor.word)
        return word
    sign = "-" if cursor.accept("-") else ""
    digits = cursor.number()
    if digits is not None:
        return sign + digits
    if sign:
        cursor.unexpected("a number")
    return cursor.string("a value in quotes").text
