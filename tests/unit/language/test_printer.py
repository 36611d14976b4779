"""parse_one(to_sql(s)) == s, over the corpus and over statements drawn at random."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from millstream.core.instant import BEGINNING, LAST
from millstream.language.column_names import column_name
from millstream.language.nodes import StreamWindow, WindowEdge
from millstream.language.parser import parse_one
from millstream.language.printer import to_sql
from millstream.language.statements import (
    ColumnDefinition,
    CreateQuery,
    CreateRelation,
    CreateSink,
    CreateStream,
    DeleteFrom,
    Describe,
    Drop,
    Explain,
    InsertValues,
    Select,
    Show,
    Statement,
    UpdateSet,
)
from unit.language.corpus import QUERIES, STATEMENTS


@pytest.mark.parametrize("sql", STATEMENTS)
def test_the_corpus_prints_back(sql: str) -> None:
    statement = parse_one(sql)
    printed = to_sql(statement)
    assert parse_one(printed) == statement
    assert to_sql(parse_one(printed)) == printed


@pytest.mark.parametrize("sql", QUERIES)
def test_printing_keeps_the_names_of_columns(sql: str) -> None:
    before, after = parse_one(sql).select, parse_one(to_sql(parse_one(sql))).select  # type: ignore[union-attr]
    assert [column_name(item) for item in after.expressions] == [column_name(item) for item in before.expressions]


@pytest.mark.parametrize(
    ("sql", "printed"),
    [
        ("select sum(a) from s t [range 300 seconds]", "SELECT sum(a) FROM s [RANGE 5 MINUTES] AS t"),
        ("select istream(distinct a) from s [rows unbounded]", "SELECT ISTREAM(DISTINCT a) FROM s [UNBOUNDED]"),
        ("select 1L, date '2020-01-01' from s", "SELECT 1L, DATE '2020-01-01' FROM s"),
        (
            "create stream s (t timestamp) slack 60 seconds timestamp by t",
            "CREATE STREAM s (t timestamp) TIMESTAMP BY t SLACK 1 MINUTE",
        ),
        ("drop query `select`", "DROP QUERY `select`"),
        (
            "insert into r values (1) at timestamp '1970-01-01'",
            "INSERT INTO r VALUES (1) AT TIMESTAMP '1970-01-01T00:00:00Z'",
        ),
    ],
)
def test_printed(sql: str, printed: str) -> None:
    assert to_sql(parse_one(sql)) == printed


# --- statements drawn at random --------------------------------------------------------------

plain_names = st.sampled_from(["a", "trades", "Sym", "x1", "order", "select", "timestamp", "range", "rows", "if", "as", "primary", "from"])
odd_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)
names = plain_names | odd_names
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
lengths = st.integers(1, 10**15)
instants = st.integers(BEGINNING, LAST)
options = st.dictionaries(texts.filter(bool), texts, max_size=3).filter(lambda d: len({key.lower() for key in d}) == len(d))
types = st.sampled_from(["INT", "timestamp", "decimal(10,2)", "MAP<STRING,ARRAY<INT>>", "struct<a:int,b:string>", "INTERVAL DAY TO SECOND"])
columns = st.lists(st.builds(ColumnDefinition, names, types), min_size=1, max_size=4).map(tuple)
name_tuples = st.lists(names, max_size=3).map(tuple)


def identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


@st.composite
def windows(draw: st.DrawFn) -> StreamWindow:
    match draw(st.sampled_from(["now", "unbounded", "range", "exclusive", "slide", "rows", "between"])):
        case "range":
            return StreamWindow(kind="range", range_us=draw(lengths))
        case "exclusive":
            return StreamWindow(kind="range", range_us=draw(lengths), exclusive=True)
        case "slide":
            return StreamWindow(kind="range", range_us=draw(lengths), slide_us=draw(lengths))
        case "rows":
            keys = [exp.column(identifier(name)) for name in draw(st.lists(names, max_size=2))]
            extra = {"range_us": draw(lengths)} if draw(st.booleans()) else {}
            return StreamWindow(kind="rows", rows=draw(st.integers(1, 10**15)), partition_by=keys or None, **extra)
        case "between":
            if draw(st.booleans()):
                begin, end = sorted(draw(st.tuples(instants, instants)))
                return StreamWindow(kind="between", begin=WindowEdge(instant=begin), end=WindowEdge(instant=end))
            end, begin = sorted(draw(st.tuples(lengths, lengths)))
            return StreamWindow(kind="between", begin=WindowEdge(back_us=begin), end=WindowEdge(back_us=end))
        case kind:
            return StreamWindow(kind=kind)


expressions = st.recursive(
    st.builds(lambda name: exp.column(identifier(name)), names)
    | st.builds(lambda table, name: exp.column(identifier(name), table=identifier(table)), names, names)
    | st.builds(lambda value: exp.Literal.number(value), st.integers(0, 10**9))
    | st.builds(exp.Literal.string, texts)
    | st.builds(exp.Null),
    lambda inner: (
        st.builds(lambda a, b: exp.Paren(this=exp.Add(this=a, expression=b)), inner, inner)
        | st.builds(lambda a, b: exp.Paren(this=exp.And(this=exp.Paren(this=a), expression=exp.Paren(this=b))), inner, inner)
        | st.builds(lambda a, b: exp.Paren(this=exp.LT(this=a, expression=b)), inner, inner)
        | st.builds(lambda a: exp.Paren(this=exp.Neg(this=exp.Paren(this=a))), inner)
        | st.builds(lambda items: exp.Anonymous(this="my_function", expressions=items), st.lists(inner, max_size=3))
    ),
    max_leaves=6,
)


@st.composite
def queries(draw: st.DrawFn) -> exp.Select:
    items = draw(st.lists(expressions, min_size=1, max_size=3))
    select = exp.select(*(exp.alias_(item, identifier(draw(names)), copy=False) if draw(st.booleans()) else item for item in items))
    table = exp.Table(this=identifier(draw(names)))
    if draw(st.booleans()):
        table.set("stream_window", draw(windows()))
    if draw(st.booleans()):
        table.set("alias", exp.TableAlias(this=identifier(draw(names))))
    select.set("from_", exp.From(this=table))
    if draw(st.booleans()):
        select.set("where", exp.Where(this=draw(expressions)))
    if draw(st.booleans()):
        select.set("to_stream", draw(st.sampled_from(["istream", "dstream", "rstream"])))
        if draw(st.booleans()):
            select.set("distinct", exp.Distinct())
    return select


maybe_length = st.none() | lengths
maybe_instant = st.none() | instants
sources = st.tuples(st.none(), st.just({})) | st.tuples(texts, options)


@st.composite
def statements(draw: st.DrawFn) -> Statement:
    flag, name = draw(st.booleans()), draw(names)
    match draw(st.integers(0, 10)):
        case 0:
            clauses = (draw(st.integers(0, 10**15)), draw(maybe_length), draw(name_tuples), draw(maybe_length))
            return CreateStream(name, draw(columns), draw(names), *clauses, *draw(sources), flag)
        case 1:
            return CreateRelation(name, draw(columns), draw(name_tuples), *draw(sources), flag)
        case 2:
            return CreateQuery(name, draw(queries()), flag)
        case 3:
            return CreateSink(name, draw(names), draw(texts), draw(options), flag)
        case 4:
            width = draw(st.integers(1, 3))
            rows = draw(st.lists(st.tuples(*[expressions] * width), min_size=1, max_size=3).map(tuple))
            return InsertValues(name, draw(name_tuples), rows, None, draw(maybe_instant))
        case 5:
            return InsertValues(name, (), (), draw(queries()), draw(maybe_instant))
        case 6:
            return DeleteFrom(name, draw(st.none() | expressions), draw(maybe_instant))
        case 7:
            assignments = draw(st.dictionaries(plain_names, expressions, min_size=1, max_size=3))
            return UpdateSet(name, assignments, draw(st.none() | expressions), draw(maybe_instant))
        case 8:
            return Drop(draw(st.sampled_from(["stream", "relation", "query", "sink"])), name, flag)
        case 9:
            return draw(st.sampled_from([Show("streams"), Show("relations"), Show("queries"), Show("sinks"), Describe(name)]))
        case _:
            return Explain(Select(draw(queries())), flag)


@given(statements())
def test_random_statements_print_back(statement: Statement) -> None:
    assert parse_one(to_sql(statement)) == statement
