"""Cutting a text into statements."""

from __future__ import annotations

import pytest

from millstream.cli.statements import is_complete, split_statements


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        (" ; ;\n-- only a comment\n;/* ; */", []),
        ("SHOW STREAMS", ["SHOW STREAMS"]),
        ("SHOW STREAMS;SHOW QUERIES;", ["SHOW STREAMS", "SHOW QUERIES"]),
        ("SELECT ';', \"a;b\", `c;d` FROM s; SHOW SINKS", ["SELECT ';', \"a;b\", `c;d` FROM s", "SHOW SINKS"]),
        ("SELECT 'it''s; fine', 'esc\\';aped';x", ["SELECT 'it''s; fine', 'esc\\';aped'", "x"]),
        ("SELECT 1 -- no; not here\n, 2; x", ["SELECT 1 -- no; not here\n, 2", "x"]),
        ("SELECT /* ; -- */ 1; x", ["SELECT /* ; -- */ 1", "x"]),
        ("SELECT 'open; to the end", ["SELECT 'open; to the end"]),
    ],
)
def test_statements_end_at_semicolons_that_count(text: str, pieces: list[str]) -> None:
    assert [piece.sql for piece in split_statements(text)] == pieces


def test_each_statement_knows_its_line() -> None:
    text = "-- title\nCREATE STREAM s;\n\n\nSELECT\n  1;\nSHOW STREAMS"
    assert [(piece.line, piece.sql.split()[0]) for piece in split_statements(text)] == [(1, "--"), (5, "SELECT"), (7, "SHOW")]


@pytest.mark.parametrize("text", ["SHOW STREAMS;", "a;\nb;  -- done", "SELECT ';' ; /* bye */\n"])
def test_complete(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize("text", ["", "SHOW STREAMS", "SELECT ';", "a; b", "SELECT 1 -- ;", "SELECT `a; ", "x; /* open"])
def test_incomplete(text: str) -> None:
    assert not is_complete(text)
