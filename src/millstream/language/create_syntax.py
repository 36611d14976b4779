"""CREATE STREAM, RELATION, QUERY and SINK.

Reads the words only: whether types exist, columns repeat or names are taken is the catalog's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sqlglot.tokenizer_core import TokenType

from millstream.core.errors import ParseError, Span, did_you_mean
from millstream.core.instant import Micros
from millstream.core.secrets import Options
from millstream.language.cursor import Cursor
from millstream.language.dialect import CqlParser
from millstream.language.durations import parse_duration, parse_timestamp
from millstream.language.option_syntax import parse_source
from millstream.language.statements import ColumnDefinition, CreateQuery, CreateRelation, CreateSink, CreateStream, OnError, Start

Create = CreateStream | CreateRelation | CreateQuery | CreateSink
Spans = dict[str, Span]

_CONSTRAINTS = {"PRIMARY KEY", "PRIMARY", "NOT", "NULL", "DEFAULT", "COMMENT", "GENERATED"}
_NESTING = {"(": 1, "<": 1, ")": -1, ">": -1, ">>": -2}


_NAMED_HERE = {"TABLE": "RELATION", "VIEW": "QUERY", "TABLES": "RELATIONS", "VIEWS": "QUERIES"}


def refuse_tables(cursor: Cursor, verb: str, wanted: str) -> None:
    """CREATE TABLE, DROP VIEW, SHOW TABLES: what other systems call by these words has another name here."""
    kind = _NAMED_HERE.get(cursor.word)
    if kind is not None:
        one = cursor.word.removesuffix("S")
        cursor.unexpected(wanted, hint=f"A {one.lower()} is a {_NAMED_HERE[one]} here: {verb} {kind}.")


def parse_create(cursor: Cursor, parser: CqlParser) -> Create:
    """Behind CREATE."""
    if cursor.at("OR"):
        raise ParseError("OR REPLACE is not known", hint="DROP the old one first.", span=cursor.span, sql=cursor.sql)
    wanted = "STREAM, RELATION, QUERY or SINK"
    refuse_tables(cursor, "CREATE", wanted)
    rules: dict[str, Callable[[Cursor, CqlParser, bool], Create]] = {
        "STREAM": _stream, "RELATION": _relation, "QUERY": _query, "SINK": _sink,
    }  # fmt: skip
    rule = cursor.choose(rules, wanted)
    return rule(cursor, parser, cursor.accept("IF NOT EXISTS"))


# --- streams ------------------------------------------------------------------------------


class _Clauses:
    """The clauses of CREATE STREAM, in any order, each at most once."""

    def __init__(self, cursor: Cursor, spans: Spans) -> None:
        self._cursor, self._spans = cursor, spans
        self.timestamp_by: str | None = None
        self.slack_us: Micros = 0
        self.idle_timeout_us: Micros | None = None
        self.partition_by: tuple[str, ...] = ()
        self.retain_us: Micros | None = None
        self.on_error: OnError = "reject"
        self.max_ahead_us: Micros | None = None
        self.source: tuple[str | None, Options] = (None, Options())

    def read(self) -> None:
        rules = {
            "TIMESTAMP BY": self._timestamp, "SLACK": self._slack, "IDLE TIMEOUT": self._idle,
            "PARTITION BY": self._partition, "RETAIN": self._retain, "ON ERROR": self._on_error, "MAX AHEAD": self._max_ahead,
            "FROM": self._from,
        }  # fmt: skip
        seen: set[str] = set()
        while not self._cursor.at_end:
            start = self._cursor.span
            phrase = next((phrase for phrase in rules if self._cursor.accept(phrase)), None)
            if phrase is None:
                self._unknown(list(rules))
            if phrase in seen:
                raise ParseError(f"{phrase} is given twice", span=self._cursor.since(start), sql=self._cursor.sql)
            seen.add(phrase)
            rules[phrase]()

    def _unknown(self, phrases: list[str]) -> NoReturn:
        word = self._cursor.word
        first_words = {phrase.split()[0]: phrase for phrase in phrases}
        if word in first_words:
            hint: str | None = f"The clause is {first_words[word]}."
        elif word == "OPTIONS":
            hint = "OPTIONS follows the format: FROM 'format' OPTIONS (...)."
        else:
            hint = did_you_mean(word, first_words) or f"Clauses are {', '.join(phrases)}."
        raise ParseError(f"unexpected {self._cursor.shown}", hint=hint, span=self._cursor.span, sql=self._cursor.sql)

    def _timestamp(self) -> None:
        column = self._cursor.name("a column's name")
        self.timestamp_by, self._spans["timestamp_by"] = column.text, column.span

    def _slack(self) -> None:
        self.slack_us = parse_duration(self._cursor, "SLACK")

    def _idle(self) -> None:
        start = self._cursor.span
        self.idle_timeout_us = parse_duration(self._cursor, "IDLE TIMEOUT")
        if self.idle_timeout_us == 0:
            raise ParseError("IDLE TIMEOUT must be positive", span=self._cursor.since(start), sql=self._cursor.sql)

    def _partition(self) -> None:
        self.partition_by = _names(self._cursor, "partition_by", self._spans)

    def _retain(self) -> None:
        self.retain_us = parse_duration(self._cursor, "RETAIN")

    def _on_error(self) -> None:
        choices: dict[str, OnError] = {"REJECT": "reject", "FAIL": "fail"}
        self.on_error = self._cursor.choose(choices, "REJECT or FAIL")

    def _max_ahead(self) -> None:
        self.max_ahead_us = parse_duration(self._cursor, "MAX AHEAD")

    def _from(self) -> None:
        self.source = parse_source(self._cursor)


def _stream(cursor: Cursor, parser: CqlParser, if_not_exists: bool) -> CreateStream:
    spans: Spans = {}
    name = _own_name(cursor, "stream", spans)
    columns: list[ColumnDefinition] = []
    cursor.wrapped(lambda: _column(cursor, columns, spans))
    end_of_columns = cursor.last_span
    clauses = _Clauses(cursor, spans)
    clauses.read()
    if clauses.timestamp_by is None:
        guess = next((column.name for column in columns if column.type_name.upper().startswith("TIMESTAMP")), "ts")
        hint = f"Say which column holds the time of a row: TIMESTAMP BY {guess}."
        raise ParseError(f'stream "{name}" has no TIMESTAMP BY clause', hint=hint, span=end_of_columns, sql=cursor.sql)
    return CreateStream(
        name, tuple(columns), clauses.timestamp_by, clauses.slack_us, clauses.idle_timeout_us, clauses.partition_by, clauses.retain_us,
        *clauses.source, if_not_exists, clauses.on_error, clauses.max_ahead_us, text=cursor.sql, spans=spans,
    )  # fmt: skip


# --- columns --------------------------------------------------------------------------------


def _own_name(cursor: Cursor, kind: str, spans: Spans) -> str:
    name = cursor.name(f"the {kind}'s name")
    spans["name"] = name.span
    if cursor.at("."):
        raise ParseError(f"the name of a {kind} has no dots", span=cursor.span, sql=cursor.sql)
    return name.text


def _column(cursor: Cursor, columns: list[ColumnDefinition], spans: Spans) -> None:
    """name type"""
    name = cursor.name("a column's name")
    type_name, type_span = _type(cursor)
    spans[f"columns.{len(columns)}"] = name.span
    spans[f"columns.{len(columns)}.type"] = type_span
    columns.append(ColumnDefinition(name.text, type_name))


def _type(cursor: Cursor) -> tuple[str, Span]:
    """The words of a type up to the next comma, closing parenthesis or constraint, inner ones aside."""
    start, depth, text = cursor.span, 0, ""
    while not cursor.at_end:
        token = cursor.parser._curr
        if depth <= 0 and (token.token_type in (TokenType.COMMA, TokenType.R_PAREN) or cursor.word in _CONSTRAINTS):
            break
        source = cursor.sql[token.start : token.end + 1]
        depth += _NESTING.get(source, 0)
        glued = not text or not text[-1].isalnum() or not (source[0].isalnum() or source[0] in "_`")
        text += source if glued else f" {source}"
        cursor.parser._advance()
    if not text:
        cursor.unexpected("a type", hint="Every column has a type, such as INT or STRING.")
    return text, cursor.since(start)


def _names(cursor: Cursor, part: str, spans: Spans) -> tuple[str, ...]:
    """Columns with or without parentheses around them."""
    read = cursor.wrapped if cursor.at("(") else cursor.listed
    names = read(lambda: cursor.name("a column's name"))
    spans.update({f"{part}.{i}": name.span for i, name in enumerate(names)})
    return tuple(name.text for name in names)


# --- relations, queries, sinks --------------------------------------------------------------


def _relation(cursor: Cursor, parser: CqlParser, if_not_exists: bool) -> CreateRelation:
    spans: Spans = {}
    name = _own_name(cursor, "relation", spans)
    columns: list[ColumnDefinition] = []
    keys: list[tuple[str, ...]] = []

    def item() -> None:
        start = cursor.span
        if cursor.accept("PRIMARY KEY"):
            keys.append(_names(cursor, "primary_key", spans))
        else:
            _column(cursor, columns, spans)
            if cursor.accept("PRIMARY KEY"):
                keys.append((columns[-1].name,))
                spans["primary_key.0"] = start
        if len(keys) > 1:
            hint = "Name several columns in one: PRIMARY KEY (a, b)."
            raise ParseError("a relation has one PRIMARY KEY", hint=hint, span=cursor.since(start), sql=cursor.sql)

    cursor.wrapped(item)
    if not columns:
        raise ParseError(f'relation "{name}" has no columns', span=spans["name"], sql=cursor.sql)
    format_: str | None = None
    options, refresh_us = Options(), None
    if cursor.accept("FROM"):
        spans["format"] = cursor.span
        format_, options = parse_source(cursor)
        refresh_us = _refresh(cursor)
    elif cursor.at("REFRESH"):
        hint = "Only what is read FROM elsewhere is refreshed."
        raise ParseError(f'relation "{name}" has nothing to REFRESH', hint=hint, span=cursor.span, sql=cursor.sql)
    cursor.finish(("FROM", "OPTIONS", "REFRESH"))
    key = keys[0] if keys else ()
    return CreateRelation(name, tuple(columns), key, format_, options, if_not_exists, refresh_us, text=cursor.sql, spans=spans)


def _refresh(cursor: Cursor) -> Micros | None:
    """[REFRESH ON DEMAND | REFRESH EVERY 10 SECONDS]"""
    if not cursor.accept("REFRESH") or cursor.accept("ON DEMAND"):
        return None
    cursor.expect("EVERY", hint="Write REFRESH ON DEMAND, or REFRESH EVERY 10 SECONDS.")
    start = cursor.span
    length = parse_duration(cursor, "REFRESH EVERY")
    if length == 0:
        hint = "REFRESH ON DEMAND asks whenever somebody needs it."
        raise ParseError("REFRESH EVERY must be positive", hint=hint, span=cursor.since(start), sql=cursor.sql)
    return length


def _query(cursor: Cursor, parser: CqlParser, if_not_exists: bool) -> CreateQuery:
    spans: Spans = {}
    name = _own_name(cursor, "query", spans)
    retain_us = parse_duration(cursor, "RETAIN") if cursor.accept("RETAIN") else None
    begin = cursor.span
    start = _start(cursor) if cursor.accept("START") else None
    spans["start"] = cursor.since(begin)
    cursor.expect("AS")
    begin = cursor.span
    select = parser.parse_query()
    spans["select"] = cursor.since(begin)
    return CreateQuery(name, select, if_not_exists, retain_us=retain_us, start=start, text=cursor.sql, spans=spans)


def _start(cursor: Cursor) -> Start:
    """Behind START."""
    if cursor.accept("NOW"):
        return "now"
    cursor.expect("AT", hint="Write START NOW, or START AT TIMESTAMP '2024-01-31T12:00:00Z'.")
    return parse_timestamp(cursor)


def _sink(cursor: Cursor, parser: CqlParser, if_not_exists: bool) -> CreateSink:
    spans: Spans = {}
    name = _own_name(cursor, "sink", spans)
    cursor.expect("FROM")
    source = cursor.name("a query's name")
    spans["source"] = source.span
    cursor.expect("INTO")
    spans["format"] = cursor.span
    format_, options = parse_source(cursor)
    cursor.finish(("OPTIONS",))
    return CreateSink(name, source.text, format_, options, if_not_exists, text=cursor.sql, spans=spans)
