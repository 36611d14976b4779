"""`millstream run` without a JVM: statements, changes, and when it stops."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from inline import open_inline
from millstream.api import Database
from millstream.cli import run as run_module
from millstream.cli.follow import Pace
from millstream.cli.main import run_program

JOB = """
CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts;
CREATE QUERY volume AS SELECT sym, sum(size) AS n FROM trades [RANGE 10 SECONDS] GROUP BY sym;
INSERT INTO trades VALUES (TIMESTAMP '1970-01-01T00:00:01Z', 'A', 5), (TIMESTAMP '1970-01-01T00:00:02Z', 'A', 7);
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str], str]]:
    """Runs a script at one and the same location; status, lines of output, errors."""

    def open_(location: Path | None, master: str) -> Database:
        return open_inline(tmp_path / "db")

    monkeypatch.setattr(run_module, "open_database", open_)

    def run_(text: str, *arguments: str) -> tuple[int, list[str], str]:
        (tmp_path / "job.cql").write_text(text)
        status = run_program(["run", str(tmp_path / "job.cql"), *arguments])
        shown = capsys.readouterr()
        return status, shown.out.splitlines(), shown.err

    return run_


def test_without_sources_it_stops_when_everything_is_answered(run: Callable[..., tuple[int, list[str], str]]) -> None:
    status, lines, errors = run(JOB)
    assert status == 0, errors
    assert lines == [
        "volume  1970-01-01T00:00:01Z  + A, 5",
        "volume  1970-01-01T00:00:02Z  - A, 5",
        "volume  1970-01-01T00:00:02Z  + A, 12",
    ]
    assert "3 changes of 1 query; 2 rows in" in errors


def test_a_second_run_accepts_what_is_there_and_shows_only_what_is_new(run: Callable[..., tuple[int, list[str], str]]) -> None:
    run(JOB)
    status, lines, errors = run(JOB.replace("00:00:01Z", "00:00:05Z").replace("00:00:02Z", "00:00:06Z"))
    assert status == 0, errors
    assert [line.split("  ")[2] for line in lines] == ["- A, 12", "+ A, 17", "- A, 17", "+ A, 24"]


def test_a_script_that_alters_a_query_may_be_run_again(run: Callable[..., tuple[int, list[str], str]]) -> None:
    sql = (
        "CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts;\nCREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 2 SECONDS];\n"
        "ALTER QUERY q SET WINDOW [RANGE 1 HOUR];\nALTER QUERY q SET RETAIN 2 HOURS;\n"
    )
    assert run(sql)[0] == 0
    status, _, said = run(sql)
    assert status == 0, said


def test_another_definition_of_the_same_name_is_refused(run: Callable[..., tuple[int, list[str], str]]) -> None:
    run(JOB)
    status, lines, errors = run(JOB.replace("10 SECONDS", "20 SECONDS"))
    assert (status, lines) == (1, [])
    assert errors.startswith('[ALREADY_EXISTS] "volume" exists already, with another definition')
    assert "^^^^^^" in errors
    assert "RANGE 10 SECONDS" in errors.split("hint:")[1]


def test_questions_are_answered_where_they_stand(run: Callable[..., tuple[int, list[str], str]]) -> None:
    status, lines, _ = run(JOB + "SHOW STREAMS;")
    assert status == 0
    assert any("trades" in line for line in lines)
    assert "(2 rows)" in lines, "SYS is the other"


def test_an_anonymous_select_is_followed_too(run: Callable[..., tuple[int, list[str], str]]) -> None:
    status, lines, _ = run(JOB.replace("CREATE QUERY volume AS ", ""))
    assert status == 0
    assert [line.split("  ")[0] for line in lines] == ["query_1"] * 3


def test_a_time_to_stop(run: Callable[..., tuple[int, list[str], str]]) -> None:
    status, _, errors = run(JOB, "--until", "10 ms")
    assert status == 0
    assert "1 query; 2 rows in" in errors


def test_an_error_names_the_file_and_the_line(run: Callable[..., tuple[int, list[str], str]]) -> None:
    status, _, errors = run(JOB + "\nSELECT syn FROM trades [NOW];")
    assert status == 1
    assert "job.cql, line 6)" in errors.splitlines()[0]


def test_progress_does_not_mention_what_is_not_there_yet(
    run: Callable[..., tuple[int, list[str], str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run_module, "_LINE_EVERY_S", 0.0)
    monkeypatch.setattr(run_module, "_REFRESH_S", 0.01)
    status, _, errors = run(JOB.split("INSERT")[0], "--until", "100 ms")
    assert status == 0
    assert errors.splitlines()[0] == "no rows yet"
    assert errors.count("no rows yet") == 1
    assert "none yet" not in errors
    assert "lag -" not in errors


def test_progress_tells_rows_and_how_far_the_answers_are(tmp_path: Path) -> None:
    with open_inline(tmp_path / "pace") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, i INT) TIMESTAMP BY ts SLACK 1 SECOND")
        db.execute("CREATE QUERY q AS SELECT i FROM s [NOW]")
        pace = Pace(db)
        assert pace.line() == "no rows yet"
        db.insert("s", [(5_000_000, 1)])
        db.flush()
        assert re.fullmatch(r"1 rows in, [0-9,]+ rows/s, 0 late; answers final up to 1970-01-01T00:00:03.999999Z, lag 0.0 s", pace.line())
