"""Questions that are answered once: what becomes of the mistakes in them."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.logger import PySparkLogger

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.errors import ColumnNotFound, ConfigInvalid, MillstreamError, Span
from millstream.language.parser import parse_one
from millstream.language.statements import Select
from millstream.plan.python_function import PythonFunction
from millstream.runtime.once import run_once
from millstream.spark import session as session_module
from millstream.spark.once import told
from millstream.spark.session import create_session, errors_told_by_us


@pytest.fixture
def db(tmp_path: Path) -> Database:
    database = open_inline(tmp_path / "db")
    database.execute("CREATE RELATION r (k INT, price DOUBLE)")
    return database


def ask(db: Database, sql: str, runner: InlineRunner | None = None) -> pa.Table:
    statement = parse_one(sql)
    assert isinstance(statement, Select)
    statements = db._statements
    return run_once(statement.select, statements.catalog, statements._finished_table, runner or InlineRunner(), sql)


@pytest.mark.parametrize(
    ("sql", "code", "underlined", "hint"),
    [
        ("SELECT prise FROM r", "COLUMN_NOT_FOUND", "prise", 'Did you mean "price"?'),
        ("select  r . prise -- so\nfrom r", "COLUMN_NOT_FOUND", "prise", 'Did you mean "price"?'),
        ("SELECT k FROM r\nWHERE\n  zz > 1", "COLUMN_NOT_FOUND", "zz", None),
        ("SELECT x.k FROM r", "COLUMN_NOT_FOUND", "x", None),
        ("SELECT nofun(k) FROM r", "FUNCTION_NOT_FOUND", "nofun", None),
        ("SELECT k, sum(price) FROM r", "NOT_GROUPED", "k", None),
        ("SELECT k FROM r AS a, r AS b", "COLUMN_AMBIGUOUS", "k", None),
    ],
)
def test_a_mistake_is_told_in_our_form(db: Database, sql: str, code: str, underlined: str, hint: str | None) -> None:
    with pytest.raises(MillstreamError) as caught:
        ask(db, sql)
    error = caught.value
    assert (error.code, error.hint) == (code, hint)
    assert error.sql == sql
    assert error.span is not None
    assert sql[error.span.start : error.span.end] == underlined


def test_no_exception_of_duckdb_gets_out_of_the_inline_runner(db: Database) -> None:
    for sql in ("SELECT zz FROM r", "SELECT nofun(k) FROM r", "SELECT k + array(1) + DATE '2020-01-01' FROM r"):
        with pytest.raises(MillstreamError) as caught:
            db.execute(sql)
        assert caught.value.code != "INTERNAL"


@pytest.mark.parametrize(
    ("sql", "complained", "underlined"),
    [
        ("select abs( k ) from r", "ABS(k)", "abs( k )"),
        ("SELECT 1 FROM r WHERE k<>1 AND  price", "price", "price"),
        ("SELECT k FROM r", "_millstream_0", None),
    ],
)
def test_a_place_in_the_text_sent_is_moved_to_the_same_words_of_the_users(
    db: Database, sql: str, complained: str, underlined: str | None
) -> None:
    class Complaining(InlineRunner):
        def query_once(self, sql: str, tables: Mapping[str, pa.Table], functions: Sequence[PythonFunction] = ()) -> pa.Table:
            start = sql.index(complained)
            raise ColumnNotFound("no", span=Span(start, start + len(complained)), sql=sql)

    with pytest.raises(ColumnNotFound) as caught:
        ask(db, sql, Complaining())
    span = caught.value.span
    assert (None if span is None else sql[span.start : span.end]) == underlined


@pytest.mark.parametrize("word", ["ISTREAM", "dstream", "RSTREAM"])
def test_to_stream_is_refused_not_ignored(db: Database, word: str) -> None:
    sql = f"SELECT {word}(k) FROM r"
    with pytest.raises(MillstreamError) as caught:
        ask(db, sql)
    assert caught.value.code == "NOT_SUPPORTED"
    assert caught.value.span == Span(7, 14)
    with pytest.raises(MillstreamError, match=word.upper()):
        db.execute(sql)


@pytest.mark.parametrize(
    ("condition", "parameters", "text", "code", "message", "hint"),
    [
        (
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            {"objectName": "`r`.`prise`", "proposal": "`r`.`price`, `r`.`k`"},
            "A column, variable, or function parameter with name `r`.`prise` cannot be resolved.",
            "COLUMN_NOT_FOUND",
            'column "prise" does not exist',
            'Did you mean "price"?',
        ),
        (
            "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
            {},
            '[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] Cannot resolve "abs(st)" due to data type mismatch: The first parameter requires'
            ' the "NUMERIC" type, however "st" has the type "STRUCT<a: BIGINT>". SQLSTATE: 42K09; line 1 pos 7;\n\'Project',
            "TYPE_MISMATCH",
            'the first parameter requires the "NUMERIC" type, however "st" has the type "STRUCT<a: BIGINT>"',
            None,
        ),
        (
            "PARSE_SYNTAX_ERROR",
            {"error": "'>'", "hint": ""},
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near '>'. SQLSTATE: 42601 (line 1, pos 7)",
            "PARSE_ERROR",
            "unexpected '>'",
            None,
        ),
        ("UNRESOLVED_COLUMN", {"renamed": "x"}, "Column `x` is not there.", "COLUMN_NOT_FOUND", 'column "x" is not there', None),
        ("NEW_IN_SPARK_9", {}, "[NEW_IN_SPARK_9] Something else.", "QUERY_FAILED", "something else", None),
        ("", {}, "", "QUERY_FAILED", "the query failed", None),
    ],
)
def test_what_spark_says_becomes_one_plain_sentence(
    condition: str, parameters: dict[str, str], text: str, code: str, message: str, hint: str | None
) -> None:
    error = told(condition, parameters, text)
    assert (error.code, error.message, error.hint) == (code, message, hint)


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_what_pyspark_logs_of_an_error_is_not_shown_while_we_tell_it(name: str) -> None:
    out = StringIO()
    logger = PySparkLogger.getLogger(name)
    handler = logging.StreamHandler(out)
    logger.addHandler(handler)
    try:
        with errors_told_by_us():
            logger.exception("a trace", errorClass="X")
            other = threading.Thread(target=lambda: logger.exception("of another thread", errorClass="X"))
            other.start()
            other.join()
        logger.exception("afterwards", errorClass="X")
    finally:
        logger.removeHandler(handler)
    assert "a trace" not in out.getvalue()
    assert "of another thread" in out.getvalue()
    assert "afterwards" in out.getvalue()


@pytest.mark.parametrize("master", ["foo", "", "local[0]", "local[]", "localhost", "spark:", "yarn-client", "local[*] "])
def test_a_master_that_is_not_understood_starts_no_jvm(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ConfigInvalid, match="is not understood"):
        create_session(master)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[4]", "local[4,2]", "local[*, 2]", "local-cluster[2,1,1024]", "yarn", "spark://h:7077", "k8s://u"]
)
def test_masters_that_spark_knows_are_understood(master: str) -> None:
    assert session_module._MASTERS.fullmatch(master)


def test_the_warehouse_is_a_temporary_directory() -> None:
    assert Path(session_module._warehouse().name).parent == Path(tempfile.gettempdir())
    assert session_module._warehouse() is session_module._warehouse()
