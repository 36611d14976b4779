"""Statements other than queries: what is read, in which order, and where its parts stand."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.core.errors import ParseError, WindowInvalid
from millstream.language.parser import parse, parse_one
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


def part(statement: Statement, name: str, index: int | None = None, detail: str | None = None) -> str:
    span = statement.place(name, index, detail)
    assert span is not None
    return statement.text[span.start : span.end]


def test_create_stream() -> None:
    statement = parse_one(
        "CREATE STREAM trades (ts TIMESTAMP, sym STRING, m MAP<STRING, ARRAY<DECIMAL(10, 2)>>) TIMESTAMP BY ts SLACK 5 SECONDS"
        " IDLE TIMEOUT 30 SECONDS PARTITION BY sym, ts RETAIN 2 HOURS FROM 'kafka'"
        " OPTIONS (subscribe 'trades', a.b = 'c', n 5, t TRUE, 'x y' -1)"
    )
    assert statement == CreateStream(
        "trades",
        (
            ColumnDefinition("ts", "TIMESTAMP"),
            ColumnDefinition("sym", "STRING"),
            ColumnDefinition("m", "MAP<STRING,ARRAY<DECIMAL(10,2)>>"),
        ),
        "ts",
        slack_us=5_000_000,
        idle_timeout_us=30_000_000,
        partition_by=("sym", "ts"),
        retain_us=7_200_000_000,
        format="kafka",
        options={"subscribe": "trades", "a.b": "c", "n": "5", "t": "true", "x y": "-1"},
    )
    assert part(statement, "name") == "trades"
    assert part(statement, "columns", 1) == "sym"
    assert part(statement, "columns", 2, "type") == "MAP<STRING, ARRAY<DECIMAL(10, 2)>>"
    assert part(statement, "timestamp_by") == "ts"
    assert part(statement, "partition_by", 0) == "sym"


def test_clauses_come_in_any_order() -> None:
    one = parse_one("CREATE STREAM s (t TIMESTAMP) RETAIN 1 DAY FROM 'rate' SLACK 1 SECOND TIMESTAMP BY t")
    other = parse_one("create stream s (t TIMESTAMP) timestamp by t slack 1000 milliseconds from 'rate' retain 24 hours")
    assert one == other


def test_create_stream_if_not_exists_with_the_least() -> None:
    statement = parse_one("CREATE STREAM IF NOT EXISTS s (t TIMESTAMP) TIMESTAMP BY t")
    assert statement == CreateStream("s", (ColumnDefinition("t", "TIMESTAMP"),), "t", if_not_exists=True)


def test_words_of_the_language_are_fine_as_names() -> None:
    statement = parse_one("CREATE STREAM stream (timestamp TIMESTAMP, range INT, rows INT, `order by` INT) TIMESTAMP BY timestamp")
    assert isinstance(statement, CreateStream)
    assert [column.name for column in statement.columns] == ["timestamp", "range", "rows", "order by"]


def test_create_relation() -> None:
    statement = parse_one("CREATE RELATION symbols (sym STRING PRIMARY KEY, sector STRING) FROM 'parquet' OPTIONS (path '/x')")
    columns = (ColumnDefinition("sym", "STRING"), ColumnDefinition("sector", "STRING"))
    assert statement == CreateRelation("symbols", columns, ("sym",), "parquet", {"path": "/x"})
    assert part(statement, "primary_key", 0) == "sym"
    assert parse_one("CREATE RELATION symbols (sym STRING, sector STRING, PRIMARY KEY (sym, sector))") == CreateRelation(
        "symbols", columns, ("sym", "sector")
    )


def test_create_query_keeps_the_text_of_its_query() -> None:
    statement = parse_one("CREATE QUERY hot AS SELECT  sym FROM trades [NOW]")
    assert isinstance(statement, CreateQuery)
    assert statement.name == "hot"
    assert statement.select_text == "SELECT  sym FROM trades [NOW]"


def test_create_sink() -> None:
    assert parse_one("CREATE SINK out FROM q INTO 'parquet' OPTIONS (path 'p')") == CreateSink("out", "q", "parquet", {"path": "p"})


def test_insert() -> None:
    statement = parse_one("INSERT INTO r (a, b) VALUES (1, 'x'), (2, upper('y'))")
    assert isinstance(statement, InsertValues)
    assert (statement.target, statement.columns, len(statement.rows), statement.at) == ("r", ("a", "b"), 2, None)
    assert statement.rows[0] == (exp.Literal.number(1), exp.Literal.string("x"))
    assert part(statement, "columns", 1) == "b"


def test_insert_select() -> None:
    statement = parse_one("INSERT INTO r SELECT a FROM t AT TIMESTAMP '1970-01-01T00:00:01Z'")
    assert isinstance(statement, InsertValues)
    assert statement.rows == ()
    assert statement.at == 1_000_000
    assert part(statement, "at") == "AT TIMESTAMP '1970-01-01T00:00:01Z'"
    table = statement.select.find(exp.Table)  # type: ignore[union-attr]
    assert table is not None
    assert not table.alias


def test_delete_and_update() -> None:
    delete = parse_one("DELETE FROM r WHERE a = 1 AT TIMESTAMP '1970-01-01 00:00:02'")
    assert delete == DeleteFrom("r", exp.EQ(this=exp.column("a"), expression=exp.Literal.number(1)), 2_000_000)
    assert parse_one("DELETE FROM r") == DeleteFrom("r")
    update = parse_one("UPDATE r SET a = 1, b = 'x' WHERE c")
    assert update == UpdateSet("r", {"a": exp.Literal.number(1), "b": exp.Literal.string("x")}, exp.column("c"))
    assert part(update, "assignments", 1) == "b"


def test_commands() -> None:
    assert parse_one("DROP STREAM IF EXISTS s") == Drop("stream", "s", if_exists=True)
    assert parse_one("drop sink s") == Drop("sink", "s")
    assert parse_one("SHOW QUERIES") == Show("queries")
    assert parse_one("DESCRIBE x") == parse_one("DESC x") == Describe("x")


def test_explain() -> None:
    statement = parse_one("EXPLAIN ANALYZE SELECT a FROM t")
    inner = parse_one("SELECT a FROM t")
    assert isinstance(inner, Select)
    assert statement == Explain(inner, analyze=True)
    assert isinstance(statement, Explain)
    assert statement.statement.text == statement.text


def test_a_script_is_cut_at_its_semicolons() -> None:
    script = "-- first\nSHOW STREAMS;\n\n SELECT ';' AS x FROM `a;b` /* ; */ ;; SHOW SINKS -- end; really"
    statements = parse(script)
    assert [statement.text for statement in statements] == ["SHOW STREAMS", "SELECT ';' AS x FROM `a;b`", "SHOW SINKS"]


def test_places_are_relative_to_the_statement() -> None:
    first, second = parse("SHOW STREAMS;  DROP QUERY here;")
    assert isinstance(first, Show)
    assert part(second, "name") == "here"


def test_nothing_to_parse() -> None:
    assert parse("") == parse(" ; ;; -- x") == []
    with pytest.raises(ParseError, match="there is no statement"):
        parse_one(" ; ")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE STREAM x",
        "CREATE STREAM x ()",
        "CREATE STREAM x (a) TIMESTAMP BY a",
        "CREATE STREAM x (a TIMESTAMP)",
        "CREATE STREAM x (a TIMESTAMP) TIMESTAMP a",
        "CREATE STREAM x (a TIMESTAMP) TIMESTAMP BY a SLACK",
        "CREATE STREAM x (a TIMESTAMP) TIMESTAMP BY a SLACK -5 SECONDS",
        "CREATE STREAM x (a TIMESTAMP) TIMESTAMP BY a IDLE TIMEOUT 0 SECONDS",
        "CREATE STREAM x (a TIMESTAMP) TIMESTAMP BY a TIMESTAMP BY a",
        "CREATE STREAM x (a TIMESTAMP) TIMESTAMP BY a FROM kafka",
        "CREATE STREAM x (a TIMESTAMP) TIMESTAMP BY a FROM 'kafka' OPTIONS (a 'b', A 'c')",
        "CREATE STREAM x (a TIMESTAMP NOT NULL) TIMESTAMP BY a",
        "CREATE STREAM x.y (a TIMESTAMP) TIMESTAMP BY a",
        "CREATE OR REPLACE STREAM x (a TIMESTAMP) TIMESTAMP BY a",
        "CREATE RELATION r (a INT PRIMARY KEY, b INT PRIMARY KEY)",
        "CREATE RELATION r (PRIMARY KEY (a))",
        "CREATE QUERY AS SELECT 1",
        "CREATE QUERY q AS DROP STREAM s",
        "CREATE SINK s FROM q",
        "INSERT INTO r",
        "INSERT INTO r VALUES (1,)",
        "INSERT INTO r VALUES (1) AT TIMESTAMP 'soon'",
        "INSERT INTO r VALUES (1) AT '2020-01-01'",
        "UPDATE r SET a = 1, A = 2",
        "DELETE FROM r WHERE",
        "DROP STREAM a b",
        "SHOW STREAM",
        "EXPLAIN DROP STREAM x",
        "ALTER TABLE x ADD COLUMN y INT",
    ],
)
def test_damaged_statements(sql: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_one(sql)
    assert caught.value.span is not None
    assert caught.value.sql == sql


def test_an_unknown_unit_is_window_invalid_everywhere() -> None:
    with pytest.raises(WindowInvalid):
        parse_one("CREATE STREAM x (a TIMESTAMP) TIMESTAMP BY a SLACK 5 PARSECS")
