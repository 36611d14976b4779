"""What the shell does with what is typed, without a prompt and without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from inline import open_inline
from millstream.cli.shell import chunks, known_names
from millstream.cli.shell_session import ShellSession

TRADES = "CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts;"
ROWS = "INSERT INTO trades VALUES (TIMESTAMP '1970-01-01T00:00:01Z', 'A', 5), (TIMESTAMP '1970-01-01T00:00:02Z', 'A', 7);"


class Typed:
    """A session in a pipe, and what it said."""

    def __init__(self, path: Path) -> None:
        self._out, self._errors = StringIO(), StringIO()
        self.db = open_inline(path)
        self.session = ShellSession(self.db, Console(file=self._out, width=500), Console(file=self._errors, width=500), interactive=False)

    def run(self, text: str) -> str:
        self._out.truncate(0)
        self._out.seek(0)
        self.session.run(text)
        return self._out.getvalue()

    @property
    def errors(self) -> str:
        return self._errors.getvalue()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Typed]:
    typed = Typed(tmp_path / "db")
    yield typed
    typed.db.close()


def test_statements_are_run_and_a_select_shows_its_changes(shell: Typed) -> None:
    assert shell.run(TRADES) == "ok\n"
    assert shell.run(ROWS) == "ok\n"
    assert shell.run("\\advance 2") == ""
    lines = shell.run("SELECT sym, sum(size) AS n FROM trades [RANGE 10 SECONDS] GROUP BY sym;").splitlines()
    assert lines[-2].endswith("+ A, 12")
    assert lines[-1] == "(1 change, up to 1970-01-01T00:00:02Z)"
    assert shell.errors == ""


def test_a_named_query_goes_on_and_can_be_asked(shell: Typed) -> None:
    shell.run(TRADES)
    assert (
        shell.run("CREATE QUERY volume AS SELECT sym, sum(size) AS n FROM trades [RANGE 10 SECONDS] GROUP BY sym;") == "query volume runs\n"
    )
    shell.run(ROWS)
    shell.run("\\advance trades 1970-01-01T00:00:02Z")
    text = shell.run("SELECT n FROM volume;")
    assert text.split()[-2:] == ["(1", "row)"]
    assert "12" in text.split()


def test_several_statements_at_once(shell: Typed) -> None:
    assert shell.run(f"{TRADES}\n{ROWS}\nSHOW STREAMS;").startswith("ok\nok\n")


def test_an_error_is_shown_in_the_projects_form_and_the_session_goes_on(shell: Typed) -> None:
    shell.run(TRADES)
    shell.run("SELECT syn FROM trades [NOW];")
    assert shell.errors.splitlines()[0] == '[COLUMN_NOT_FOUND] column "syn" does not exist in stream "trades"'
    assert "^^^" in shell.errors
    assert 'Did you mean "sym"?' in shell.errors
    assert shell.session.failed
    assert "trades" in shell.run("SHOW STREAMS;")


def test_d_lists_everything_and_describes_one(shell: Typed) -> None:
    shell.run(TRADES)
    listing = shell.run("\\d")
    assert [line for line in ("streams", "relations", "queries", "sinks") if line in listing.splitlines()] == [
        "streams",
        "relations",
        "queries",
        "sinks",
    ]
    assert "trades" in listing
    assert "TIMESTAMP" in shell.run("\\d trades")


def test_explain_shows_the_plans(shell: Typed) -> None:
    shell.run(TRADES)
    text = shell.run("\\explain SELECT sym FROM trades [RANGE 10 SECONDS];")
    assert "Logical plan" in text
    assert "Physical plan" in text
    assert "[RANGE 10 SECONDS]" in text


def test_timing_can_be_switched_on(shell: Typed) -> None:
    assert "on" in shell.run("\\timing")
    assert "ms" in shell.run(TRADES)
    assert "off" in shell.run("\\timing")
    assert "ms" not in shell.run(ROWS)


def test_help_names_the_commands(shell: Typed) -> None:
    text = shell.run("\\?")
    assert all(command in text for command in ("\\d", "\\q", "\\explain", "\\timing", "\\advance"))


def test_q_leaves(shell: Typed) -> None:
    assert shell.session.run("SHOW STREAMS;")
    assert not shell.session.run("\\q")


@pytest.mark.parametrize(
    ("text", "words"), [("\\x", 'no command "\\x"'), ("\\advance soon", "not an instant"), ("\\advance", "not an instant")]
)
def test_bad_commands_are_errors(shell: Typed, text: str, words: str) -> None:
    shell.run(text)
    assert words in shell.errors


def test_piped_lines_are_put_together() -> None:
    lines = ["\n", "CREATE STREAM s (ts TIMESTAMP)\n", "  TIMESTAMP BY ts;\n", "\\d\n", "SHOW STREAMS; SHOW\n", "QUERIES;\n", "SHOW SINKS"]
    assert [chunk.split()[0] for chunk in chunks(iter(lines))] == ["CREATE", "\\d", "SHOW", "SHOW"]


def test_completion_knows_objects_and_columns(shell: Typed) -> None:
    shell.run(TRADES)
    shell.run("CREATE QUERY volume AS SELECT sym AS symbol FROM trades [NOW];")
    assert set(known_names(shell.db)) == {"trades", "ts", "sym", "size", "volume", "symbol"}


def test_queries_show_all_their_changes_after_reopening_too(tmp_path: Path) -> None:
    first = Typed(tmp_path / "again")
    first.run(f"{TRADES} CREATE QUERY volume AS SELECT sym, sum(size) AS n FROM trades [RANGE 10 SECONDS] GROUP BY sym; {ROWS}")
    first.run("\\advance 2")
    first.db.flush()
    shown = first.db.execute("SHOW QUERIES")
    first.db.close()
    again = Typed(tmp_path / "again")
    assert isinstance(shown, pa.Table)
    assert shown["changes"].to_pylist() == [again.db.query("volume").changes().num_rows] == [3]
    assert again.db.execute("SHOW QUERIES")["changes"].to_pylist() == [3]  # type: ignore[index]
    again.db.close()


def test_what_has_no_note_shows_none(shell: Typed) -> None:
    shell.run(f"{TRADES} CREATE QUERY volume AS SELECT sym FROM trades [NOW];")
    assert "NULL" not in shell.run("DESCRIBE trades;")
    assert "NULL" not in shell.run("SHOW QUERIES;").replace("NULL", "", 1)  # the frontier, which is not there yet
