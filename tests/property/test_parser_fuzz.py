"""Damaged statements: whatever is typed, the answer is a statement, a plan, or one clean error.

Valid statements of the corpus are cut into tokens and damaged: tokens deleted, doubled, swapped, replaced by
others of the corpus, characters inserted and removed, the text truncated.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.errors import MillstreamError, ParseError, WindowInvalid
from millstream.language.binder import bind_query
from millstream.language.parser import parse
from millstream.language.printer import to_sql
from millstream.language.statements import CreateQuery, CreateRelation, CreateStream, Explain, Select, Statement
from unit.language.corpus import STATEMENTS, catalog

CATALOG = catalog()
PIECES = [re.findall(r"\w+|'[^']*'|\s+|[^\w\s]", sql) for sql in STATEMENTS]
VOCABULARY = sorted({piece for pieces in PIECES for piece in pieces})
ODDITIES = [
    "'", '"', "`", "(", ")", "[", "]", "{", "}", "<", ">", ";", "--", "/*", "*/", "\n", "\x00", "\x1b", "\ud800", "é", "🦆", "\\", "$",
    "@", "?", ":", "::", "->", "=>", "|>", "..", "1e", "1e999", "0x", "9" * 400, "-", "r'", "x'zz'", "${a}", "%", "/*+ HINT */",
    "sqlglot.meta a=b",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> str:
    pieces = list(draw(st.sampled_from(PIECES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(pieces) - 1, 0)))
        match draw(st.sampled_from(["delete", "insert", "double", "swap", "truncate", "oddity", "character", "shuffle"])):
            case "delete":
                pieces[at : at + draw(st.integers(1, 3))] = []
            case "insert":
                pieces.insert(at, draw(st.sampled_from(VOCABULARY)))
            case "double":
                pieces[at:at] = pieces[at : at + draw(st.integers(1, 6))]
            case "swap" if pieces:
                other = draw(st.integers(0, len(pieces) - 1))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case "truncate":
                pieces = pieces[:at]
            case "oddity":
                pieces.insert(at, draw(st.sampled_from(ODDITIES)))
            case "character":
                pieces.insert(at, draw(st.characters()))
            case "shuffle" if pieces:
                pieces[at] = "".join(draw(st.permutations(pieces[at])))
    return draw(st.sampled_from(["", "", " "])).join(pieces)


def check_error(error: MillstreamError) -> None:
    assert error.sql is not None
    assert error.span is not None
    assert 0 <= error.span.start <= len(error.sql)
    assert error.span.start < error.span.end
    assert str(error).startswith(f"[{error.code}] {error.message}")


def bind(statement: Statement) -> None:
    match statement:
        case Select() | CreateQuery() | Explain():
            bind_query(statement.select, CATALOG, statement.text)
        case CreateStream():
            CATALOG.without("trades").with_stream(statement)
        case CreateRelation():
            CATALOG.without("symbols").with_relation(statement)


@given(damaged())
@settings(max_examples=1500)
def test_a_damaged_statement_gives_a_clean_error_or_a_plan(sql: str) -> None:
    try:
        statements = parse(sql)
    except (ParseError, WindowInvalid) as error:
        check_error(error)
        return
    for statement in statements:
        assert to_sql(statement)
        try:
            bind(statement)
        except MillstreamError as error:
            check_error(error)


@given(st.text(max_size=60))
@settings(max_examples=500)
def test_any_text_at_all(sql: str) -> None:
    try:
        parse(sql)
    except (ParseError, WindowInvalid) as error:
        check_error(error)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_the_corpus_itself_is_sound(sql: str) -> None:
    assert len(parse(sql)) == 1
