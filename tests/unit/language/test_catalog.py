"""The catalog: one name space, look-ups with hints, and definitions that make no sense."""

from __future__ import annotations

import pytest

from millstream.core.errors import (
    AlreadyExists,
    ColumnNotFound,
    DuplicateColumn,
    MillstreamError,
    NotSupported,
    QueryNotFound,
    RelationNotFound,
    SinkNotFound,
    StreamNotFound,
    TypeMismatch,
)
from millstream.core.schema import Field, Schema, type_from_name
from millstream.language.catalog import Catalog, QueryEntry, RelationEntry, SinkEntry, StreamEntry
from millstream.language.parser import parse_one
from millstream.language.statements import CreateQuery, CreateRelation, CreateSink, CreateStream


def extended(catalog: Catalog, sql: str) -> Catalog:
    statement = parse_one(sql)
    match statement:
        case CreateStream():
            return catalog.with_stream(statement)
        case CreateRelation():
            return catalog.with_relation(statement)
        case CreateSink():
            return catalog.with_sink(statement)
        case CreateQuery():
            return catalog.with_query(statement, (Field("n", type_from_name("INT")),), ("n",), is_stream=False)
    raise AssertionError(sql)


def catalog_of(*sqls: str) -> Catalog:
    catalog = Catalog.empty()
    for sql in sqls:
        catalog = extended(catalog, sql)
    return catalog


TRADES = (
    "CREATE STREAM Trades (Ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts SLACK 1 SECOND PARTITION BY SYM RETAIN 1 DAY FROM 'rate'"
)
SYMBOLS = "CREATE RELATION symbols (Sym STRING PRIMARY KEY, sector STRING)"
HOT = "CREATE QUERY hot AS SELECT count(*) AS n FROM trades [NOW]"
OUT = "CREATE SINK out FROM HOT INTO 'console'"


def test_entries() -> None:
    catalog = catalog_of(TRADES, SYMBOLS, HOT, OUT)
    schema = Schema.of(Ts="TIMESTAMP", sym="STRING", size="INT")
    assert catalog.stream("TRADES") == StreamEntry("Trades", schema, "Ts", 1_000_000, None, ("sym",), 86_400_000_000, "rate", {})
    assert catalog.relation("symbols") == RelationEntry("symbols", Schema.of(Sym="STRING", sector="STRING"), ("Sym",))
    query = QueryEntry("hot", "SELECT count(*) AS n FROM trades [NOW]", (Field("n", type_from_name("INT")),), ("n",), False)
    assert catalog.query("Hot") == query
    assert catalog.sink("OUT") == SinkEntry("out", "hot", "console", {})
    assert [entry.name for entry in catalog] == ["Trades", "symbols", "hot", "out"]
    assert "tRaDeS" in catalog
    assert "trade" not in catalog
    assert [entry.name for entry in catalog.streams] == ["Trades"]


def test_a_catalog_is_a_value() -> None:
    before = catalog_of(TRADES)
    after = extended(before, SYMBOLS)
    assert "symbols" not in before
    assert "symbols" in after
    assert "trades" not in after.without("TRADES")
    assert "trades" in after


@pytest.mark.parametrize(
    "sql", [TRADES, "CREATE RELATION trades (a INT)", "CREATE QUERY TRADES AS SELECT 1", "CREATE SINK Trades FROM hot INTO 'x'"]
)
def test_one_name_space(sql: str) -> None:
    with pytest.raises(AlreadyExists):
        extended(catalog_of(TRADES, HOT), sql)


def test_look_ups() -> None:
    catalog = catalog_of(TRADES, SYMBOLS, HOT, OUT)
    for look_up, error, hint in (
        (lambda: catalog.stream("trade"), StreamNotFound, 'Did you mean "Trades"?'),
        (lambda: catalog.relation("symbol"), RelationNotFound, 'Did you mean "symbols"?'),
        (lambda: catalog.query("hott"), QueryNotFound, 'Did you mean "hot"?'),
        (lambda: catalog.sink("oud"), SinkNotFound, 'Did you mean "out"?'),
        (lambda: catalog.find("symbls"), StreamNotFound, 'Did you mean "symbols"?'),
        (lambda: catalog.find_kind("query", "xyz"), QueryNotFound, None),
    ):
        with pytest.raises(error) as caught:
            look_up()
        assert caught.value.hint == hint


def test_the_wrong_kind_is_named() -> None:
    with pytest.raises(RelationNotFound, match='"Trades" is a stream, not a relation'):
        catalog_of(TRADES).relation("trades")


def test_a_sink_needs_a_query() -> None:
    with pytest.raises(QueryNotFound) as caught:
        catalog_of(TRADES, "CREATE SINK out FROM hot INTO 'console'")
    assert (
        str(caught.value)
        == "[QUERY_NOT_FOUND] there is no query \"hot\"\n  CREATE SINK out FROM hot INTO 'console'\n                       ^^^"
    )


@pytest.mark.parametrize(
    ("sql", "error", "rendered"),
    [
        (
            "CREATE STREAM s (ts TIMESTAMP, a INT, A INT) TIMESTAMP BY ts",
            DuplicateColumn,
            '[DUPLICATE_COLUMN] column "A" is defined twice\n'
            "  CREATE STREAM s (ts TIMESTAMP, a INT, A INT) TIMESTAMP BY ts\n"
            "                                        ^",
        ),
        (
            "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY tz",
            ColumnNotFound,
            '[COLUMN_NOT_FOUND] column "tz" does not exist in stream "s"\n'
            "  CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY tz\n"
            "                                              ^^",
        ),
        (
            "CREATE STREAM s (ts TIMESTAMP, symbol STRING) TIMESTAMP BY ts PARTITION BY symbl",
            ColumnNotFound,
            '[COLUMN_NOT_FOUND] column "symbl" does not exist in stream "s"\n'
            "  CREATE STREAM s (ts TIMESTAMP, symbol STRING) TIMESTAMP BY ts PARTITION BY symbl\n"
            "                                                                             ^^^^^\n"
            '  hint: Did you mean "symbol"?',
        ),
        (
            "CREATE STREAM s (ts BIGINT) TIMESTAMP BY ts",
            TypeMismatch,
            '[TYPE_MISMATCH] TIMESTAMP BY needs a TIMESTAMP column, but "ts" is BIGINT\n'
            "  CREATE STREAM s (ts BIGINT) TIMESTAMP BY ts\n"
            "                                           ^^",
        ),
        (
            "CREATE STREAM s (ts TIMESTAMP, a INTT) TIMESTAMP BY ts",
            TypeMismatch,
            '[TYPE_MISMATCH] column "a": "INTT" is not a type\n'
            "  CREATE STREAM s (ts TIMESTAMP, a INTT) TIMESTAMP BY ts\n"
            "                                   ^^^^\n"
            '  hint: Did you mean "INT"?',
        ),
        (
            "CREATE STREAM s (ts TIMESTAMP, _seq INT) TIMESTAMP BY ts",
            NotSupported,
            '[NOT_SUPPORTED] the name "_seq" is reserved\n'
            "  CREATE STREAM s (ts TIMESTAMP, _seq INT) TIMESTAMP BY ts\n"
            "                                 ^^^^\n"
            "  hint: Names that start with _ are kept for the system.",
        ),
    ],
)
def test_definitions_that_make_no_sense(sql: str, error: type[MillstreamError], rendered: str) -> None:
    with pytest.raises(error) as caught:
        catalog_of(sql)
    assert str(caught.value) == rendered


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("CREATE STREAM s (ts TIMESTAMP, a ARRAY<FOO>) TIMESTAMP BY ts", TypeMismatch),
        ("CREATE STREAM s (ts TIMESTAMP, a DECIMAL(50, 2)) TIMESTAMP BY ts", TypeMismatch),
        ("CREATE STREAM s (ts TIMESTAMP, a MAP<INT>) TIMESTAMP BY ts", TypeMismatch),
        ("CREATE STREAM s (ts TIMESTAMP, a " + "ARRAY<" * 5000 + "INT" + ">" * 5000 + ") TIMESTAMP BY ts", TypeMismatch),
        ("CREATE STREAM s (ts TIMESTAMP, a INT) TIMESTAMP BY ts PARTITION BY a, A", DuplicateColumn),
        ("CREATE RELATION r (a INT, PRIMARY KEY (b))", ColumnNotFound),
        ("CREATE RELATION r (a INT, a INT)", DuplicateColumn),
        ("CREATE RELATION _r (a INT)", NotSupported),
    ],
)
def test_other_definitions_that_make_no_sense(sql: str, error: type[MillstreamError]) -> None:
    with pytest.raises(error) as caught:
        catalog_of(sql)
    assert caught.value.span is not None


def test_timestamp_ntz_is_fine() -> None:
    assert catalog_of("CREATE STREAM s (at TIMESTAMP_NTZ) TIMESTAMP BY at").stream("s").timestamp_by == "at"
