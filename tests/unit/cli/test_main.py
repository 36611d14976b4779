"""The edge of the program: what becomes of mistakes, bugs and interruptions, and the commands that need no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.cli import bench as bench_module
from millstream.cli import demo as demo_module
from millstream.cli.main import INTERRUPTED, run_program

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("arguments", "first_line"),
    [
        (["nonsense"], "[USAGE] No such command 'nonsense'."),
        (["run"], "[USAGE] Missing argument 'FILE.cql'."),
        (["run", "--frobnicate", "x"], "[USAGE] No such option: --frobnicate"),
        (["run", "nowhere.cql"], '[CONFIG_INVALID] cannot read "nowhere.cql": No such file or directory'),
        (
            ["run", "examples/trades.cql", "--until", "soon"],
            "[CONFIG_INVALID] --until: 'soon' is not a length of time such as '30 seconds'",
        ),
        (["run", "examples/trades.cql", "--master", "foo"], '[CONFIG_INVALID] the master "foo" is not understood'),
        (["run", "examples/trades.cql", "--master", "local[0]"], '[CONFIG_INVALID] the master "local[0]" is not understood'),
        (["test", "nowhere.slt"], '[CONFIG_INVALID] there is no "nowhere.slt"'),
        (["test", "tests/scripts/queries/example.slt", "--batching", "wild"], '[CONFIG_INVALID] "wild" is not a way of batching'),
        (["demo", "netwrok"], '[CONFIG_INVALID] there is no demo "netwrok"'),
        (["bench", "nothing_like_it"], '[CONFIG_INVALID] there is no benchmark "nothing_like_it"'),
    ],
)
def test_a_mistake_is_one_error_and_status_1(
    arguments: list[str], first_line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert run_program(arguments) == 1
    shown = capsys.readouterr()
    assert shown.err.splitlines()[0] == first_line
    assert "hint:" in shown.err
    assert "Traceback" not in shown.err


def fail(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(demo_module, "show_network", broken)
    return run_program(["demo"])


def test_a_bug_says_that_it_is_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("MILLSTREAM_DEBUG", raising=False)
    assert fail(ZeroDivisionError("oh"), monkeypatch) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("[INTERNAL] ZeroDivisionError: oh\n  hint: ")
    assert "MILLSTREAM_DEBUG=1" in shown
    assert "Traceback" not in shown


def test_a_bug_shows_its_traceback_when_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MILLSTREAM_DEBUG", "1")
    assert fail(ZeroDivisionError("oh"), monkeypatch) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interruption_is_clean(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(KeyboardInterrupt(), monkeypatch) == INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in ("run", "shell", "test", "explain", "demo", "bench"))


def test_demos_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["demo", "--list"]) == 0
    assert capsys.readouterr().out.startswith("network ")


def test_benchmarks_are_found_by_what_they_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "speed.py").write_text('"""How fast.\n\nMore.\n"""\nif __name__ == "__main__":\n    raise SystemExit(3)\n')
    (tmp_path / "data.py").write_text('"""Only a module."""\n')
    monkeypatch.setattr(bench_module, "_directory", lambda: tmp_path)
    assert run_program(["bench", "--list"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["speed", "How", "fast."]
    assert run_program(["bench", "speed"]) == 1


def test_workloads_are_listed_and_run_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    program = 'import sys\nif __name__ == "__main__":\n    print("w1\\tsums" if "--list" in sys.argv else sys.argv[1:])\n'
    (tmp_path / "compare.py").write_text(program)
    monkeypatch.setattr(bench_module, "_directory", lambda: tmp_path)
    assert run_program(["bench", "--list"]) == 0
    assert capfd.readouterr().out.splitlines()[1].split() == ["w1", "sums"]
    assert run_program(["bench", "w1", "--peer", "duckdb", "--peer", "spark"]) == 0
    assert capfd.readouterr().out.strip() == str(["w1", "--peer", "duckdb", "--peer", "spark", "--repeat", "1", "--scale", "1.0"])


def test_without_a_checkout_there_are_no_benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_module, "_directory", lambda: tmp_path)
    assert run_program(["bench"]) == 1
    assert "from a checkout" in capsys.readouterr().err


def test_plans_are_shown_without_java() -> None:
    program = [sys.executable, "-c", "from millstream.cli.main import main; main()", "explain", "examples/trades.cql"]
    environment = os.environ | {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    done = subprocess.run(program, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    headings = [line for line in done.stdout.splitlines() if line.startswith("-- ")]
    assert headings == ["-- hot", "-- bars", "-- large"]
    assert done.stdout.count("Physical plan") == 3
    assert "[RANGE 30 SECONDS SLIDE 30 SECONDS]" in done.stdout


def test_a_script_without_queries_has_no_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "only.cql"
    script.write_text("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts;")
    assert run_program(["explain", str(script)]) == 1
    assert "there is no query" in capsys.readouterr().err


def test_the_module_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "millstream.cli.main", "nonsense"], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("[USAGE] No such command 'nonsense'.")


def test_what_the_demo_names_next_can_be_run_from_where_the_user_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert demo_module.next_steps()[0][0].endswith("millstream run examples/trades.cql --until drained")
    assert not demo_module.next_steps()[0][0].startswith("cd")
    monkeypatch.chdir(tmp_path)
    assert demo_module.next_steps()[0][0].startswith(f"cd {ROOT} && ")
    assert [command for command, _ in demo_module.next_steps(tmp_path)] == ["millstream shell"]


def test_contributing_lists_only_folders_that_git_has() -> None:
    line = next(line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("tests/  "))
    for folder in line.removeprefix("tests/").split():
        assert any((ROOT / "tests" / folder).iterdir()), folder
