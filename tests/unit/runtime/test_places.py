"""Errors that come from below the language are told at their place in the statement all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from millstream.core.errors import MillstreamError


@pytest.mark.parametrize(
    ("sql", "code", "underlined"),
    [
        ("INSERT INTO s VALUES (NULL, 1)", "TYPE_MISMATCH", "s"),
        ("INSERT INTO s (v) VALUES (1)", "TYPE_MISMATCH", "s"),
        ("INSERT INTO r VALUES (1, 1), (NULL, 2)", "TYPE_MISMATCH", "r"),
        ("UPDATE r SET k = NULL", "TYPE_MISMATCH", "r"),
        ("DROP STREAM s", "IN_USE", "s"),
        (
            "INSERT INTO s VALUES (TIMESTAMP '2020-01-01', 1) AT TIMESTAMP '2020-01-01T00:00:00Z'",
            "NOT_SUPPORTED",
            "AT TIMESTAMP '2020-01-01T00:00:00Z'",
        ),
        ("CREATE SINK o FROM q INTO 'nonsense' OPTIONS (path 'x')", "NOT_SUPPORTED", "'nonsense'"),
    ],
)
def test_place_of_what_the_language_does_not_know(tmp_path: Path, sql: str, code: str, underlined: str) -> None:
    db = open_inline(tmp_path / "db")
    db.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
    db.execute("CREATE RELATION r (k INT PRIMARY KEY, v INT)")
    db.execute("CREATE QUERY q AS SELECT v FROM s [NOW]")
    db.execute("INSERT INTO r VALUES (7, 7)")
    with pytest.raises(MillstreamError) as caught:
        db.execute(sql)
    error = caught.value
    assert error.code == code
    assert error.sql == sql
    assert error.span is not None
    assert sql[error.span.start : error.span.end] == underlined
    assert error.hint
