"""The runner finds what does not hold, says where, and can complete a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inline import open_inline
from millstream.cli import script_test as script_test_module
from millstream.cli.main import run_program
from millstream.cli.script_test import find_scripts, run_one
from millstream.cli.scripts.format import parse_script, rewrite
from millstream.cli.scripts.runner import Outcome, error_matches
from millstream.core.errors import ColumnNotFound, ConfigInvalid

START = """\
statement ok
CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts

query q
SELECT sym, sum(size) AS n FROM trades [RANGE 10 SECONDS] GROUP BY sym

push trades
0,A,5
4,A,7

advance 4

"""
INLINE = frozenset({"millstream", "inline"})


def run(text: str, batching: str = "default") -> Outcome:
    return run_one(parse_script(START + text, "x.slt"), open_inline, batching, INLINE)


def details(outcome: Outcome) -> list[str]:
    return [line.strip() for failure in outcome.failures for line in failure.details]


def test_what_holds_passes() -> None:
    assert run("changes q\n+ A,12\n\nchanges q\n\nresult q\nA,12\n").passed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("changes q\n+ A,13\n", ["missing   + A,13", "extra     + A,12"]),
        ("changes q\n", ["extra     + A,12"]),
        ("changes q\n+ A,12\n+ A,12\n", ["+ A,12", "missing   + A,12"]),
        ("changes q by instant\n@0 + A,5\n@4 - A,5\n@5 + A,12\n", ["@0 + A,5", "@4 - A,5", "missing   @5 + A,12", "extra     @4 + A,12"]),
        ("result q\nA,12\nB,1\n", ["A,12", "missing   B,1"]),
        ("result q\n", ["extra     A,12"]),
        ("query once\nSELECT n FROM q\n----\n13\n", ["missing   13", "extra     12"]),
    ],
)
def test_a_check_that_fails_shows_what_is_wrong(text: str, found: list[str]) -> None:
    outcome = run(text)
    assert details(outcome) == found
    assert [failure.line for failure in outcome.failures] == [13]


def test_a_failed_check_does_not_end_the_script_but_a_failed_statement_does() -> None:
    outcome = run("result q\nB,1\n\nresult q\nC,1\n\nstatement ok\nSELECT nothing FROM trades\n\nresult q\nD,1\n")
    assert [failure.line for failure in outcome.failures] == [13, 16, 19]
    assert "COLUMN_NOT_FOUND" in outcome.failures[-1].details[0]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("statement error\nSHOW STREAMS\n", "succeeded, though an error was expected"),
        ("statement error PARSE_ERROR\nSELECT nothing FROM trades\n", "another error than PARSE_ERROR"),
        ("changes other\n", "QUERY_NOT_FOUND"),
        ("push other\n1,A\n", "NOT_FOUND"),
        ("push trades\n1,A\n", "3 cells are wanted, 2 are there"),
        ("push trades\n5,A,many\n", "is not a value of type INT"),
        ("push trades\n5,A,3000000000\n", 'x.slt:14: 3000000000 for column "size" does not fit INT'),
        ("result q\nA,twelve\n", "is not a value of type BIGINT"),
        ("query once\nSELECT sym FROM trades [NOW]\n----\n", "not answered once"),
    ],
)
def test_blocks_that_cannot_be_done_fail_with_a_reason(block: str, words: str) -> None:
    outcome = run(block)
    assert words in "\n".join(details(outcome))


def test_the_line_of_a_bad_row_is_named() -> None:
    assert "x.slt:15" in details(run("push trades\n5,A,1\n6,A,x\n"))[0]


def test_conditions_leave_blocks_out() -> None:
    assert run("skipif inline\nresult q\nwrong,1\n\nonlyif spark\nresult q\nwrong,1\n\nonlyif inline\nresult q\nA,12\n").passed
    assert not run("skipif spark\nresult q\nwrong,1\n").passed


@pytest.mark.parametrize("batching", ["default", "rows", "one", "random:5"])
def test_completing_makes_a_script_that_passes(batching: str) -> None:
    text = START + "changes q by instant\n\nresult q\n# why\nB,1\n\nadvance 20\n\nchanges q\n\nresult q\nA,1\n"
    script = parse_script(text, "x.slt")
    completed = rewrite(script, run_one(script, open_inline, batching, INLINE).replacements)
    tail = "changes q by instant\n@0 + A,5\n@4 - A,5\n@4 + A,12\n\nresult q\n# why\nA,12\n\nadvance 20\n\nchanges q\n- A,12\n\nresult q\n"
    assert completed == START + tail
    assert run_one(parse_script(completed, "x.slt"), open_inline, "default", INLINE).passed


def test_an_error_matches_by_code_or_by_regex() -> None:
    error = ColumnNotFound('column "prise" does not exist')
    assert error_matches(error, "column_not_found")
    assert error_matches(error, r"\[COLUMN_NOT_FOUND\] column .* not exist")
    assert error_matches(error, "")
    assert not error_matches(error, "PARSE_ERROR")


def test_scripts_are_found_once_and_below_directories(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("a/2.slt", "a/b/1.slt", "a/readme.md"):
        (tmp_path / name).write_text("")
    found = find_scripts([tmp_path / "a", tmp_path / "a" / "2.slt"])
    assert [path.name for path in found] == ["2.slt", "1.slt"]


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="there is no"):
        find_scripts([tmp_path / "none.slt"])
    with pytest.raises(ConfigInvalid, match="no stream scripts"):
        find_scripts([tmp_path])


@pytest.fixture
def millstream_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs `millstream test` over scripts of these texts, without a JVM; status and output."""
    monkeypatch.setattr(script_test_module, "open_database", lambda location, master, tick_interval: open_inline(location))
    monkeypatch.chdir(tmp_path)

    def run_(*arguments: str, **scripts: str) -> tuple[int, str]:
        for name, text in scripts.items():
            (tmp_path / f"{name}.slt").write_text(text)
        status = run_program(["test", *arguments, *(f"{name}.slt" for name in scripts)])
        return status, capsys.readouterr().out

    return run_


def test_a_malformed_script_fails_and_the_others_are_run(millstream_test: Callable[..., tuple[int, str]]) -> None:
    status, shown = millstream_test(bad="changse q\n", good=START + "result q\nA,12\n")
    assert status == 1
    assert "FAIL  bad.slt: the script cannot be read" in shown
    assert "bad.slt:1" in shown
    assert "ok    good.slt" in shown
    assert shown.splitlines()[-1].startswith("1 passed, 1 failed")


def test_an_empty_script_is_no_success(millstream_test: Callable[..., tuple[int, str]]) -> None:
    status, shown = millstream_test(empty="# only a thought\n")
    assert status == 1
    assert "empty.slt: there is no block in it" in shown
    assert shown.splitlines()[-1].startswith("0 passed, 1 failed")


def test_a_completed_script_has_not_failed(millstream_test: Callable[..., tuple[int, str]]) -> None:
    status, shown = millstream_test("--complete", wrong=START + "result q\nA,13\n")
    assert status == 0
    assert "done  wrong.slt:13: result q" in shown
    assert "missing   A,13" in shown
    assert shown.splitlines()[-1].startswith("0 passed, 1 completed, 0 failed")
    assert Path("wrong.slt").read_text() == START + "result q\nA,12\n"


def test_what_cannot_be_completed_has_failed(millstream_test: Callable[..., tuple[int, str]]) -> None:
    status, shown = millstream_test("--complete", wrong=START + "result q\nA,13\n\nstatement ok\nSELCT 1\n")
    assert status == 1
    assert "done  wrong.slt:13" in shown
    assert "FAIL  wrong.slt:16" in shown
    assert shown.splitlines()[-1].startswith("0 passed, 0 completed, 1 failed")
