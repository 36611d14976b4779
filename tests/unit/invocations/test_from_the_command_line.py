"""Registered queries in `millstream run` and in the shell."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from inline import open_inline
from millstream.api import Database
from millstream.cli import run as run_module
from millstream.cli.main import run_program
from millstream.cli.shell import known_names
from millstream.cli.shell_session import ShellSession

JOB = """
CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts;
REGISTER QUERY big AS SELECT sym, size FROM trades WHERE size > 5 BEGIN NOW - 10 SECONDS END NOW;
INSERT INTO trades VALUES (TIMESTAMP '1970-01-01T00:00:01Z', 'A', 9), (TIMESTAMP '1970-01-01T00:00:02Z', 'B', 7);
INVOKE big;
"""


def test_a_file_may_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def open_(location: Path | None, master: str) -> Database:
        return open_inline(tmp_path / "db")

    monkeypatch.setattr(run_module, "open_database", open_)
    (tmp_path / "job.cql").write_text(JOB)
    assert run_program(["run", str(tmp_path / "job.cql")]) == 0
    assert "(1 row)" in capsys.readouterr().out, "the newest is not final"
    (tmp_path / "job.cql").write_text(JOB.replace("00:00:01Z", "00:00:05Z").replace("00:00:02Z", "00:00:12Z"))
    assert run_program(["run", str(tmp_path / "job.cql")]) == 0
    assert "(2 rows)" in capsys.readouterr().out, "those of seconds 2 and 5"
    (tmp_path / "job.cql").write_text(JOB.replace("size > 5", "size > 6"))
    assert run_program(["run", str(tmp_path / "job.cql")]) == 1
    assert '"big" exists already, with another definition' in capsys.readouterr().err


def test_in_the_shell(tmp_path: Path) -> None:
    out, errors = StringIO(), StringIO()
    with open_inline(tmp_path / "db") as db:
        shell = ShellSession(db, Console(file=out, width=500), Console(file=errors, width=500), interactive=False)
        shell.run(JOB.replace("INVOKE big;", ""))
        shell.run("\\advance 2")
        assert "query big is registered\n" in out.getvalue()
        out.truncate(0)
        shell.run("INVOKE big; SHOW REGISTERED;")
        assert "(2 rows)" in out.getvalue()
        assert "partial" in out.getvalue()
        shell.run("\\d")
        assert "registered" in out.getvalue()
        assert {"big", "sym", "size"} <= set(known_names(db))
        shell.run("INVOKE bigg;")
        assert 'Did you mean "big"?' in errors.getvalue()
